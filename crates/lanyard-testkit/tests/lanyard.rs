//! The fixture of the binary under test keeps its own promises: it drives what a person would type, and what it
//! starts comes back after a power cut with the same address.

use std::time::Duration;

use anyhow::Result;
use lanyard_testkit::{Lanyard, wait_until};

#[test]
fn kubectl_talks_to_a_fresh_server() -> Result<()> {
    let mut lanyard = Lanyard::start()?;
    let names = lanyard.kubectl(&["get", "namespaces", "--output=name"])?.success()?;
    assert!(names.contains("namespace/default\n"), "{names}");
    let refused = lanyard.kubectl(&["get", "namespace", "nowhere"])?.failure()?;
    assert!(refused.contains("NotFound"), "{refused}");
    Ok(())
}

#[test]
fn a_killed_server_comes_back_at_the_same_address() -> Result<()> {
    let mut lanyard = Lanyard::start()?;
    let before = lanyard.kubeconfig()?.server;
    create_namespace(&mut lanyard, "kept")?;
    lanyard.kill9()?;
    lanyard.kubectl(&["get", "namespaces"])?.failure()?;

    lanyard.restart()?;
    assert_eq!(lanyard.kubeconfig()?.server, before);
    lanyard.kubectl(&["get", "namespace", "kept"])?.success()?;
    lanyard.terminate()
}

#[test]
fn a_running_kubectl_can_be_followed() -> Result<()> {
    let mut lanyard = Lanyard::start()?;
    let watch =
        lanyard.admin()?.start("watch", &["get", "namespaces", "--watch", "--output=name"])?;
    let shows = |name: &str| {
        let line = format!("namespace/{name}\n");
        wait_until(&line, Duration::from_secs(30), || {
            Ok(watch.stdout().contains(&line).then_some(()))
        })
    };
    shows("default")?;
    create_namespace(&mut lanyard, "later")?;
    shows("later")
}

/// From a file, because `kubectl create namespace` would send protobuf.
fn create_namespace(lanyard: &mut Lanyard, name: &str) -> Result<()> {
    let object = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}");
    let args = ["create", "-f", "-"];
    lanyard.admin()?.run_with_input(&args, &object)?.success()?;
    Ok(())
}
