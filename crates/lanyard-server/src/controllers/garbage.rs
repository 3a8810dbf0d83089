//! Garbage collection: dependents whose owners are gone go too, in the way the deletion asked for.
//!
//! The collector keeps only one index, from an owner's uid to the objects that name it; whether an owner
//! is there is looked up in its collection. Owners of unknown kinds keep their dependents.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{client::Client, queue::Queue};
use crate::{
    collection::{Collection, Event, EventKind, Scope as CollectionScope},
    encoded::Encoded,
    name::Name,
    object::ObjectExt,
    registry::{
        Registry,
        delete::{DeleteOptions, FOREGROUND, ORPHAN},
    },
    resource::Scope,
    status::ApiResult,
};

/// How long to wait before trying again after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// An object, by the place of its type among the served ones and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    storage: Name,
    key: Arc<str>,
}

/// One owner reference.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    block_owner_deletion: bool,
}

/// What the collector reads of every object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Links {
    uid: String,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

/// Who names whom, by uid.
#[derive(Default)]
struct Graph {
    /// Which objects name an owner.
    dependents: HashMap<String, HashSet<Place>>,
    /// Owners that wait for their dependents to go.
    waiting: HashMap<String, Place>,
}

/// Deletes what nobody owns any more.
pub(super) struct GarbageCollector {
    registry: Arc<Registry>,
    client: Client,
    graph: Arc<Mutex<Graph>>,
    queue: Queue<Place>,
}

