"""A program as users of the Python client write it.

Each feature is tried on its own; what was found goes to the file that PEER_RESULTS names, one JSON line per feature.
"""

import base64
import json
import logging
import os
import threading
import time
from pathlib import Path

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer

NAMESPACE = "python"

# Long enough for a busy machine; what works takes far less.
PATIENCE = 40


def main():
    # An informer that is stopped complains about the watch that it broke off.
    logging.getLogger("kubernetes.informer").setLevel(logging.CRITICAL)
    config.load_kube_config(os.environ["KUBECONFIG"])
    client.CoreV1Api().create_namespace({"metadata": {"name": NAMESPACE}})
    for feature, attempt in STEPS:
        try:
            attempt()
        except Exception as error:  # Whatever goes wrong is what was found.
            report({"feature": feature, "ok": False, "error": f"{type(error).__name__}: {error}"})
        else:
            report({"feature": feature, "ok": True})


def report(finding):
    with open(os.environ["PEER_RESULTS"], "a", encoding="utf-8") as results:
        results.write(json.dumps(finding) + "\n")


def expect(what, found, expected):
    if found != expected:
        raise AssertionError(f"{what}: got {found!r}, expected {expected!r}")


def refused(code, attempt):
    """The body of the answer to what the server must refuse."""
    try:
        attempt()
    except ApiException as error:
        expect("code", error.status, code)
        return error.body
    raise AssertionError("it was not refused")


def eventually(what, is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up waiting for {what}")
        time.sleep(0.05)


def config_map(name, data=None, **metadata):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, **metadata), data=data)


def create(name, data=None, **metadata):
    return client.CoreV1Api().create_namespaced_config_map(NAMESPACE, config_map(name, data, **metadata))


def discovery():
    groups = {group.name for group in client.ApisApi().get_api_versions().groups}
    if "rbac.authorization.k8s.io" not in groups:
        raise AssertionError(f"groups: {groups}")
    resources = {resource.name for resource in client.CoreV1Api().get_api_resources().resources}
    if not {"configmaps", "namespaces/status"} <= resources:
        raise AssertionError(f"resources: {resources}")
    expect("major", client.VersionApi().get_code().major, "1")


def objects():
    core = client.CoreV1Api()
    made = create("typed", {"a": "1"})
    if not made.metadata.uid or not made.metadata.creation_timestamp:
        raise AssertionError(f"what the server sets is missing: {made.metadata}")
    made.data["b"] = "2"
    core.replace_namespaced_config_map("typed", NAMESPACE, made)
    expect("data", core.read_namespaced_config_map("typed", NAMESPACE).data, {"a": "1", "b": "2"})
    body = refused(409, lambda: create("typed"))
    expect("reason", json.loads(body)["reason"], "AlreadyExists")
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="typed"), string_data={"k": "v"})
    expect("secret", core.create_namespaced_secret(NAMESPACE, secret).data, {"k": base64.b64encode(b"v").decode()})
    core.delete_namespaced_config_map("typed", NAMESPACE)
    refused(404, lambda: core.read_namespaced_config_map("typed", NAMESPACE))


def dynamic_objects():
    maps = dynamic_client().resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dynamic"}, "data": {"a": "1"}}
    maps.create(body=body, namespace=NAMESPACE)
    body["data"]["b"] = "2"
    expect("data", maps.replace(body=body, namespace=NAMESPACE).data.to_dict(), {"a": "1", "b": "2"})
    names = [item.metadata.name for item in maps.get(namespace=NAMESPACE).items]
    if "dynamic" not in names:
        raise AssertionError(f"names: {names}")
    maps.delete(name="dynamic", namespace=NAMESPACE)


def dynamic_client():
    return dynamic.DynamicClient(client.ApiClient())


def pages():
    for at in range(5):
        create(f"page-{at}", labels={"step": "pages"})
    names, token = [], None
    while True:
        page = client.CoreV1Api().list_namespaced_config_map(
            NAMESPACE, label_selector="step=pages", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    expect("names", names, [f"page-{at}" for at in range(5)])


def selectors():
    create("chosen", labels={"step": "selectors"})
    maps = client.CoreV1Api().list_namespaced_config_map
    expect("by label", len(maps(NAMESPACE, label_selector="step in (selectors)").items), 1)
    expect("by name", len(maps(NAMESPACE, field_selector="metadata.name=chosen").items), 1)
    refused(400, lambda: maps(NAMESPACE, field_selector="data.a=1"))


def watching():
    core = client.CoreV1Api()
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    made = create("watched", {"a": "1"})
    core.patch_namespaced_config_map("watched", NAMESPACE, [{"op": "replace", "path": "/data/a", "value": "2"}])
    core.delete_namespaced_config_map("watched", NAMESPACE)

    def seen(version, count):
        stream, found = watch.Watch(), []
        for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version,
                                   field_selector="metadata.name=watched", timeout_seconds=PATIENCE):
            found.append((event["type"], event["object"].data["a"]))
            if len(found) == count:
                stream.stop()
        return found

    everything = [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]
    expect("events", seen(start, 3), everything)
    expect("events after the first", seen(made.metadata.resource_version, 2), everything[1:])


