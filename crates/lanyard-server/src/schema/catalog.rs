//! The tables of all built-in kinds, read from one file when the first one is asked for.
//!
//! `kubernetes.fields` is made by `peers/fields` from upstream's Go types. A line that does not begin
//! with a space opens a struct: its OpenAPI name, its Go name, and `map=atomic` where it has one owner.
//! The lines below it are its fields: name, type, presence, and what else is known as `key=value`.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
};

use super::{Alternative, Field, ListType, Merge, Presence, Struct, Type};

static FIELDS: &str = include_str!("kubernetes.fields");

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::read(FIELDS));

/// The table of a built-in type by its OpenAPI name, e.g. `io.k8s.api.core.v1.ConfigMap`.
///
/// # Panics
/// When there is no such type. Names are written in the code, and a test asks for every one.
pub fn builtin(model: &str) -> &'static Struct {
    match CATALOG.structs.get(model) {
        Some(found) => found,
        None => panic!("kubernetes.fields has no {model}; add it to peers/fields"),
    }
}

/// The table of a built-in kind by the kind and version that objects say.
///
/// Kinds of the meta group, such as DeleteOptions, may come with the version of any group.
pub(super) fn kind_of(api_version: &str, kind: &str) -> Option<&'static Struct> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let package = match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or_default(),
    };
    let kinds = &CATALOG.kinds;
    kinds.get(&(package, version, kind)).or_else(|| kinds.get(&("meta", "v1", kind))).copied()
}

/// The table of JSON schemas in custom resource definitions.
const JSON_SCHEMA: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

