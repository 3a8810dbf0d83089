//! The description of a resource type: everything the generic registry must know to serve it.
//!
//! A [`Resource`] is one stored kind with one or more [`View`]s of it: the group versions through which
//! clients see it. Type-specific behaviour is behind the [`Rules`] trait; there is no CRUD code per type.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    authn::UserInfo,
    custom,
    field::FieldError,
    merge::shape::Node,
    name::{Name, names},
    schema::{Conformed, Struct, TypeMismatch},
};

/// One stored kind and how it is served.
pub struct Resource {
    /// The segment of the storage key, e.g. `configmaps` or `clusterroles.rbac.authorization.k8s.io`.
    pub storage: Name,
    /// The plural name in URLs.
    pub plural: Name,
    /// The singular name.
    pub singular: Name,
    /// The kind.
    pub kind: Name,
    /// Short names for kubectl.
    pub short_names: Vec<Name>,
    /// Categories for kubectl.
    pub categories: Vec<Name>,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// The verbs offered on the main resource.
    pub verbs: &'static [&'static str],
    /// Subresources that the registry itself serves as parts of the object.
    pub subresources: &'static [Subresource],
    /// The group versions, preferred first; the first is the stored form.
    pub views: Vec<View>,
    /// Type-specific behaviour.
    pub rules: Arc<dyn Rules>,
}

/// Where objects of a type live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In a namespace.
    Namespaced,
}

/// One group version of a resource.
pub struct View {
    /// The API group, empty for core.
    pub group: Name,
    /// The version.
    pub version: Name,
    /// The fields that objects may have in this version.
    pub schema: Schema,
    /// How to go from and to the stored form; `None` when they are the same but for `apiVersion`.
    pub conversion: Option<Conversion>,
    /// What `/scale` shows; `None` when there is no such subresource.
    pub scale: Option<Scaling>,
}

impl Resource {
    /// Whether it comes from a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        self.views[0].schema.custom().is_some()
    }

    /// The parts of objects that a view gives an address of their own.
    pub fn subresources_in(&self, view: &View) -> &'static [Subresource] {
        view.schema.custom().map_or(self.subresources, |version| version.subresources())
    }
}

impl View {
    /// A group version that differs from the stored form by nothing but its `apiVersion`.
    pub fn new(
        group: impl Into<Name>,
        version: impl Into<Name>,
        schema: impl Into<Schema>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            schema: schema.into(),
            conversion: None,
            scale: None,
        }
    }

    /// The same with a conversion.
    pub fn converted(self, conversion: Conversion) -> Self {
        Self { conversion: Some(conversion), ..self }
    }

    /// The same with a `/scale`.
    pub fn scaled(self, scale: Scaling) -> Self {
        Self { scale: Some(scale), ..self }
    }

    /// Whether clients see it; a stored version may be kept from them.
    pub fn is_served(&self) -> bool {
        self.schema.custom().is_none_or(|version| version.served)
    }

    /// The `apiVersion` of objects in this view: `v1` or `group/v1`.
    pub fn api_version(&self) -> String {
        match &*self.group {
            "" => (*self.version).to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// What fields the objects of a view may have.
#[derive(Clone, Debug)]
pub enum Schema {
    /// Those of a built-in kind.
    Builtin(&'static Struct),
    /// Those of a version of a custom resource.
    Custom(Arc<custom::Version>),
}

impl Schema {
    /// The table of a built-in kind.
    pub fn builtin(&self) -> Option<&'static Struct> {
        match self {
            Self::Builtin(fields) => Some(fields),
            Self::Custom(_) => None,
        }
    }

    /// The version of a custom resource.
    pub fn custom(&self) -> Option<&custom::Version> {
        match self {
            Self::Builtin(_) => None,
            Self::Custom(version) => Some(version),
        }
    }

    /// How objects of the kind merge.
    pub fn node(&self) -> &dyn Node {
        match self {
            Self::Builtin(fields) => *fields,
            Self::Custom(version) => &**version,
        }
    }

    /// The JSON schema of a custom resource as its definition has it, for OpenAPI; nothing where the
    /// definition says nothing, and for built-in kinds, whose tables say it.
    pub fn openapi(&self) -> Option<Value> {
        match self {
            Self::Builtin(_) => None,
            Self::Custom(version) => Some(version.source.clone()).filter(Value::is_object),
        }
    }

    /// Brings an object into the form of the kind.
    ///
    /// # Errors
    /// When a value has another type than its field.
    pub fn conform(&self, value: Value) -> Result<Conformed, TypeMismatch> {
        match self {
            Self::Builtin(fields) => fields.conform(value),
            Self::Custom(version) => version.conform(value),
        }
    }
}

impl From<&'static Struct> for Schema {
    fn from(fields: &'static Struct) -> Self {
        Self::Builtin(fields)
    }
}

/// Conversion between a view and the stored form; both ways must not lose anything.
#[derive(Clone, Copy)]
pub struct Conversion {
    /// From the stored form to this view.
    pub from_stored: fn(&mut Value),
    /// From this view to the stored form.
    pub to_stored: fn(&mut Value),
}

/// A part of an object with an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// `/status`: get, update and patch change only `status`.
    Status,
    /// `/finalize` of namespaces: update changes only `spec.finalizers`.
    Finalize,
    /// `/approval` of certificate signing requests: get, update and patch change only conditions.
    Approval,
    /// `/scale`: get, update and patch see the object as a Scale of `autoscaling/v1`. Which views offer
    /// it and what it shows is in [`View::scale`]; to [`Rules`] it is a write like any other.
    Scale,
}

