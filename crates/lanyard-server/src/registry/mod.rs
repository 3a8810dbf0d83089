//! The generic registry: create, read, change, delete and watch objects of every type by its description.
//!
//! One file per verb. Nothing here knows a type by name; what differs between types is in
//! [`Rules`](crate::resource::Rules), and what depends on other objects (namespaces, roles) is in
//! [`admission`](crate::admission).

mod apply;
mod create;
mod decode;
pub mod delete;
mod ownership;
mod patch;
mod read;
mod scale;
mod update;
mod watch;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use lanyard_store::{Error as StoreError, Revision, Store};
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use create::generate_name;
pub use decode::{Body, Expected};
pub use patch::Patch;
pub use read::ListAnswer;
pub use update::Change;
pub use watch::{WatchRequest, WatchStart};

use crate::{
    admission::Admission,
    authn::UserInfo,
    collection::{Collection, Scope as CollectionScope},
    encoded::Encoded,
    name::Name,
    resource::{Resource, Scope, Subresource, View, WriteContext},
    status::{ApiError, ApiResult, GroupName},
};

/// How long a read waits for a resource version that has not happened yet, as upstream does.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Every resource type that is served, and the store behind them.
pub struct Registry {
    /// Where everything is kept.
    pub store: Store,
    /// What depends on other objects.
    pub admission: Admission,
    served: ArcSwap<Served>,
    /// Told of every type; held while the types change.
    followers: Mutex<Vec<Follower>>,
    /// The newest revision that a consistent read was seen at.
    seen: AtomicU64,
}

/// Called with every type that is served now or later; must be quick.
pub type Follower = Box<dyn Fn(&Arc<Collection>) + Send + Sync>;

/// The resource types at one moment.
#[derive(Default)]
pub struct Served {
    /// The types, in the order that discovery lists them.
    pub collections: Vec<Arc<Collection>>,
    /// By plural name; the same one in several groups and versions is rare.
    by_plural: HashMap<Name, Vec<Endpoint>>,
}

/// One resource type through one group version.
#[derive(Clone)]
pub struct Endpoint {
    /// The objects.
    pub collection: Arc<Collection>,
    /// Which view of the resource.
    pub view: usize,
}

/// What a request wants from the registry.
pub struct Call<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// The type and its view.
    pub endpoint: &'a Endpoint,
    /// The namespace of the URL, or empty.
    pub namespace: &'a str,
    /// The name of the URL, or empty.
    pub name: &'a str,
    /// The part of the object that is addressed.
    pub subresource: Option<Subresource>,
    /// Who the fields that it writes belong to.
    pub manager: &'a str,
    /// Collects texts for `Warning` headers.
    pub warnings: &'a Mutex<Vec<String>>,
}

/// One object as a result: as bytes when it is stored, as a tree when it is not (dry run).
pub enum ObjectAnswer {
    /// A stored object.
    Stored(Arc<Encoded>),
    /// An object in the stored form that was not written.
    Tree(Value),
}

/// The result of a deletion.
pub enum Deleted {
    /// The object is gone; this is the Status to send.
    Gone(Value),
    /// The last state of an object that is gone, or the present one of an object that finalizers hold.
    Object(ObjectAnswer),
}

impl Registry {
    /// Loads every resource type from the store.
    pub async fn open(store: Store, resources: Vec<Resource>) -> Result<Arc<Self>, StoreError> {
        let mut collections = Vec::with_capacity(resources.len());
        for resource in resources {
            let collection = Collection::new(Arc::new(resource));
            collection.load(&store).await?;
            collections.push(collection);
        }
        let served = Served::new(collections);
        let admission = Admission::new(&served);
        let seen = AtomicU64::new(store.caught_up().await?.0);
        Ok(Arc::new(Self {
            store,
            admission,
            served: ArcSwap::from_pointee(served),
            followers: Mutex::default(),
            seen,
        }))
    }

    /// Lets go of the store, which then has nobody left to tell that it ends.
    pub async fn close(&self) {
        self.served().collections.iter().for_each(|collection| collection.unload());
        self.store.close().await;
    }

