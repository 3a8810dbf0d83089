//! The models of a document: the kinds, and everything that they are made of.
//!
//! They come from the tables by which requests are checked, so a document cannot promise what the server
//! does not do.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{descriptions::Descriptions, dialect::Dialect, naming::Gvk};
use crate::schema::{Alternative, Field, ListType, Presence, Struct, Type, builtin};

pub(super) const API_RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
pub(super) const API_GROUP: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
pub(super) const API_GROUP_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList";
pub(super) const API_VERSIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const VERSION_INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const FIELDS_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

/// Meta kinds that belong to the core group wherever they are used.
const CORE_KINDS: [&str; 5] = [API_RESOURCE_LIST, API_GROUP, API_GROUP_LIST, API_VERSIONS, STATUS];

/// The models of one document, each written as JSON.
pub(super) struct Schemas<'a> {
    pub(super) dialect: Dialect,
    descriptions: &'a Descriptions,
    /// The kinds that models are, where they are any.
    kinds: BTreeMap<String, Vec<Gvk>>,
    written: BTreeMap<String, String>,
}

impl<'a> Schemas<'a> {
    /// No models yet. Options and events are kinds of every one of these groups and versions.
    pub(super) fn new(
        dialect: Dialect,
        descriptions: &'a Descriptions,
        group_versions: &[(&str, &str)],
    ) -> Self {
        let mut schemas =
            Self { dialect, descriptions, kinds: BTreeMap::new(), written: BTreeMap::new() };
        for model in CORE_KINDS {
            schemas.is_kind(model, Gvk::new("", "v1", last_part(model)));
        }
        for model in [DELETE_OPTIONS, WATCH_EVENT] {
            schemas.is_kind(model, Gvk::new("", "v1", last_part(model)));
            for (group, version) in group_versions {
                schemas.is_kind(model, Gvk::new(group, version, last_part(model)));
            }
        }
        schemas
    }

    /// Notes that a model is a kind; before it is written.
    pub(super) fn is_kind(&mut self, model: &str, gvk: Gvk) {
        let kinds = self.kinds.entry(model.to_owned()).or_default();
        if !kinds.contains(&gvk) {
            kinds.push(gvk);
            kinds.sort();
        }
    }

    /// The models as JSON, by name.
    pub(super) fn into_written(self) -> BTreeMap<String, String> {
        self.written
    }

    /// Writes a model that is in no table.
    pub(super) fn insert(&mut self, model: &str, mut schema: Value) {
        if let Some(kinds) = self.kinds.get(model) {
            let kinds: Vec<Value> = kinds.iter().map(Gvk::to_json).collect();
            schema["x-kubernetes-group-version-kind"] = kinds.into();
        }
        if let Some(text) = self.descriptions.of_model(model) {
            schema["description"] = text.into();
        }
        self.written.insert(model.to_owned(), schema.to_string());
    }

    /// Makes sure that a model is there with all that it refers to, by its name.
    pub(super) fn need(&mut self, model: &str) {
        if self.written.contains_key(model) {
            return;
        }
        let schema = match model {
            PATCH | FIELDS_V1 | RAW_EXTENSION => json!({"type": "object"}),
            TIME | MICRO_TIME => json!({"type": "string", "format": "date-time"}),
            INT_OR_STRING => match self.dialect {
                Dialect::V2 => json!({"type": "string", "format": "int-or-string"}),
                Dialect::V3 => json!({
                    "format": "int-or-string",
                    "oneOf": [{"type": "integer"}, {"type": "string"}],
                }),
            },
            QUANTITY => match self.dialect {
                Dialect::V2 => json!({"type": "string"}),
                Dialect::V3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            },
            WATCH_EVENT => self.watch_event(),
            VERSION_INFO => self.version_info(),
            model if self.is_anything(model) => json!({}),
            model => return self.need_struct(builtin(model)),
        };
        self.insert(model, schema);
    }

    /// Whether it is one of the models of JSON schemas that say nothing of their form.
    fn is_anything(&self, model: &str) -> bool {
        let name = model.strip_prefix(EXTENSIONS);
        name.is_some_and(|name| name == "JSON" || name.starts_with("JSONSchemaPropsOr"))
    }

    /// As [`Schemas::need`], for a table.
    pub(super) fn need_struct(&mut self, fields: &Struct) {
        if self.written.contains_key(fields.model) {
            return;
        }
        // Tables may refer to themselves.
        self.written.insert(fields.model.to_owned(), String::new());
        let mut properties = Map::new();
        for field in fields.fields() {
            properties.insert(field.name.to_owned(), self.property(fields, field));
        }
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        let required = fields.fields().iter().filter(|field| field.required);
        let required: Vec<&str> = required.map(|field| field.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if fields.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        self.insert(fields.model, schema);
    }

    /// The model of the list of a kind; where `zeroes`, it says what is there when nothing is.
    pub(super) fn list(&mut self, item: &str, zeroes: bool) -> Value {
        self.need(LIST_META);
        let mut metadata = self.dialect.extended(LIST_META);
        let mut items = self.dialect.reference(item);
        if self.dialect == Dialect::V3 && zeroes {
            items = json!({"allOf": [items], "default": {}});
            metadata["default"] = json!({});
        }
        let text = |text: &str| json!({"type": "string", "description": text});
        metadata["description"] = "Where the list stands in the history of its objects.".into();
        json!({
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": text(self.descriptions.api_version()),
                "kind": text(self.descriptions.kind()),
                "metadata": metadata,
                "items": {"type": "array", "items": items, "description": "The objects."},
            },
        })
    }

