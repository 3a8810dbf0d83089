//! The audit log: one line for every request, who did what with what result, and never what was in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use lanyard_testkit::Lanyard;
use lanyard_tests::Cluster;
use serde_json::{Value, json};

const PASSWORD: &str = "correct-horse-battery-staple";

#[test]
fn every_request_is_recorded_and_no_secret() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("audit.log");
    let server = Lanyard::setup().arg("--audit-log").arg(&log).start()?;
    let mut cluster = Cluster::of(server)?;
    let mut admin = cluster.api()?;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({"metadata": {"name": "safe"}, "stringData": {"password": PASSWORD}});
    admin.post(secrets, &secret)?.expect(201)?;
    let account = json!({"metadata": {"name": "robot"}});
    admin.post("/api/v1/namespaces/default/serviceaccounts", &account)?.expect(201)?;
    let token = cluster.account_token("default", "robot")?;
    cluster.bearer(&token)?.get(&format!("{secrets}/safe"))?.expect(403)?;
    cluster.bearer("forged")?.get(&format!("{secrets}/safe"))?.expect(401)?;
    let mut masked = cluster.api()?.header("Impersonate-User", "vera");
    masked.get(&format!("{secrets}/safe"))?.expect(403)?;
    let mut greedy = cluster.user_api("greta", &[])?.header("Impersonate-User", "admin");
    greedy.get(secrets)?.expect(403)?;
    cluster.anonymous()?.get("/version")?.expect(200)?;
    // What was still on its way to the file is there after the end.
    cluster.server.terminate()?;

    let mode = fs::metadata(&log)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let events = read(&log)?;
    let robot = "system:serviceaccount:default:robot";
    check(
        &events,
        &[
            ("lanyard-admin", "", "create", "/api/v1/namespaces/default/secrets", 201),
            ("lanyard-admin", "", "create", "/api/v1/namespaces/default/serviceaccounts", 201),
            (
                "lanyard-admin",
                "",
                "create",
                "/api/v1/namespaces/default/serviceaccounts/robot/token",
                201,
            ),
            (robot, "", "get", "/api/v1/namespaces/default/secrets/safe", 403),
            ("", "", "get", "/api/v1/namespaces/default/secrets/safe", 401),
            ("lanyard-admin", "vera", "get", "/api/v1/namespaces/default/secrets/safe", 403),
            ("greta", "", "list", "/api/v1/namespaces/default/secrets", 403),
            ("system:anonymous", "", "get", "/version", 200),
        ],
    )?;
    let named = &events[3]["objectRef"];
    ensure!(
        named["resource"] == "secrets"
            && named["namespace"] == "default"
            && named["name"] == "safe",
        "{named}"
    );
    let text = fs::read_to_string(&log)?;
    for hidden in [PASSWORD, "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ", &token, "forged"] {
        ensure!(!text.contains(hidden), "the log holds {hidden}");
        ensure!(!cluster.server.log().contains(hidden), "the server's own log holds {hidden}");
    }
    Ok(())
}

type Expected<'a> = (&'a str, &'a str, &'a str, &'a str, u16);

fn check(events: &[Value], expected: &[Expected<'_>]) -> Result<()> {
    let found: Vec<Expected<'_>> = events
        .iter()
        .map(|event| {
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
            (
                text("/user/username"),
                text("/impersonatedUser/username"),
                text("/verb"),
                text("/requestURI"),
                code.and_then(|code| code.try_into().ok()).unwrap_or_default(),
            )
        })
        .collect();
    ensure!(found == expected, "{found:#?}");
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines().map(|line| serde_json::from_str(line).context("a line is no JSON")).collect()
}
