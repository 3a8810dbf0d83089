//! What this server serves, as OpenAPI: a document per group version (3.0) and one of everything (2.0).
//!
//! Documents are made when they are first asked for, after each change of the served types only those
//! that it touched, and are kept compressed: they are large, and few clients ask for few of them.

mod custom;
mod descriptions;
mod dialect;
mod document;
mod naming;
mod operations;
mod parameters;
mod paths;
mod protobuf;
mod schemas;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read as _, Write as _},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha512};

use crate::{collection::Collection, discovery::Discovery, registry::Served};
use document::Page;

/// The documents that were made so far.
#[derive(Default)]
pub struct OpenApi {
    made: Mutex<Made>,
}

/// A document.
pub struct Document {
    /// The hash of its JSON, in hexadecimal.
    pub hash: String,
    /// Since when it is what it is.
    pub modified: Timestamp,
    gzip: Bytes,
}

/// The document of everything in both its forms.
pub struct Everything {
    /// As JSON.
    pub json: Document,
    /// As the protobuf message of gnostic; its hash is that of the JSON.
    pub protobuf: Document,
}

/// Documents with what they are about. Types that are served no longer are not kept alive by it.
#[derive(Default)]
struct Made {
    pages: BTreeMap<String, Kept>,
    index: Option<(Weak<Served>, Arc<Document>)>,
    everything: Option<(Weak<Served>, Arc<Everything>)>,
}

/// A document and the types that it is about.
struct Kept {
    types: Vec<Weak<Collection>>,
    document: Arc<Document>,
}

impl OpenApi {
    /// The index: where each document is, and under which hash. Blocks while documents are made.
    pub fn index(&self, discovery: &Discovery) -> Arc<Document> {
        let mut made = self.made.lock();
        if let Some((of, index)) = &made.index
            && is(of, discovery.served())
        {
            return index.clone();
        }
        let pages = document::pages(discovery);
        let mut paths = Map::new();
        let mut kept = BTreeMap::new();
        for (name, page) in pages {
            let types = types_of(discovery, &page);
            let page = made.page(&name, types, || document::v3(discovery, page));
            let url = format!("/openapi/v3/{name}?hash={}", page.document.hash);
            paths.insert(name.clone(), json!({"serverRelativeURL": url}));
            kept.insert(name, page);
        }
        made.pages = kept;
        let index = Arc::new(Document::new(json!({"paths": paths}).to_string().as_bytes()));
        made.index = Some((Arc::downgrade(discovery.served()), index.clone()));
        index
    }

    /// The document of a group version or of something else by its name in the index. Blocks while it is
    /// made.
    pub fn page(&self, discovery: &Discovery, name: &str) -> Option<Arc<Document>> {
        let page = document::pages(discovery).remove(name)?;
        let mut made = self.made.lock();
        let types = types_of(discovery, &page);
        let kept = made.page(name, types, || document::v3(discovery, page));
        let document = kept.document.clone();
        made.pages.insert(name.to_owned(), kept);
        Some(document)
    }

    /// The document of everything. Blocks while it is made.
    pub fn everything(&self, discovery: &Discovery) -> Arc<Everything> {
        let mut made = self.made.lock();
        if let Some((of, everything)) = &made.everything
            && is(of, discovery.served())
        {
            return everything.clone();
        }
        let pieces = document::v2(discovery);
        let json = Document::new(pieces.to_v2().as_bytes());
        let protobuf = Document {
            hash: json.hash.clone(),
            modified: json.modified,
            gzip: compress(&protobuf::encode(&pieces)),
        };
        let everything = Arc::new(Everything { json, protobuf });
        made.everything = Some((Arc::downgrade(discovery.served()), everything.clone()));
        everything
    }
}

impl Made {
    /// The document as it was made before, or anew when its types have changed.
    fn page(
        &mut self,
        name: &str,
        types: Vec<Weak<Collection>>,
        make: impl FnOnce() -> String,
    ) -> Kept {
        if let Some(kept) = self.pages.remove(name) {
            let same = kept.types.iter().zip(&types).all(|(a, b)| Weak::ptr_eq(a, b));
            if same && kept.types.len() == types.len() {
                return kept;
            }
        }
        Kept { types, document: Arc::new(Document::new(make().as_bytes())) }
    }
}