struct Catalog {
    structs: HashMap<&'static str, &'static Struct>,
    /// By Go package, version and name.
    kinds: HashMap<(&'static str, &'static str, &'static str), &'static Struct>,
}

impl Catalog {
    /// Reads the file. It lives as long as the program, and so does what is made of it: structs refer to
    /// each other, in circles too.
    fn read(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let heads = lines().filter(|line| !line.starts_with(' '));
        let structs: HashMap<_, _> = heads.map(head).map(|s| (s.model, s)).collect();
        let kinds = structs.iter().filter_map(|(model, found)| {
            let mut parts = model.rsplit('.');
            let (kind, version, package) = (parts.next()?, parts.next()?, parts.next()?);
            Some(((package, version, kind), *found))
        });
        let catalog = Self { kinds: kinds.collect(), structs };
        let mut open: Option<(&'static Struct, Vec<Field>)> = None;
        for line in lines() {
            if let Some(field) = line.strip_prefix(' ') {
                let (owner, fields) = open.as_mut().expect("a field stands below its struct");
                fields.push(catalog.field(field, owner));
                continue;
            }
            close(open.take());
            open = Some((catalog.structs[first_word(line)], Vec::new()));
        }
        close(open);
        catalog
    }

    fn field(&self, line: &'static str, owner: &Struct) -> Field {
        let mut words = line.split_whitespace();
        let mut next =
            || words.next().unwrap_or_else(|| panic!("{}: too short: {line}", owner.model));
        let (name, ty, presence) = (next(), self.ty(next()), presence(next()));
        let mut field = Field {
            name,
            ty,
            presence,
            number: Box::default(),
            required: false,
            merge: Merge::default(),
            default: None,
            allowed: Box::default(),
        };
        let known = words.map(|word| word.split_once('=').unwrap_or((word, "")));
        known.for_each(|(key, value)| field.note(key, value));
        field
    }

    fn ty(&self, text: &'static str) -> Type {
        if let Some(inner) = text.strip_prefix("[]") {
            return Type::List(Box::new(self.ty(inner)));
        }
        if let Some(inner) = text.strip_prefix("{}") {
            return Type::Map(Box::new(self.ty(inner)));
        }
        if let Some(go_name) = text.strip_prefix("string:") {
            return Type::Str(go_name);
        }
        let schema_or = |other| Type::SchemaOr(other, self.structs[JSON_SCHEMA]);
        match text {
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "double" => Type::Double,
            "string" => Type::Str("string"),
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "int-or-string" => Type::IntOrString,
            "quantity" => Type::Quantity,
            "raw" => Type::Raw,
            "boxed:string" => Type::BoxedStrings,
            "schema-or-list" => schema_or(Alternative::List),
            "schema-or-bool" => schema_or(Alternative::Bool),
            "schema-or-strings" => schema_or(Alternative::Strings),
            model => Type::Struct(self.structs[model]),
        }
    }
}

impl Field {
    /// Takes in one more thing that is known of it.
    fn note(&mut self, key: &'static str, value: &'static str) {
        let number = |text: &str| text.parse::<u32>().expect("numbers of fields are numbers");
        match key {
            "n" => self.number = [&*self.number, &[number(value)]].concat().into(),
            "via" => {
                let around: Vec<u32> = value.split('.').map(number).collect();
                self.number = [&*around, &*self.number].concat().into();
            }
            "required" => self.required = true,
            "list" => {
                // The keys of a map come in a word of their own, which may have come first.
                self.merge.list = match value {
                    "atomic" => Some(ListType::Atomic),
                    "set" => Some(ListType::Set),
                    _ => self.merge.list.take(),
                }
            }
            "keys" => self.merge.list = Some(ListType::Map(value.split(',').collect())),
            "map" => self.merge.atomic = value == "atomic",
            "patch" => {
                self.merge.patch_merge = value.split(',').any(|strategy| strategy == "merge");
                self.merge.patch_retain_keys = value.split(',').any(|s| s == "retainKeys");
            }
            "patch-key" => self.merge.patch_key = Some(value),
            "default" => {
                self.default = Some(serde_json::from_str(value).expect("defaults are JSON"));
            }
            "enum" => self.allowed = value.split('|').map(with_spaces).collect(),
            other => panic!("{}: what is {other}?", self.name),
        }
    }
}

fn head(line: &'static str) -> &'static Struct {
    let mut words = line.split(' ');
    let model = words.next().unwrap_or_default();
    let go_name = words.next().unwrap_or_default();
    let name = go_name.rsplit('.').next().unwrap_or_default();
    let atomic = words.next() == Some("map=atomic");
    Box::leak(Box::new(Struct {
        name,
        go_name,
        model,
        atomic,
        fields: OnceLock::new(),
        layout: OnceLock::new(),
    }))
}

fn close(open: Option<(&'static Struct, Vec<Field>)>) {
    if let Some((owner, fields)) = open {
        owner.fields.set(fields.into()).expect("every struct stands in the file once");
    }
}

fn presence(word: &str) -> Presence {
    match word {
        "always" => Presence::Always,
        "omitempty" => Presence::OmitEmpty,
        "pointer" => Presence::Pointer,
        "nullable" => Presence::Nullable,
        other => panic!("what is {other}?"),
    }
}

/// Words of the file are told apart by spaces, so those inside of values are written as `~`.
fn with_spaces(word: &'static str) -> &'static str {
    if word.contains('~') { word.replace('~', " ").leak() } else { word }
}

fn first_word(line: &'static str) -> &'static str {
    line.split(' ').next().unwrap_or_default()
}

/// Tables for tests, in the form of the file; the first one is the root.
#[cfg(test)]
pub(crate) fn table(text: &'static str) -> &'static Struct {
    Catalog::read(text).structs[first_word(text.trim_start())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_can_be_read() {
        let pod = builtin("io.k8s.api.core.v1.PodSpec");
        let volumes = pod.field("volumes").unwrap();
        assert_eq!(volumes.merge.list, Some(ListType::Map(["name"].into())));
        assert_eq!(volumes.merge.patch_key, Some("name"));
        assert!(volumes.merge.patch_merge && volumes.merge.patch_retain_keys);
        assert_eq!(*volumes.number, [1]);
        let host_path = builtin("io.k8s.api.core.v1.Volume").field("hostPath").unwrap();
        assert_eq!(*host_path.number, [2, 1]);
        let protocol = builtin("io.k8s.api.core.v1.ContainerPort").field("protocol").unwrap();
        assert_eq!(protocol.default, Some("TCP".into()));
        assert!(builtin("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").atomic);
    }

    #[test]
    fn every_field_but_kind_and_version_has_a_number_in_protobuf() {
        for table in CATALOG.structs.values() {
            for field in table.fields() {
                let in_envelope = matches!(field.name, "kind" | "apiVersion");
                assert!(in_envelope || !field.number.is_empty(), "{}.{}", table.model, field.name);
            }
        }
    }
}