/// Where the objects of a view keep what their `/scale` shows.
#[derive(Clone, Debug)]
pub struct Scaling {
    /// The path of the number that is wanted.
    pub wanted: Vec<Name>,
    /// The path of the number that there is.
    pub present: Vec<Name>,
    /// What selects the things that are counted.
    pub selector: ScaleSelector,
}

/// Where a Scale has its selector from.
#[derive(Clone, Debug)]
pub enum ScaleSelector {
    /// Nowhere.
    None,
    /// From the selector with `matchLabels` and `matchExpressions` at this path.
    Object(Vec<Name>),
    /// From the text at this path.
    Text(Vec<Name>),
}

impl Scaling {
    /// That of the built-in kinds: `spec.replicas`, `status.replicas`, `spec.selector`.
    pub fn replicas() -> Self {
        Self {
            wanted: names(&["spec", "replicas"]),
            present: names(&["status", "replicas"]),
            selector: ScaleSelector::Object(names(&["spec", "selector"])),
        }
    }
}

/// Which write rules apply: the whole object or a subresource, and through which view.
#[derive(Clone, Copy)]
pub struct WriteContext<'a> {
    /// The view of the request.
    pub view: &'a View,
    /// The subresource written to, if any.
    pub subresource: Option<Subresource>,
}

/// Type-specific behaviour. Objects are in the stored form, schema-checked and defaulted.
pub trait Rules: Send + Sync + 'static {
    /// Fills in defaults; runs on every write before anything else.
    fn apply_defaults(&self, _object: &mut Value) {}

    /// Clears and sets what the server owns on creation (e.g. drops `status`).
    fn prepare_create(&self, _object: &mut Value) {}

    /// Restores what an update may not touch (e.g. `status` on a main update, all else on `/status`).
    fn prepare_update(&self, _new: &mut Value, _old: &Value, _context: WriteContext<'_>) {}

    /// Notes who asks and when (`now` is in RFC 3339), in types that keep that; runs after the other
    /// preparations.
    fn note_request(&self, _new: &mut Value, _old: Option<&Value>, _user: &UserInfo, _now: &str) {}

    /// The fields that a write cannot change, whatever it says, and so does not own.
    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            None | Some(Subresource::Finalize | Subresource::Scale) => &[&["status"]],
            Some(Subresource::Status | Subresource::Approval) => &[&["spec"]],
        }
    }

    /// The problems of a new object, beyond those of its metadata.
    fn validate(&self, object: &Value, context: WriteContext<'_>) -> Vec<FieldError>;

    /// The problems of a changed object, beyond those of its metadata.
    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError>;

    /// Texts for `Warning` headers.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Whether [`Rules::validate`] looks at the metadata itself, as much as it wants to; the rules for
    /// all metadata then only come after it, and only when it found nothing.
    fn checks_metadata(&self) -> bool {
        false
    }

    /// What names are allowed.
    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
    }

    /// Why there may be no new objects at the moment.
    fn refuses_creation(&self) -> Option<&'static str> {
        None
    }

    /// Whether PUT on a missing name creates it.
    fn create_on_update(&self) -> bool {
        false
    }

    /// Whether PUT without a resource version overwrites whatever is there.
    fn unconditional_update(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` is kept: 1 at creation, one more with each change that this
    /// function calls one.
    fn generation_changes(&self, _new: &Value, _old: &Value) -> Option<bool> {
        None
    }

    /// Whether nothing but `metadata.finalizers` can hold back a deletion now.
    fn deletion_ready(&self, _object: &Value) -> bool {
        true
    }

    /// How many seconds an object that is to be deleted has left, when the type lets its objects end in
    /// peace; `asked` is what the client wants.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether a deletion answers with the object that is gone, rather than with its name and uid.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Whether objects can have dependents for the garbage collector to look after.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Shows in the object that its deletion has begun.
    fn mark_deleting(&self, _object: &mut Value) {}

    /// Seconds after which an object deletes itself.
    fn time_to_live(&self, _object: &Value) -> Option<u64> {
        None
    }

    /// The columns of the table that `kubectl get` prints.
    fn columns(&self) -> &'static [Column];

    /// The cells of one row, in the order of the columns. `now` is in seconds since 1970.
    fn cells(&self, object: &Value, now: i64) -> Vec<Value>;

    /// Field selectors beyond `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The stored field that a field selector of a view means; nothing when the view has no such one.
    fn selectable_in_view<'a>(&'a self, _view: &'a View, field: &str) -> Option<&'a str> {
        let custom = self.custom_selectable_fields().iter().map(|name| &**name);
        self.selectable_fields().iter().copied().chain(custom).find(|known| *known == field)
    }

    /// Further field selectors, of types whose fields are known only at run time.
    fn custom_selectable_fields(&self) -> &[Name] {
        &[]
    }

    /// The value of a selectable field, empty when not set.
    fn selectable_field(&self, _object: &Value, _field: &str) -> String {
        String::new()
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub kind: &'static str,
    /// `name` for the first column, else empty.
    pub format: &'static str,
    /// One sentence.
    pub description: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: u8,
}

/// What names objects of a type may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most types.
    DnsSubdomain,
    /// RFC 1123 label: namespaces.
    DnsLabel,
    /// RFC 1035 label: services.
    Dns1035Label,
    /// Anything that fits into a path segment: RBAC.
    PathSegment,
}