impl GarbageCollector {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let (queue, graph) = (Queue::new(), Arc::<Mutex<Graph>>::default());
        let watch = Watch { storage: Name::default(), graph: graph.clone(), queue: queue.clone() };
        registry.each_type(Box::new(move |collection| {
            if is_collected(collection) {
                let storage = collection.resource.storage.clone();
                let watch = Watch { storage, ..watch.clone() };
                collection.observe(Box::new(move |event| watch.see(event)));
            }
        }));
        Self { registry: registry.clone(), client: Client::new(registry), graph, queue }
    }

    pub(super) async fn run(&self) {
        let _open = self.queue.open();
        for collection in collected(&self.registry) {
            let (page, _) = collection.list(&CollectionScope::All, None, None, is_linked);
            let storage = &collection.resource.storage;
            let place =
                |object: &Arc<Encoded>| Place { storage: storage.clone(), key: object.key.clone() };
            page.objects.iter().map(place).for_each(|place| self.queue.add(place));
        }
        loop {
            let place = self.queue.next().await;
            match self.look_at(&place).await {
                Ok(()) => {}
                Err(error) if matches!(error.reason(), "NotFound") => {}
                Err(error) => {
                    if error.reason() != "Conflict" {
                        tracing::warn!(%error, key = &*place.key, "cannot collect garbage");
                    }
                    self.queue.add_later(place, RETRY);
                }
            }
        }
    }

    async fn look_at(&self, place: &Place) -> ApiResult<()> {
        self.registry.caught_up().await?;
        let Some((collection, object)) = self.find(place) else { return Ok(()) };
        let links = links(&object);
        let finalizers = links.finalizers.clone().unwrap_or_default();
        if links.deletion_timestamp.is_some() {
            if finalizers.iter().any(|f| f == ORPHAN) {
                return self.orphan(&collection, &object, &links).await;
            }
            if finalizers.iter().any(|f| f == FOREGROUND) {
                return self.foreground(&collection, &object, &links).await;
            }
        }
        self.check_owners(&collection, &object, &links).await
    }

    /// Deletes the object if all its owners are gone or going, else forgets those that are.
    async fn check_owners(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        links: &Links,
    ) -> ApiResult<()> {
        let owners = links.owner_references.clone().unwrap_or_default();
        let (mut solid, mut waiting, mut gone) = (0, Vec::new(), Vec::new());
        // Thousands of references may name one large owner: it is read once.
        let mut found = HashMap::new();
        for owner in &owners {
            let named = (owner.api_version.as_str(), owner.kind.as_str(), owner.name.as_str());
            let owner_found =
                found.entry(named).or_insert_with(|| self.find_owner(owner, object.namespace()));
            match owner_found.state(&owner.uid) {
                OwnerState::There | OwnerState::Unknown => solid += 1,
                OwnerState::Waiting => waiting.push(owner.uid.as_str()),
                OwnerState::Gone => gone.push(owner.uid.as_str()),
            }
        }
        if waiting.is_empty() && gone.is_empty() {
            return Ok(());
        }
        if solid > 0 {
            let forget: HashSet<&str> = gone.into_iter().chain(waiting).collect();
            return self.forget_owners(collection, object, &forget).await;
        }
        if links.deletion_timestamp.is_some() {
            return Ok(());
        }
        let finalizers = links.finalizers.as_deref().unwrap_or_default();
        let has = |name: &str| finalizers.iter().any(|f| f == name);
        let options = if has(ORPHAN) {
            DeleteOptions::orphan()
        } else if has(FOREGROUND)
            || (!waiting.is_empty() && !self.dependents_of(&links.uid).is_empty())
        {
            DeleteOptions::foreground()
        } else {
            DeleteOptions::background()
        };
        let options = options.only(&links.uid, &object.revision.to_string());
        self.client.delete(collection, &object.key, &options).await.map(drop)
    }

    /// Waits for the dependents that block, then lets the owner go.
    async fn foreground(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        owner: &Links,
    ) -> ApiResult<()> {
        let storage = collection.resource.storage.clone();
        let place = Place { storage, key: object.key.clone() };
        // Before the dependents are looked at: one that goes meanwhile must wake us up.
        self.graph.lock().waiting.insert(owner.uid.clone(), place);
        let mut blocked = false;
        for place in self.dependents_of(&owner.uid) {
            let Some((_, dependent)) = self.find(&place) else { continue };
            let owners = links(&dependent).owner_references.unwrap_or_default();
            blocked |= owners.iter().any(|o| o.uid == owner.uid && o.block_owner_deletion);
            self.queue.add(place);
        }
        if blocked {
            return Ok(());
        }
        self.remove_finalizer(collection, object, FOREGROUND).await
    }

    /// Makes the dependents forget their owner, then lets it go.
    async fn orphan(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        owner: &Links,
    ) -> ApiResult<()> {
        for place in self.dependents_of(&owner.uid) {
            let Some((collection, dependent)) = self.find(&place) else { continue };
            self.forget_owners(&collection, &dependent, &HashSet::from([owner.uid.as_str()]))
                .await?;
        }
        self.remove_finalizer(collection, object, ORPHAN).await
    }

    async fn forget_owners(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        forget: &HashSet<&str>,
    ) -> ApiResult<()> {
        let tree = object.value();
        let owners = tree.at(&["metadata", "ownerReferences"]).and_then(Value::as_array);
        let kept: Vec<&Value> =
            owners.into_iter().flatten().filter(|o| !forget.contains(o.text(&["uid"]))).collect();
        self.set_metadata(collection, object, "ownerReferences", json!(kept)).await
    }

    async fn remove_finalizer(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        finalizer: &str,
    ) -> ApiResult<()> {
        let tree = object.value();
        let kept: Vec<&str> = tree.finalizers().into_iter().filter(|f| *f != finalizer).collect();
        self.set_metadata(collection, object, "finalizers", json!(kept)).await
    }

    async fn set_metadata(
        &self,
        collection: &Arc<Collection>,
        object: &Encoded,
        field: &str,
        value: Value,
    ) -> ApiResult<()> {
        let version = object.revision.to_string();
        let patch = json!({"metadata": {field: value, "resourceVersion": version}});
        self.client.merge(collection, &object.key, None, patch).await
    }

    fn find_owner(&self, owner: &OwnerReference, namespace: &str) -> Owner {
        let (group, version) =
            owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
        let served = self.registry.served();
        let of_kind = |c: &&Arc<Collection>| {
            let resource = &c.resource;
            let views = &resource.views;
            resource.kind == owner.kind
                && views.iter().any(|v| v.group == group && v.version == version)
        };
        let Some(collection) = served.collections.iter().find(of_kind) else {
            return Owner::Unknown;
        };
        let key = match (collection.resource.scope, namespace) {
            (Scope::Cluster, _) => owner.name.clone(),
            // A cluster-scoped object cannot be owned by a namespaced one: nothing can be looked up.
            (Scope::Namespaced, "") => return Owner::Unknown,
            (Scope::Namespaced, namespace) => format!("{namespace}/{}", owner.name),
        };
        let Some(found) = collection.get(&key) else { return Owner::Missing };
        let found = links(&found);
        let waits = found.finalizers.is_some_and(|list| list.iter().any(|f| f == FOREGROUND));
        Owner::Found { waits: waits && found.deletion_timestamp.is_some(), uid: found.uid }
    }

    fn find(&self, place: &Place) -> Option<(Arc<Collection>, Arc<Encoded>)> {
        let served = self.registry.served();
        let collection = served.collections.iter().find(|c| c.resource.storage == place.storage)?;
        Some((collection.clone(), collection.get(&place.key)?))
    }

    fn dependents_of(&self, uid: &str) -> Vec<Place> {
        let graph = self.graph.lock();
        graph.dependents.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
    }
}