impl Document {
    fn new(plain: &[u8]) -> Self {
        let mut hash = String::with_capacity(128);
        for byte in Sha512::digest(plain) {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Self { hash, modified: Timestamp::now(), gzip: compress(plain) }
    }

    /// The bytes, compressed.
    pub fn gzip(&self) -> Bytes {
        self.gzip.clone()
    }

    /// The bytes.
    pub fn plain(&self) -> Bytes {
        let mut plain = Vec::new();
        // It is our own, in memory: it can be read.
        let _ = GzDecoder::new(&*self.gzip).read_to_end(&mut plain);
        plain.into()
    }
}

/// The types that a document is about; it changes with them only.
fn types_of(discovery: &Discovery, page: &Page<'_>) -> Vec<Weak<Collection>> {
    let Page::Version(group, version) = page else { return Vec::new() };
    let collections = discovery.served().collections.iter();
    let in_version = |collection: &&Arc<Collection>| {
        let mut views = collection.resource.views.iter();
        views.any(|view| view.group == group.name && view.version == version.name)
    };
    collections.filter(in_version).map(Arc::downgrade).collect()
}

fn is(of: &Weak<Served>, served: &Arc<Served>) -> bool {
    std::ptr::eq(of.as_ptr(), Arc::as_ptr(served))
}

fn compress(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(plain);
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use lanyard_store::{Store, StoreUrl};
    use serde_json::Value;

    use super::*;
    use crate::{registry::Registry, types};

    async fn registry() -> Arc<Registry> {
        let store = Store::open(&StoreUrl::Memory).await.unwrap();
        Registry::open(store, types::all()).await.unwrap()
    }

    fn read(document: &Document) -> Value {
        serde_json::from_slice(&document.plain()).unwrap()
    }

    #[tokio::test]
    async fn a_change_of_types_touches_only_their_documents() {
        let registry = registry().await;
        let openapi = OpenApi::default();
        let paths = || read(&openapi.index(&Discovery::new(registry.served())))["paths"].clone();
        let before = paths();
        assert_eq!(paths(), before);
        let leases = "leases.coordination.k8s.io";
        registry.withdraw(leases);
        let after = paths();
        let [core, lease] = ["api/v1", "apis/coordination.k8s.io/v1"];
        assert_eq!(after[core], before[core]);
        assert!(before[lease].is_object() && after[lease].is_null(), "{after}");
        let everything = openapi.everything(&Discovery::new(registry.served()));
        let everything = read(&everything.json);
        assert!(everything["definitions"]["io.k8s.api.coordination.v1.Lease"].is_null());
        assert!(everything["definitions"]["io.k8s.api.core.v1.Secret"].is_object());
    }

    #[tokio::test]
    async fn the_index_has_the_hash_of_each_document() {
        let registry = registry().await;
        let openapi = OpenApi::default();
        let discovery = Discovery::new(registry.served());
        for (name, entry) in read(&openapi.index(&discovery))["paths"].as_object().unwrap() {
            let page = openapi.page(&discovery, name).unwrap();
            let url = format!("/openapi/v3/{name}?hash={}", page.hash);
            assert_eq!(entry["serverRelativeURL"], url.as_str());
        }
        assert!(openapi.page(&discovery, "apis/nope/v1").is_none());
    }

    /// The parts of an operation that kubectl looks at before it trusts the server with unknown fields.
    #[tokio::test]
    async fn patches_say_of_which_kind_they_are_and_that_fields_are_checked() {
        let registry = registry().await;
        let discovery = Discovery::new(registry.served());
        let openapi = OpenApi::default();
        let document = read(&openapi.page(&discovery, "api/v1").unwrap());
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"];
        assert_eq!(patch["operationId"], "patchCoreV1NamespacedConfigMap");
        let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
    }
}