    fn property(&mut self, owner: &Struct, field: &Field) -> Value {
        let described = self.descriptions.of_field(owner, field);
        let zero = field.presence == Presence::Always;
        let mut schema = self.of_type(owner, &field.ty, zero, described.is_some());
        if let Some(default) = field.default.as_ref().filter(|_| self.dialect == Dialect::V3) {
            schema["default"] = default.clone();
        }
        if !field.allowed.is_empty() {
            let of =
                if matches!(field.ty, Type::List(_)) { &mut schema["items"] } else { &mut schema };
            of["enum"] = json!(field.allowed);
        }
        match &field.merge.list {
            None => {}
            Some(ListType::Atomic) => schema["x-kubernetes-list-type"] = "atomic".into(),
            Some(ListType::Set) => schema["x-kubernetes-list-type"] = "set".into(),
            Some(ListType::Map(keys)) => {
                schema["x-kubernetes-list-type"] = "map".into();
                schema["x-kubernetes-list-map-keys"] = json!(keys);
            }
        }
        if field.merge.atomic {
            schema["x-kubernetes-map-type"] = "atomic".into();
        }
        let strategy = match (field.merge.patch_merge, field.merge.patch_retain_keys) {
            (true, true) => "merge,retainKeys",
            (true, false) => "merge",
            (false, true) => "retainKeys",
            (false, false) => "",
        };
        if !strategy.is_empty() {
            schema["x-kubernetes-patch-strategy"] = strategy.into();
        }
        if let Some(key) = field.merge.patch_key {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
        if let Some(text) = described {
            schema["description"] = text.into();
        }
        schema
    }

    /// The schema of a value. `zero` says whether the empty value is written out, `described` whether
    /// something will stand beside it.
    fn of_type(&mut self, owner: &Struct, ty: &Type, zero: bool, described: bool) -> Value {
        let plain = match ty {
            Type::Bool => Some((json!({"type": "boolean"}), json!(false))),
            Type::Int32 => Some((json!({"type": "integer", "format": "int32"}), json!(0))),
            Type::Int64 => Some((json!({"type": "integer", "format": "int64"}), json!(0))),
            Type::Double => Some((json!({"type": "number", "format": "double"}), json!(0))),
            Type::Str(_) => Some((json!({"type": "string"}), json!(""))),
            _ => None,
        };
        if let Some((mut schema, default)) = plain {
            if zero && self.dialect == Dialect::V3 {
                schema["default"] = default;
            }
            return schema;
        }
        match ty {
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Map(value) => {
                let value = self.of_type(owner, value, true, false);
                json!({"type": "object", "additionalProperties": value})
            }
            Type::List(item) => {
                let item = self.of_type(owner, item, true, false);
                json!({"type": "array", "items": item})
            }
            Type::BoxedStrings => {
                let item = self.of_type(owner, &Type::Str("string"), true, false);
                json!({"type": "array", "items": item})
            }
            Type::Struct(fields) => {
                self.need_struct(fields);
                self.refer(fields.model, zero, described)
            }
            other => {
                let model = leaf(owner, other);
                self.need(&model);
                self.refer(&model, false, described)
            }
        }
    }

    fn refer(&self, model: &str, zero: bool, described: bool) -> Value {
        match self.dialect {
            Dialect::V3 if zero => {
                json!({"allOf": [self.dialect.reference(model)], "default": {}})
            }
            _ if described => self.dialect.extended(model),
            _ => self.dialect.reference(model),
        }
    }

    fn watch_event(&mut self) -> Value {
        self.need(RAW_EXTENSION);
        let mut kind = json!({"type": "string", "description": "What happened: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."});
        if self.dialect == Dialect::V3 {
            kind["default"] = "".into();
        }
        let mut object = self.dialect.extended(RAW_EXTENSION);
        object["description"] =
            "The object after the change, the last state of a deleted one, or a Status.".into();
        json!({
            "type": "object",
            "required": ["type", "object"],
            "properties": {"type": kind, "object": object},
        })
    }

    fn version_info(&self) -> Value {
        let required = [
            "major",
            "minor",
            "gitVersion",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        ];
        let optional =
            ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
        let mut properties = Map::new();
        for name in required {
            let mut text = json!({"type": "string"});
            if self.dialect == Dialect::V3 {
                text["default"] = "".into();
            }
            properties.insert(name.to_owned(), text);
        }
        for name in optional {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
        json!({"type": "object", "required": required, "properties": properties})
    }
}

/// The model of a value that is no table; `owner` tells those of free form apart.
fn leaf(owner: &Struct, ty: &Type) -> String {
    let name = match ty {
        Type::Time => TIME,
        Type::MicroTime => MICRO_TIME,
        Type::IntOrString => INT_OR_STRING,
        Type::Quantity => QUANTITY,
        Type::SchemaOr(Alternative::List, _) => {
            return format!("{EXTENSIONS}JSONSchemaPropsOrArray");
        }
        Type::SchemaOr(Alternative::Bool, _) => {
            return format!("{EXTENSIONS}JSONSchemaPropsOrBool");
        }
        Type::SchemaOr(Alternative::Strings, _) => {
            return format!("{EXTENSIONS}JSONSchemaPropsOrStringArray");
        }
        _ if owner.model == MANAGED_FIELDS => FIELDS_V1,
        _ if owner.model.starts_with(EXTENSIONS) && owner.name == "JSONSchemaProps" => {
            return format!("{EXTENSIONS}JSON");
        }
        _ => RAW_EXTENSION,
    };
    name.to_owned()
}

fn last_part(model: &str) -> &str {
    model.rsplit('.').next().unwrap_or_default()
}
