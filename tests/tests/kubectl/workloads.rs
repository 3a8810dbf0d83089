//! Pods, services, quotas and workloads as people make and look at them. Nothing runs them here.

use anyhow::{Result, ensure};
use lanyard_testkit::wait_until;
use lanyard_tests::{Cluster, SOON};

use crate::ages_hidden;

#[test]
fn a_deployment_is_made_scaled_and_changed() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.ok("create deployment web --image=nginx:1.27 --replicas=2 --port=80")?;
    ages_hidden(
        admin,
        "get deploy -o wide",
        "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR\n\
         web 0/2 0 0 - nginx nginx:1.27 app=web",
    )?;
    admin.ok("scale deployment web --replicas=5")?;
    admin.prints("get deploy web -o jsonpath={.spec.replicas}", "5")?;
    admin.ok("scale deployment web --current-replicas=5 --replicas=3")?;
    ensure!(admin.fails("scale deployment web --current-replicas=5 --replicas=1")?.contains("3"));
    admin.ok("set image deployment/web nginx=nginx:1.28")?;
    admin.prints("get deploy web -o jsonpath={..image}", "nginx:1.28")?;
    admin.ok("set env deployment/web COLOUR=green")?;
    admin.ok("set resources deployment/web --limits=cpu=200m,memory=512Mi")?;
    ensure!(admin.ok("describe deployment web")?.contains("COLOUR:"));
    admin.ok("rollout pause deployment/web")?;
    admin.ok("rollout resume deployment/web")?;
    admin.ok("rollout history deployment/web")?;
    let said = admin.fails("patch deploy web --type=merge -p '{\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"x\"}}}}'")?;
    ensure!(said.contains("field is immutable"), "{said}");
    admin.ok("delete deployment web")?;
    Ok(())
}

#[test]
fn services_get_addresses_and_keep_them() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.ok("create service clusterip web --tcp=80:8080")?;
    let address = admin.ok("get svc web -o jsonpath={.spec.clusterIP}")?;
    ensure!(address.starts_with("10."), "{address}");
    admin.ok("create service nodeport shop --tcp=80:8080 --node-port=30333")?;
    admin.ok("create service loadbalancer front --tcp=443:8443")?;
    admin.ok("create service externalname far --external-name=example.com")?;
    admin.prints("get svc shop -o jsonpath={.spec.ports[0].nodePort}", "30333")?;
    let said = admin.fails("create service nodeport other --tcp=80:8080 --node-port=30333")?;
    ensure!(said.contains("provided port is already allocated"), "{said}");
    admin.ok("patch svc web --type=merge -p '{\"spec\":{\"selector\":{\"app\":\"x\"}}}'")?;
    ensure!(admin.ok("get svc web -o jsonpath={.spec.clusterIP}")? == address);
    ensure!(admin.ok("describe svc front")?.contains("LoadBalancer"));
    admin.ok("delete svc kubernetes")?;
    Ok(())
}

#[test]
fn a_pod_runs_as_the_default_account_and_ends_at_once() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.ok("create ns town")?;
    wait_until("the default service account", SOON, || {
        Ok((admin.run("get sa default -n town")?.code == 0).then_some(()))
    })?;
    admin.ok("run tool --image=busybox -n town --restart=Never --labels=a=b -- sleep 5")?;
    admin.prints("get pod tool -n town -o jsonpath={.spec.serviceAccountName}", "default")?;
    ages_hidden(admin, "get pods -n town", "NAME READY STATUS RESTARTS AGE\ntool 0/1 Pending 0 -")?;
    ensure!(admin.ok("describe pod tool -n town")?.contains("QoS Class:"));
    ensure!(admin.ok("get all -n town -o name")?.contains("pod/tool"));
    admin.ok("delete pod tool -n town")?;
    ensure!(admin.fails("get pod tool -n town")?.contains("not found"));
    let said = admin.cannot_create(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: A, image: i}]}}",
    )?;
    ensure!(said.contains("spec.containers[0].name: Invalid value: \"A\""), "{said}");
    Ok(())
}

#[test]
fn quotas_and_nodes_are_kept() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.ok("create quota small --hard=pods=2,requests.cpu=1")?;
    ensure!(admin.ok("describe quota small")?.contains("small"));
    ensure!(admin.fails("create quota odd --hard=odd=2")?.contains("standard resource"));
    admin.create("{apiVersion: v1, kind: Node, metadata: {name: n1}}")?;
    admin.ok("cordon n1")?;
    ages_hidden(
        admin,
        "get nodes",
        "NAME STATUS ROLES AGE VERSION\nn1 Unknown,SchedulingDisabled <none> -",
    )?;
    admin.ok("taint node n1 a=b:NoSchedule")?;
    admin.ok("delete node n1")?;
    Ok(())
}