    /// The resource types now.
    pub fn served(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// Lets `follower` see every type that is served, and every one that is added from now on.
    pub fn each_type(&self, follower: Follower) {
        let mut followers = self.followers.lock();
        self.served.load().collections.iter().for_each(&follower);
        followers.push(follower);
    }

    /// Serves a type that was loaded, in place of the one of the same storage; its watches end.
    pub fn serve(&self, collection: &Arc<Collection>) {
        let followers = self.followers.lock();
        followers.iter().for_each(|follower| follower(collection));
        let storage = &collection.resource.storage;
        let mut collections = self.served.load().collections.clone();
        let mut replaced = None;
        match collections.iter_mut().find(|c| c.resource.storage == *storage) {
            Some(found) => replaced = Some(std::mem::replace(found, collection.clone())),
            None => collections.push(collection.clone()),
        }
        self.served.store(Arc::new(Served::new(collections)));
        if let Some(replaced) = replaced {
            replaced.retire();
        }
    }

    /// Serves a type no longer; its watches end, its objects stay in the store.
    pub fn withdraw(&self, storage: &str) {
        let _changing = self.followers.lock();
        let collections = self.served.load().collections.clone();
        let (gone, kept) = collections.into_iter().partition(|c| c.resource.storage == *storage);
        self.served.store(Arc::new(Served::new(kept)));
        let gone: Vec<Arc<Collection>> = gone;
        gone.iter().for_each(|collection| collection.retire());
    }

    /// The type with this name in this group version.
    pub fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        self.served.load().endpoint(group, version, plural)
    }