/// What is found under the name of an owner.
enum Owner {
    Found {
        uid: String,
        /// It waits for its dependents to go.
        waits: bool,
    },
    Missing,
    /// Its kind is not served here.
    Unknown,
}

impl Owner {
    /// What became of the owner with this uid.
    fn state(&self, wanted: &str) -> OwnerState {
        match self {
            Self::Unknown => OwnerState::Unknown,
            Self::Found { uid, waits: true } if uid == wanted => OwnerState::Waiting,
            Self::Found { uid, waits: false } if uid == wanted => OwnerState::There,
            Self::Found { .. } | Self::Missing => OwnerState::Gone,
        }
    }
}

/// What became of an owner.
enum OwnerState {
    There,
    /// It waits for its dependents to go.
    Waiting,
    Gone,
    /// Its kind is not served here.
    Unknown,
}

/// Watches one collection for owners and dependents.
#[derive(Clone)]
struct Watch {
    storage: Name,
    graph: Arc<Mutex<Graph>>,
    queue: Queue<Place>,
}

impl Watch {
    fn see(&self, event: &Event) {
        let place = || Place { storage: self.storage.clone(), key: event.object.key.clone() };
        let deleted = event.kind == EventKind::Deleted;
        let was = event.previous.as_deref().filter(|old| is_linked(old)).map(links);
        let is = (!deleted && is_linked(&event.object)).then(|| links(&event.object));
        for owner in was.iter().flat_map(|l| l.owner_references.iter().flatten()) {
            self.unlink(&owner.uid, &place());
        }
        if let Some(is) = &is {
            let mut graph = self.graph.lock();
            for owner in is.owner_references.iter().flatten() {
                graph.dependents.entry(owner.uid.clone()).or_default().insert(place());
            }
            drop(graph);
            self.queue.add(place());
        }
        if deleted {
            let gone = links(&event.object);
            let mut graph = self.graph.lock();
            graph.waiting.remove(&gone.uid);
            let dependents = graph.dependents.get(&gone.uid);
            dependents.into_iter().flatten().for_each(|p| self.queue.add(p.clone()));
        }
    }

    fn unlink(&self, owner: &str, place: &Place) {
        let mut graph = self.graph.lock();
        if let Some(set) = graph.dependents.get_mut(owner) {
            set.remove(place);
            if set.is_empty() {
                graph.dependents.remove(owner);
            }
        }
        if let Some(waiting) = graph.waiting.get(owner) {
            self.queue.add(waiting.clone());
        }
    }
}

fn collected(registry: &Registry) -> Vec<Arc<Collection>> {
    let served = registry.served();
    served.collections.iter().filter(|collection| is_collected(collection)).cloned().collect()
}

/// Whether objects of the type are looked at. Events expire by themselves, and are many.
fn is_collected(collection: &Collection) -> bool {
    collection.resource.storage != "events"
}

/// Whether an object may have owners or finalizers; cheaper than reading them.
fn is_linked(object: &Encoded) -> bool {
    contains(object.metadata(), b"\"ownerReferences\"")
        || contains(object.metadata(), b"\"finalizers\"")
}

fn links(object: &Encoded) -> Links {
    // Stored metadata is valid; what cannot be read links to nothing.
    serde_json::from_slice(object.metadata()).unwrap_or_default()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