def informer():
    create("informed", labels={"step": "informer"})
    core = client.CoreV1Api()
    following = SharedInformer(core.list_namespaced_config_map, namespace=NAMESPACE, label_selector="step=informer")
    seen, lock = [], threading.Lock()

    def note(kind):
        def handler(found):
            with lock:
                seen.append((kind, found.metadata.name))
        return handler

    for kind in (ADDED, MODIFIED, DELETED):
        following.add_event_handler(kind, note(kind))
    following.start()
    try:
        eventually("the cache", lambda: following.cache.get_by_key(f"{NAMESPACE}/informed"))
        core.patch_namespaced_config_map("informed", NAMESPACE, [{"op": "add", "path": "/data", "value": {"a": "1"}}])
        eventually("a change", lambda: (MODIFIED, "informed") in seen)
        core.delete_namespaced_config_map("informed", NAMESPACE)
        eventually("the deletion", lambda: (DELETED, "informed") in seen)
        expect("cache", following.cache.list(), [])
    finally:
        following.stop()


def conflicts():
    core = client.CoreV1Api()
    stale = create("conflict", {"n": "0"})
    core.patch_namespaced_config_map("conflict", NAMESPACE, [{"op": "replace", "path": "/data/n", "value": "1"}])
    stale.data = {"n": "2"}
    body = refused(409, lambda: core.replace_namespaced_config_map("conflict", NAMESPACE, stale))
    expect("reason", json.loads(body)["reason"], "Conflict")


def dry_run():
    core = client.CoreV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("dry"), dry_run="All")
    refused(404, lambda: core.read_namespaced_config_map("dry", NAMESPACE))


def field_validation():
    maps = dynamic_client().resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "strict"}, "date": {}}
    strict = [("fieldValidation", "Strict")]
    said = refused(400, lambda: maps.create(body=body, namespace=NAMESPACE, query_params=strict))
    if 'unknown field \\"date\\"' not in str(said):
        raise AssertionError(said)


def json_patch():
    create("json-patch", {"a": "1", "b": "2"})
    steps = [{"op": "remove", "path": "/data/b"}, {"op": "add", "path": "/data/c", "value": "3"}]
    patched = client.CoreV1Api().patch_namespaced_config_map("json-patch", NAMESPACE, steps)
    expect("data", patched.data, {"a": "1", "c": "3"})


def merge_patch():
    create("merge-patch", {"a": "1", "b": "2"})
    maps = dynamic_client().resources.get(api_version="v1", kind="ConfigMap")
    patched = maps.patch(body={"data": {"b": None, "c": "3"}}, name="merge-patch", namespace=NAMESPACE,
                         content_type="application/merge-patch+json")
    expect("data", patched.data.to_dict(), {"a": "1", "c": "3"})


def strategic_merge_patch():
    apps = client.AppsV1Api()
    apps.create_namespaced_deployment(NAMESPACE, deployment("patched"))
    body = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:2"}]}}}}
    # What a typed patch is sent as when it is no list.
    patched = apps.patch_namespaced_deployment("patched", NAMESPACE, body)
    images = sorted(container.image for container in patched.spec.template.spec.containers)
    expect("images", images, ["a:1", "b:2"])
    # The dynamic client sends everything so.
    deployments = dynamic_client().resources.get(api_version="apps/v1", kind="Deployment")
    body["spec"]["template"]["spec"]["containers"][0] = {"name": "a", "$patch": "delete"}
    patched = deployments.patch(body=body, name="patched", namespace=NAMESPACE)
    expect("containers", [container.name for container in patched.spec.template.spec.containers], ["b"])


def deployment(name):
    labels = {"app": name}
    containers = [client.V1Container(name=name, image=f"{name}:1") for name in ("a", "b")]
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=containers))
    spec = client.V1DeploymentSpec(selector=client.V1LabelSelector(match_labels=labels), template=template)
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def apply():
    maps = dynamic_client().resources.get(api_version="v1", kind="ConfigMap")

    def applied(data, manager, **options):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
        return maps.server_side_apply(body=body, name="applied", namespace=NAMESPACE, field_manager=manager, **options)

    applied({"a": "1", "b": "2"}, "one")
    applied({"c": "3"}, "two")
    less = applied({"a": "1"}, "one")
    expect("data", less.data.to_dict(), {"a": "1", "c": "3"})
    try:
        applied({"a": "2"}, "two")
    except dynamic.exceptions.ConflictError:
        pass
    else:
        raise AssertionError("taking what another owns was not refused")
    forced = applied({"a": "2", "c": "3"}, "two", force_conflicts=True)
    expect("data", forced.data.to_dict(), {"a": "2", "c": "3"})