    /// Reloads a collection each time its feed breaks (its history was compacted away); never ends.
    pub async fn keep_fed(&self, collection: Arc<Collection>) {
        loop {
            collection.lost().await;
            while let Err(error) = collection.load(&self.store).await {
                tracing::warn!(%error, prefix = collection.prefix, "cannot reload, trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Waits until every collection holds all that was acknowledged before the call.
    pub async fn caught_up(&self) -> ApiResult<Revision> {
        let revision = self.store.caught_up().await.map_err(store_error)?;
        self.seen.fetch_max(revision.0, Ordering::Relaxed);
        Ok(revision)
    }

    /// A recent revision, without waiting.
    fn recent(&self) -> Revision {
        Revision(self.seen.load(Ordering::Relaxed))
    }

    /// Waits a little for a revision that a client has seen elsewhere.
    async fn reach(&self, wanted: Revision) -> ApiResult<Revision> {
        let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
        loop {
            let current = self.caught_up().await?;
            if current >= wanted {
                return Ok(current);
            }
            if tokio::time::Instant::now() >= deadline {
                let text =
                    format!("Timeout: Too large resource version: {wanted}, current: {current}");
                return Err(ApiError::timeout(text)
                    .caused("ResourceVersionTooLarge", "Too large resource version", None)
                    .retry_after(1));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Served {
    fn new(collections: Vec<Arc<Collection>>) -> Self {
        let mut by_plural = HashMap::<_, Vec<_>>::new();
        for collection in &collections {
            let endpoints = by_plural.entry(collection.resource.plural.clone()).or_default();
            let views = collection.resource.views.iter().enumerate();
            let served = views.filter(|(_, view)| view.is_served());
            endpoints
                .extend(served.map(|(view, _)| Endpoint { collection: collection.clone(), view }));
        }
        Self { collections, by_plural }
    }

    /// The type of objects that say to be of this kind.
    fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Resource> {
        let resources = self.collections.iter().map(|collection| &*collection.resource);
        let mut same_kind = resources.filter(|resource| resource.kind == kind);
        same_kind.find(|resource| resource.views.iter().any(|v| v.api_version() == api_version))
    }

    /// The type with this name in this group version.
    pub fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        let named = self.by_plural.get(plural)?;
        let in_group = |endpoint: &&Endpoint| {
            let view = endpoint.view();
            view.group == group && view.version == version
        };
        named.iter().find(in_group).cloned()
    }
}

impl Endpoint {
    /// The description of the type.
    pub fn resource(&self) -> &Resource {
        &self.collection.resource
    }

    /// The group version.
    pub fn view(&self) -> &View {
        &self.resource().views[self.view]
    }

    /// Whether it is a custom resource rather than a built-in kind.
    pub fn is_custom(&self) -> bool {
        self.view().schema.builtin().is_none()
    }

    /// The kind of a list of its objects.
    pub fn list_kind(&self) -> String {
        match self.view().schema.custom() {
            Some(version) => (*version.list_kind).to_owned(),
            None => format!("{}List", self.resource().kind),
        }
    }

    /// Whether stored bytes are what this view serves.
    pub fn is_stored_form(&self) -> bool {
        self.view == 0
    }

    /// Group and plural, for messages.
    pub fn group_resource(&self) -> GroupName<'_> {
        GroupName { group: &self.view().group, name: &self.resource().plural }
    }

    /// Group and kind, for messages about invalid objects.
    ///
    /// The group is that of the stored form, whatever the view.
    pub fn group_kind(&self) -> GroupName<'_> {
        GroupName { group: &self.resource().views[0].group, name: &self.resource().kind }
    }

    /// The name of upstream's internal type, which some messages show.
    pub fn go_type(&self) -> String {
        if self.resource().is_custom() {
            return "unstructured.Unstructured".to_owned();
        }
        let package = match &*self.resource().views[0].group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        format!("{package}.{}", self.resource().kind)
    }

    /// A stored-form object as this view shows it.
    pub fn to_view(&self, mut object: Value) -> Value {
        if !self.is_stored_form() {
            if let Some(conversion) = self.view().conversion {
                (conversion.from_stored)(&mut object);
            }
            object["apiVersion"] = self.view().api_version().into();
            if let Some(version) = self.view().schema.custom() {
                version.prune(&mut object);
            }
        }
        object
    }

    /// An object of this view in the stored form.
    pub(crate) fn to_stored(&self, mut object: Value) -> Value {
        if let Some(conversion) = self.view().conversion {
            (conversion.to_stored)(&mut object);
        }
        object["apiVersion"] = self.resource().views[0].api_version().into();
        object["kind"] = (&self.resource().kind).into();
        object
    }
}

impl<'a> Call<'a> {
    /// The key of the named object within its collection.
    fn key(&self) -> Arc<str> {
        self.key_of(self.name)
    }

    fn key_of(&self, name: &str) -> Arc<str> {
        match self.endpoint.resource().scope {
            Scope::Cluster => name.into(),
            Scope::Namespaced => format!("{}/{name}", self.namespace).into(),
        }
    }

    /// The part of the collection that the URL names.
    fn scope(&self, name: Option<&str>) -> CollectionScope {
        let namespaced = self.endpoint.resource().scope == Scope::Namespaced;
        match name {
            Some(name) if !namespaced || !self.namespace.is_empty() => {
                CollectionScope::Object(self.key_of(name))
            }
            _ if namespaced && !self.namespace.is_empty() => {
                CollectionScope::Namespace(self.namespace.into())
            }
            _ => CollectionScope::All,
        }
    }

    fn write_context(&self) -> WriteContext<'_> {
        // Whoever scales an object changes it as a whole.
        let subresource = self.subresource.filter(|part| *part != Subresource::Scale);
        WriteContext { view: self.endpoint.view(), subresource }
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(self.endpoint.group_resource(), self.name)
    }

    /// The result of a write: the same bytes that the collection holds, if it has them already.
    fn stored(&self, key: Arc<str>, bytes: &Bytes, revision: Revision) -> ApiResult<ObjectAnswer> {
        let collection = &self.endpoint.collection;
        if let Some(object) = collection.get(&key).filter(|o| o.revision == revision) {
            return Ok(ObjectAnswer::Stored(object));
        }
        let object = collection.codec.decode(key, bytes, revision);
        let object =
            object.map_err(|error| ApiError::internal("cannot read back a write", error))?;
        Ok(ObjectAnswer::Stored(Arc::new(object)))
    }
}

/// What the client is told when the store cannot do it.
pub fn store_error(error: StoreError) -> ApiError {
    match error {
        StoreError::TooLarge { limit, .. } => ApiError::too_large(limit),
        StoreError::Compacted { requested, oldest } => {
            ApiError::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        StoreError::NoSpace { .. } => {
            ApiError::internal("the server has no space left for writes", error).retry_after(5)
        }
        StoreError::Unavailable(_) => {
            ApiError::unavailable("the store is not available, try again later")
                .retry_after(1)
                .because(error)
        }
        other => ApiError::internal("the store failed", other),
    }
}

#[cfg(test)]
mod tests {
    use lanyard_store::StoreUrl;

    use super::*;
    use crate::types;

    fn kind(plural: &str) -> Resource {
        types::all().into_iter().find(|kind| kind.plural == plural).unwrap()
    }

    #[tokio::test]
    async fn types_come_and_go_while_requests_run() {
        let store = Store::open(&StoreUrl::Memory).await.unwrap();
        let registry = Registry::open(store, vec![kind("configmaps")]).await.unwrap();
        let seen = Arc::<Mutex<Vec<Name>>>::default();
        let follower = seen.clone();
        registry.each_type(Box::new(move |c| follower.lock().push(c.resource.plural.clone())));
        let find = |plural| registry.endpoint("", "v1", plural).map(|e| e.collection);
        assert!(find("secrets").is_none());
        for _ in 0..2 {
            let secrets = Collection::new(Arc::new(kind("secrets")));
            secrets.load(&registry.store).await.unwrap();
            registry.serve(&secrets);
            assert!(Arc::ptr_eq(&find("secrets").unwrap(), &secrets));
            assert_eq!(registry.served().collections.len(), 2);
        }
        registry.withdraw("secrets");
        assert!(find("secrets").is_none() && find("configmaps").is_some());
        assert_eq!(*seen.lock(), ["configmaps", "secrets", "secrets"]);
    }
}
