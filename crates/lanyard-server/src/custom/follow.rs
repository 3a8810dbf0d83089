//! Keeps the served types as new as the definitions, on every server of a store.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use super::describe;
use crate::{
    collection::{Collection, Scope},
    name::Name,
    object::ObjectExt,
    registry::Registry,
    types::custom_resource_definition::{GROUP, conditions},
};

/// How long to wait before a type that could not be loaded is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The custom types of one server.
pub struct CustomTypes {
    registry: Arc<Registry>,
    definitions: Option<Arc<Collection>>,
    changed: Arc<Changed>,
    served: HashMap<Arc<str>, Serving>,
    feeds: JoinSet<()>,
}

/// The definitions that were changed and not yet looked at.
#[derive(Default)]
struct Changed {
    names: Mutex<HashSet<Arc<str>>>,
    some: Notify,
}

/// A definition that is served.
struct Serving {
    /// What of it matters.
    description: Value,
    storage: Name,
    feed: AbortHandle,
}

impl CustomTypes {
    /// Serves what is described already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn open(registry: &Arc<Registry>) -> Result<Self, lanyard_store::Error> {
        let endpoint = registry.endpoint(GROUP, "v1", "customresourcedefinitions");
        let definitions = endpoint.map(|endpoint| endpoint.collection);
        let changed = Arc::<Changed>::default();
        if let Some(definitions) = &definitions {
            let changed = changed.clone();
            definitions.observe(Box::new(move |event| {
                changed.names.lock().insert(event.object.key.clone());
                changed.some.notify_one();
            }));
        }
        let mut types = Self {
            registry: registry.clone(),
            definitions,
            changed,
            served: HashMap::new(),
            feeds: JoinSet::new(),
        };
        for name in types.changed.take() {
            types.look_at(&name).await?;
        }
        Ok(types)
    }

    /// Follows the definitions; never ends.
    pub async fn run(mut self) {
        loop {
            self.changed.some.notified().await;
            for name in self.changed.take() {
                if let Err(error) = self.look_at(&name).await {
                    tracing::warn!(%error, definition = &*name, "cannot serve a custom type yet");
                    let changed = self.changed.clone();
                    self.feeds.spawn(async move {
                        tokio::time::sleep(RETRY).await;
                        changed.names.lock().insert(name);
                        changed.some.notify_one();
                    });
                }
            }
            while self.feeds.try_join_next().is_some() {}
        }
    }

    /// Begins, changes or ends to serve the type of one definition.
    async fn look_at(&mut self, name: &Arc<str>) -> Result<(), lanyard_store::Error> {
        let Some(definitions) = &self.definitions else { return Ok(()) };
        let found = definitions.get(name).map(|object| object.value()).unwrap_or_default();
        let description = description(&found);
        if self.served.get(name).is_some_and(|known| known.description == description) {
            return Ok(());
        }
        let Some(resource) = describe(&found) else {
            if let Some(gone) = self.served.remove(name) {
                gone.feed.abort();
                self.registry.withdraw(&gone.storage);
            }
            return Ok(());
        };
        if !self.served.contains_key(name) && self.is_built_in(&resource) {
            return Ok(());
        }
        let storage = resource.storage.clone();
        let collection = Collection::new(Arc::new(resource));
        collection.load(&self.registry.store).await?;
        self.registry.serve(&collection);
        let registry = self.registry.clone();
        let feed = self.feeds.spawn(async move { registry.keep_fed(collection).await });
        let serving = Serving { description, storage, feed };
        if let Some(replaced) = self.served.insert(name.clone(), serving) {
            replaced.feed.abort();
        }
        Ok(())
    }

    /// A built-in type is not replaced by what somebody describes under its name.
    fn is_built_in(&self, resource: &crate::resource::Resource) -> bool {
        let served = self.registry.served();
        let same = |known: &Arc<Collection>| {
            let known = &known.resource;
            known.storage == resource.storage
                || (known.plural == resource.plural
                    && known.views[0].group == resource.views[0].group)
        };
        served.collections.iter().any(same)
    }
}

impl Changed {
    fn take(&self) -> HashSet<Arc<str>> {
        std::mem::take(&mut *self.names.lock())
    }
}

/// What of a definition decides how its type is served.
fn description(definition: &Value) -> Value {
    let conditions: Vec<&Value> = conditions(definition)
        .filter(|condition| condition.text(&["status"]) == "True")
        .filter_map(|condition| condition.get("type"))
        .collect();
    serde_json::json!({
        "uid": definition.uid(),
        "spec": definition["spec"],
        "names": definition["status"]["acceptedNames"],
        "served": conditions.iter().any(|name| **name == "NamesAccepted" || **name == "Established"),
        "terminating": conditions.iter().any(|name| **name == "Terminating"),
    })
}

impl Collection {
    /// Whether there are no objects, in any namespace.
    pub(crate) fn is_empty(&self) -> bool {
        self.list(&Scope::All, None, Some(1), |_| true).0.objects.is_empty()
    }
}
