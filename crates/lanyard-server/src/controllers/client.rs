//! How the loops write: as the server's own user, through the registry.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    authn::UserInfo,
    collection::Collection,
    encoded::Encoded,
    registry::{Call, Change, Deleted, Endpoint, Patch, Registry, delete::DeleteOptions},
    request::FieldValidation,
    resource::Subresource,
    server::{SYSTEM_MANAGER, system_user},
    status::ApiResult,
};

/// A client of the registry inside the server.
pub(super) struct Client {
    registry: Arc<Registry>,
    user: UserInfo,
}

impl Client {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        Self { registry: registry.clone(), user: system_user() }
    }

    /// Deletes an object.
    pub(super) async fn delete(
        &self,
        collection: &Arc<Collection>,
        key: &str,
        options: &DeleteOptions,
    ) -> ApiResult<Deleted> {
        let endpoint = Endpoint { collection: collection.clone(), view: 0 };
        let warnings = Mutex::default();
        self.registry.delete(&self.call(&endpoint, key, None, &warnings), options).await
    }

    /// Deletes objects; their dependents follow.
    pub(super) async fn delete_all(
        &self,
        collection: &Arc<Collection>,
        objects: &[Arc<Encoded>],
    ) -> ApiResult<()> {
        let endpoint = Endpoint { collection: collection.clone(), view: 0 };
        let warnings = Mutex::default();
        let call = self.call(&endpoint, "", None, &warnings);
        self.registry.delete_all(&call, objects, &DeleteOptions::background()).await
    }

    /// Merges `patch` into an object.
    pub(super) async fn merge(
        &self,
        collection: &Arc<Collection>,
        key: &str,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> ApiResult<()> {
        let endpoint = Endpoint { collection: collection.clone(), view: 0 };
        let warnings = Mutex::default();
        let call = self.call(&endpoint, key, subresource, &warnings);
        let validation = FieldValidation::Ignore;
        let change = Change::Patch { patch: Patch::merge(patch), validation };
        self.registry.change(&call, &change, false).await.map(drop)
    }

    /// Creates an object.
    pub(super) async fn create(
        &self,
        collection: &Arc<Collection>,
        key: &str,
        object: Value,
    ) -> ApiResult<()> {
        let endpoint = Endpoint { collection: collection.clone(), view: 0 };
        let warnings = Mutex::default();
        let call = Call { name: "", ..self.call(&endpoint, key, None, &warnings) };
        self.registry.create_object(&call, object, false).await.map(drop)
    }

    fn call<'a>(
        &'a self,
        endpoint: &'a Endpoint,
        key: &'a str,
        subresource: Option<Subresource>,
        warnings: &'a Mutex<Vec<String>>,
    ) -> Call<'a> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let (user, manager) = (&self.user, SYSTEM_MANAGER);
        Call { user, endpoint, namespace, name, subresource, manager, warnings }
    }
}