def scale():
    apps = client.AppsV1Api()
    apps.create_namespaced_deployment(NAMESPACE, deployment("scaled"))
    apps.patch_namespaced_deployment_scale("scaled", NAMESPACE, {"spec": {"replicas": 4}})
    expect("replicas", apps.read_namespaced_deployment("scaled", NAMESPACE).spec.replicas, 4)


def custom_resources():
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}},
                 "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too big"}]},
        "status": {"type": "object", "properties": {"seen": {"type": "boolean"}}}}}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.python.example"},
            "spec": {"group": "python.example", "scope": "Namespaced",
                     "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                                   "schema": {"openAPIV3Schema": schema}}]}}
    client.ApiextensionsV1Api().create_custom_resource_definition(body)

    def found():
        try:
            return dynamic_client().resources.get(api_version="python.example/v1", kind="Thing")
        except dynamic.exceptions.ResourceNotFoundError:
            return None

    eventually("the type", found)
    things = found()
    made = things.create(namespace=NAMESPACE, body=thing("one", {}))
    expect("spec", made.spec.to_dict(), {"size": 3})
    again = client.CustomObjectsApi().get_namespaced_custom_object("python.example", "v1", NAMESPACE, "things", "one")
    expect("spec", again["spec"], {"size": 3})
    again["status"] = {"seen": True}
    updated = client.CustomObjectsApi().replace_namespaced_custom_object_status(
        "python.example", "v1", NAMESPACE, "things", "one", again)
    expect("status", updated["status"], {"seen": True})


def thing(name, spec):
    return {"apiVersion": "python.example/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def rules():
    create_thing = client.CustomObjectsApi().create_namespaced_custom_object
    said = refused(422, lambda: create_thing("python.example", "v1", NAMESPACE, "things", thing("big", {"size": 10})))
    if "too big" not in said:
        raise AssertionError(said)


def finalizers():
    core = client.CoreV1Api()
    create("finalized", finalizers=["python.example/hold"])
    core.delete_namespaced_config_map("finalized", NAMESPACE)
    held = core.read_namespaced_config_map("finalized", NAMESPACE)
    if not held.metadata.deletion_timestamp:
        raise AssertionError("no deletion timestamp")
    core.patch_namespaced_config_map("finalized", NAMESPACE, [{"op": "remove", "path": "/metadata/finalizers"}])
    refused(404, lambda: core.read_namespaced_config_map("finalized", NAMESPACE))


def tokens():
    core = client.CoreV1Api()
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    request = {"spec": {"expirationSeconds": 600, "audiences": []}}
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, request).status.token
    review = client.AuthenticationV1Api().create_token_review({"spec": {"token": token}})
    expect("user", review.status.user.username, f"system:serviceaccount:{NAMESPACE}:robot")


def access_reviews():
    attributes = {"namespace": NAMESPACE, "verb": "list", "resource": "secrets"}
    mine = client.AuthorizationV1Api().create_self_subject_access_review({"spec": {"resourceAttributes": attributes}})
    theirs = client.AuthorizationV1Api().create_subject_access_review(
        {"spec": {"user": "nobody", "resourceAttributes": attributes}})
    expect("allowed", (mine.status.allowed, theirs.status.allowed), (True, False))


def certificate_requests():
    requests = client.CertificatesV1Api()
    request = base64.b64encode(Path("../kube-rs/src/jane.csr").read_bytes()).decode()
    spec = {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    made = requests.create_certificate_signing_request({"metadata": {"name": "jane"}, "spec": spec})
    made.status.conditions = [client.V1CertificateSigningRequestCondition(
        type="Approved", status="True", reason="Peer", message="approved")]
    requests.replace_certificate_signing_request_approval("jane", made)
    read = requests.read_certificate_signing_request_status("jane")
    expect("conditions", [condition.type for condition in read.status.conditions], ["Approved"])


STEPS = [
    ("discovery", discovery),
    ("create, get, update, delete", objects),
    ("dynamic objects", dynamic_objects),
    ("pages", pages),
    ("selectors", selectors),
    ("watch", watching),
    ("informer, list and watch", informer),
    ("conflict and retry", conflicts),
    ("dry run", dry_run),
    ("field validation", field_validation),
    ("JSON patch", json_patch),
    ("merge patch", merge_patch),
    ("strategic merge patch", strategic_merge_patch),
    ("server-side apply", apply),
    ("scale subresource", scale),
    ("custom resources", custom_resources),
    ("CEL rules", rules),
    ("finalizers", finalizers),
    ("tokens", tokens),
    ("access reviews", access_reviews),
    ("certificate requests", certificate_requests),
]

if __name__ == "__main__":
    main()
