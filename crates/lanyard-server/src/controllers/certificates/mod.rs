//! Certificate signing requests: those of kubelets are approved if their sender may, those approved are
//! signed by our CA, and old ones are removed.
//!
//! What the controllers `csrapproving`, `csrsigning` and `csrcleaner` of kube-controller-manager do, for
//! the signers of `kubernetes.io` that our CA can stand for. Requests to other signers are left alone.

mod approver;
mod cleaner;
mod signer;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{client::Client, queue::Queue};
use crate::{
    certificate_request::CertificateRequest,
    clock,
    collection::{Collection, EventKind, Scope},
    object::ObjectExt,
    pki::Pki,
    registry::{Registry, delete::DeleteOptions},
    resource::Subresource,
    schema::{decode_bytes, encode_bytes},
    status::ApiResult,
};

/// How long to wait before trying again after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How often old requests are looked for.
const CLEAN_INTERVAL: Duration = Duration::from_secs(3600);

/// Approves, signs and removes requests.
pub(super) struct CertificateController {
    registry: Arc<Registry>,
    client: Client,
    pki: Arc<Pki>,
    requests: Option<Arc<Collection>>,
    queue: Queue<Arc<str>>,
}

impl CertificateController {
    pub(super) fn new(registry: &Arc<Registry>, pki: &Arc<Pki>) -> Self {
        let queue = Queue::new();
        let requests = registry.endpoint("certificates.k8s.io", "v1", "certificatesigningrequests");
        let requests = requests.map(|endpoint| endpoint.collection);
        if let Some(requests) = &requests {
            let queue = queue.clone();
            requests.observe(Box::new(move |event| {
                if event.kind != EventKind::Deleted {
                    queue.add(event.object.key.clone());
                }
            }));
        }
        let client = Client::new(registry);
        Self { registry: registry.clone(), client, pki: pki.clone(), requests, queue }
    }

    pub(super) async fn run(&self) {
        let Some(requests) = &self.requests else { return };
        tokio::join!(self.decide(requests), self.clean(requests));
    }

    async fn decide(&self, requests: &Arc<Collection>) {
        let _open = self.queue.open();
        let (page, _) = requests.list(&Scope::All, None, None, |_| true);
        page.objects.iter().for_each(|request| self.queue.add(request.key.clone()));
        loop {
            let name = self.queue.next().await;
            let Some(object) = requests.get(&name).map(|object| object.value()) else { continue };
            match self.handle(requests, &object).await {
                // Somebody else wrote, which brings it back here; or there is nothing left to do.
                Err(error) if matches!(error.reason(), "Conflict" | "NotFound") => {}
                Err(error) => {
                    tracing::warn!(%error, request = &*name, "cannot handle a certificate request");
                    self.queue.add_later(name, RETRY);
                }
                Ok(()) => {}
            }
        }
    }

    async fn handle(&self, requests: &Arc<Collection>, object: &Value) -> ApiResult<()> {
        if has_certificate(object) || has_condition(object, "Denied") {
            return Ok(());
        }
        let text = decode_bytes(object.text(&["spec", "request"])).unwrap_or_default();
        // Only what can be read is stored.
        let Ok(request) = CertificateRequest::parse(&text) else { return Ok(()) };
        if !has_condition(object, "Approved") {
            let rbac = &self.registry.admission.rbac;
            return match approver::approval(object, &request, rbac) {
                Some(message) => {
                    let condition = condition("Approved", "AutoApproved", message);
                    self.add_condition(requests, object, Subresource::Approval, condition).await
                }
                None => Ok(()),
            };
        }
        if has_condition(object, "Failed") {
            return Ok(());
        }
        match signer::check(object.text(&["spec", "signerName"]), &request, &usages(object)) {
            None => Ok(()),
            Some(Err(problem)) => {
                let condition = condition("Failed", "SignerValidationFailure", &problem);
                self.add_condition(requests, object, Subresource::Status, condition).await
            }
            Some(Ok(())) => self.sign(requests, object, &request).await,
        }
    }

    async fn sign(
        &self,
        requests: &Arc<Collection>,
        object: &Value,
        request: &CertificateRequest,
    ) -> ApiResult<()> {
        let expiration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let expiration = expiration.map(SignedDuration::from_secs);
        match self.pki.sign(request, &usages(object), expiration, Timestamp::now()) {
            Ok(certificate) => {
                let status = json!({"certificate": encode_bytes(certificate)});
                self.merge(requests, object, Subresource::Status, status).await
            }
            Err(error) => {
                tracing::warn!(%error, request = object.name(), "cannot sign a certificate request");
                self.queue.add_later(object.name().into(), CLEAN_INTERVAL);
                Ok(())
            }
        }
    }

    async fn add_condition(
        &self,
        requests: &Arc<Collection>,
        object: &Value,
        part: Subresource,
        condition: Value,
    ) -> ApiResult<()> {
        let mut conditions = conditions(object).to_vec();
        conditions.push(condition);
        self.merge(requests, object, part, json!({"conditions": conditions})).await
    }

    async fn merge(
        &self,
        requests: &Arc<Collection>,
        object: &Value,
        part: Subresource,
        status: Value,
    ) -> ApiResult<()> {
        let version = object.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.client.merge(requests, object.name(), Some(part), patch).await
    }

    /// Removes what nobody looks at any more.
    async fn clean(&self, requests: &Arc<Collection>) {
        loop {
            let now = clock::now_seconds();
            let (page, _) = requests.list(&Scope::All, None, None, |_| true);
            for object in page.objects.iter().filter(|o| cleaner::is_stale(&o.value(), now)) {
                let options = DeleteOptions::background();
                match self.client.delete(requests, &object.key, &options).await {
                    Err(error) if error.reason() != "NotFound" => {
                        tracing::warn!(%error, request = &*object.key, "cannot remove a request");
                    }
                    _ => {}
                }
            }
            tokio::time::sleep(CLEAN_INTERVAL).await;
        }
    }
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message})
}

fn conditions(object: &Value) -> &[Value] {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.map_or(&[], Vec::as_slice)
}

fn has_condition(object: &Value, kind: &str) -> bool {
    conditions(object).iter().any(|condition| condition.text(&["type"]) == kind)
}

fn has_certificate(object: &Value) -> bool {
    !object.text(&["status", "certificate"]).is_empty()
}

fn usages(object: &Value) -> Vec<&str> {
    let usages = object.at(&["spec", "usages"]).and_then(Value::as_array);
    usages.into_iter().flatten().filter_map(Value::as_str).collect()
}
