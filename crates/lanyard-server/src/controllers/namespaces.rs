//! Namespaces that are being deleted: their contents go first, then the namespace.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{client::Client, queue::Queue};
use crate::{
    clock,
    collection::{Collection, EventKind, Scope as CollectionScope},
    encoded::Encoded,
    object::ObjectExt,
    registry::Registry,
    resource::{Scope, Subresource},
    status::ApiResult,
};

/// How long to wait before looking again at a namespace that is not empty yet.
const RETRY: Duration = Duration::from_millis(500);

/// The finalizer in `spec.finalizers` that this controller answers for.
const FINALIZER: &str = "kubernetes";

/// Empties and removes namespaces.
pub(super) struct NamespaceController {
    registry: Arc<Registry>,
    client: Client,
    namespaces: Option<Arc<Collection>>,
    queue: Queue<Arc<str>>,
}

/// What is left in a namespace after an attempt to empty it.
#[derive(Default)]
struct Remains {
    /// How many objects of each resource.
    objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    failures: Vec<String>,
}

impl NamespaceController {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let queue = Queue::new();
        let namespaces = registry.endpoint("", "v1", "namespaces").map(|e| e.collection);
        if let Some(namespaces) = &namespaces {
            let (queue, resource) = (queue.clone(), namespaces.resource.clone());
            namespaces.observe(Box::new(move |event| {
                let terminating = event.object.field(&resource, "status.phase") == "Terminating";
                if terminating && event.kind != EventKind::Deleted {
                    queue.add(event.object.key.clone());
                }
            }));
        }
        Self { registry: registry.clone(), client: Client::new(registry), namespaces, queue }
    }

    pub(super) async fn run(&self) {
        let Some(namespaces) = &self.namespaces else { return };
        let _open = self.queue.open();
        let going = |n: &Encoded| n.field(&namespaces.resource, "status.phase") == "Terminating";
        let (page, _) = namespaces.list(&CollectionScope::All, None, None, going);
        page.objects.iter().for_each(|namespace| self.queue.add(namespace.key.clone()));
        loop {
            let name = self.queue.next().await;
            match self.empty(namespaces, &name).await {
                Ok(true) => {}
                Ok(false) => self.queue.add_later(name, RETRY),
                Err(error) => {
                    tracing::warn!(%error, namespace = &*name, "cannot empty a namespace");
                    self.queue.add_later(name, RETRY);
                }
            }
        }
    }

    /// Deletes what is in the namespace; true when the namespace itself is done with.
    async fn empty(&self, namespaces: &Arc<Collection>, name: &Arc<str>) -> ApiResult<bool> {
        self.registry.caught_up().await?;
        let Some(namespace) = namespaces.get(name).map(|n| n.value()) else { return Ok(true) };
        let finalizers = spec_finalizers(&namespace);
        if !namespace.is_deleting() || !finalizers.iter().any(|f| f == FINALIZER) {
            return Ok(true);
        }
        let remains = self.delete_contents(name).await?;
        if !remains.objects.is_empty() || !remains.failures.is_empty() {
            self.report(namespaces, &namespace, &remains).await?;
            return Ok(false);
        }
        let rest: Vec<&String> = finalizers.iter().filter(|f| *f != FINALIZER).collect();
        let patch = json!({
            "metadata": {"uid": namespace.uid(), "resourceVersion": namespace.resource_version()},
            "spec": {"finalizers": rest},
        });
        let finalized =
            self.client.merge(namespaces, name, Some(Subresource::Finalize), patch).await;
        match finalized {
            Err(error) if error.reason() == "NotFound" => Ok(true),
            Err(error) if error.reason() == "Conflict" => Ok(false),
            result => result.map(|()| true),
        }
    }

    async fn delete_contents(&self, namespace: &Arc<str>) -> ApiResult<Remains> {
        let mut failures = Vec::new();
        let scope = CollectionScope::Namespace(namespace.clone());
        for collection in self.contents() {
            let (page, _) = collection.list(&scope, None, None, |_| true);
            if let Err(error) = self.client.delete_all(&collection, &page.objects).await {
                failures.push(format!("{}: {error}", collection.resource.plural));
            }
        }
        self.registry.caught_up().await?;
        Ok(self.remains(&scope, failures))
    }

    fn remains(&self, scope: &CollectionScope, failures: Vec<String>) -> Remains {
        let mut remains = Remains { failures, ..Remains::default() };
        for collection in self.contents() {
            let (page, _) = collection.list(scope, None, None, |_| true);
            if page.objects.is_empty() {
                continue;
            }
            let view = &collection.resource.views[0];
            let name = format!("{}.{}", collection.resource.plural, view.group);
            remains.objects.insert(name, page.objects.len());
            for object in page.objects {
                for finalizer in object.value().finalizers() {
                    *remains.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        remains
    }

    /// The types whose objects live in namespaces and can be deleted, or were made by the server.
    fn contents(&self) -> Vec<Arc<Collection>> {
        let namespaced = |c: &&Arc<Collection>| c.resource.scope == Scope::Namespaced;
        self.registry.served().collections.iter().filter(namespaced).cloned().collect()
    }

    /// Says in the namespace's conditions what keeps it.
    async fn report(
        &self,
        namespaces: &Arc<Collection>,
        namespace: &Value,
        remains: &Remains,
    ) -> ApiResult<()> {
        let conditions = remains.conditions();
        let same = |old: &Value, new: &Value| {
            ["type", "status", "reason", "message"].iter().all(|field| old[*field] == new[*field])
        };
        let present = namespace.at(&["status", "conditions"]).and_then(Value::as_array);
        let present = present.map(Vec::as_slice).unwrap_or_default();
        if present.len() == conditions.len()
            && present.iter().zip(&conditions).all(|(a, b)| same(a, b))
        {
            return Ok(());
        }
        let patch = json!({"status": {"conditions": conditions}});
        self.client.merge(namespaces, namespace.name(), Some(Subresource::Status), patch).await
    }
}

impl Remains {
    /// The five conditions, in upstream's words.
    fn conditions(&self) -> Vec<Value> {
        let listed = |map: &BTreeMap<String, usize>, of: &str| {
            let each =
                map.iter().map(|(name, count)| format!("{name}{of}{count} resource instances"));
            each.collect::<Vec<_>>().join(", ")
        };
        let objects = listed(&self.objects, " has ");
        let finalizers = listed(&self.finalizers, " in ");
        let failures = self.failures.join(", ");
        vec![
            condition(
                "NamespaceDeletionDiscoveryFailure",
                None,
                ["ResourcesDiscovered", "All resources successfully discovered"],
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                None,
                ["ParsedGroupVersions", "All legacy kube types successfully parsed"],
            ),
            condition(
                "NamespaceDeletionContentFailure",
                (!failures.is_empty()).then(|| {
                    (
                        "ContentDeletionFailed",
                        format!(
                            "Failed to delete all resource types, {} remaining: {failures}",
                            self.failures.len()
                        ),
                    )
                }),
                [
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization",
                ],
            ),
            condition(
                "NamespaceContentRemaining",
                (!objects.is_empty()).then(|| {
                    ("SomeResourcesRemain", format!("Some resources are remaining: {objects}"))
                }),
                ["ContentRemoved", "All content successfully removed"],
            ),
            condition(
                "NamespaceFinalizersRemaining",
                (!finalizers.is_empty()).then(|| {
                    let text = format!(
                        "Some content in the namespace has finalizers remaining: {finalizers}"
                    );
                    ("SomeFinalizersRemain", text)
                }),
                ["ContentHasNoFinalizers", "All content-preserving finalizers finished"],
            ),
        ]
    }
}

fn condition(name: &str, problem: Option<(&str, String)>, good: [&str; 2]) -> Value {
    let (status, reason, message) = match problem {
        Some((reason, message)) => ("True", reason, message),
        None => ("False", good[0], good[1].to_owned()),
    };
    json!({
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": clock::now_rfc3339(),
    })
}

fn spec_finalizers(namespace: &Value) -> Vec<String> {
    let list = namespace.at(&["spec", "finalizers"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
