//! The built-in kinds against recorded answers of kube-apiserver 1.36, and properties of all of them.
//!
//! Each record is one write: the request, for updates what was there before, and either the object
//! that came back, the field errors, or the decoding error. `{"$repeat": [text, times]}` stands for a
//! long string. What servers choose freely (uid, times, managed fields) is left out.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{all, object_meta};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Resource, Scope, Subresource, View, WriteContext},
    schema::TypeMismatch,
};

#[test]
fn writes_end_as_on_kube_apiserver() {
    let records: Vec<Value> =
        serde_json::from_str(include_str!("testdata/kube-apiserver-1.36.json")).unwrap();
    let mut differences = Vec::new();
    for record in records.into_iter().map(expand_repeats) {
        let mut expected = Map::new();
        for field in ["decode", "errors", "object", "warnings"] {
            if let Some(value) = record.get(field) {
                expected.insert(field.into(), sorted(value.clone()));
            }
        }
        let actual = Value::Object(Write::of(&record).run());
        if actual != Value::Object(expected.clone()) {
            let mut request = record["request"].to_string();
            request.truncate(300);
            let expected = Value::Object(expected);
            differences.push(format!("{request}\n  expected {expected}\n  actual   {actual}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// One write, taken through the steps in which the registry takes it.
struct Write<'a> {
    record: &'a Value,
    resource: Resource,
}

impl<'a> Write<'a> {
    fn of(record: &'a Value) -> Self {
        let resource = all().into_iter().find(|r| record["resource"] == *r.plural).unwrap();
        Self { record, resource }
    }

    fn run(&self) -> Map<String, Value> {
        let mut outcome = Map::new();
        match self.object() {
            Err(mismatch) => _ = outcome.insert("decode".into(), mismatch.to_string().into()),
            Ok(Err(errors)) => {
                let mut texts: Vec<_> = errors.iter().map(FieldError::to_string).collect();
                texts.sort_unstable();
                texts.dedup();
                outcome.insert("errors".into(), texts.into());
            }
            Ok(Ok((object, warnings))) => {
                outcome.insert("object".into(), object);
                if !warnings.is_empty() {
                    outcome.insert("warnings".into(), warnings.into());
                }
            }
        }
        outcome
    }

    #[expect(clippy::type_complexity, reason = "the three ways in which a write ends")]
    fn object(&self) -> Result<Result<(Value, Vec<String>), Vec<FieldError>>, TypeMismatch> {
        let Self { record, resource } = self;
        let rules = &resource.rules;
        let view = self.view("apiVersion");
        let mut new = self.decode("request", view)?;
        let context = WriteContext { view, subresource: self.subresource() };
        let old = match record.get("old") {
            None => None,
            Some(_) => Some(self.stored_object()?),
        };
        let errors = match &old {
            None => {
                object_meta::clear_system_fields(&mut new);
                rules.prepare_create(&mut new);
                let mut errors =
                    object_meta::validate_create(&new, resource.scope, rules.name_rule());
                errors.extend(rules.validate(&new, context));
                errors
            }
            Some(old) => {
                object_meta::carry_over(&mut new, old);
                rules.prepare_update(&mut new, old, context);
                let mut errors = object_meta::validate_update(&new, old);
                errors.extend(rules.validate_update(&new, old, context));
                errors
            }
        };
        if !errors.is_empty() {
            return Ok(Err(errors));
        }
        let warnings = rules.warnings(&new, old.as_ref());
        if let Some(conversion) = view.conversion {
            (conversion.from_stored)(&mut new);
        }
        let mut answer = view.schema.conform(new)?.value;
        let meta = answer.meta_mut();
        for field in ["uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"] {
            meta.remove(field);
        }
        Ok(Ok((answer, warnings)))
    }

    /// What the request would have found in the store.
    fn stored_object(&self) -> Result<Value, TypeMismatch> {
        let view = match self.record.get("oldApiVersion") {
            Some(_) => self.view("oldApiVersion"),
            None => self.view("apiVersion"),
        };
        let mut old = self.decode("old", view)?;
        self.resource.rules.prepare_create(&mut old);
        let meta = old.meta_mut();
        meta.insert("uid".into(), "5f0e2c5c-7fd6-4b8e-9c53-2f1b3b7d9a10".into());
        meta.insert("resourceVersion".into(), "7".into());
        meta.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
        if self.record.get("deleting").is_some() {
            meta.insert("deletionTimestamp".into(), "2026-01-02T00:00:00Z".into());
            meta.insert("deletionGracePeriodSeconds".into(), 0.into());
        }
        Ok(old)
    }

    /// Reads an object of the record into its stored form.
    fn decode(&self, field: &str, view: &View) -> Result<Value, TypeMismatch> {
        let mut object = view.schema.conform(self.record[field].clone())?.value;
        if let Some(conversion) = view.conversion {
            (conversion.to_stored)(&mut object);
        }
        object["kind"] = (&self.resource.kind).into();
        object["apiVersion"] = match &*view.group {
            "" => (&view.version).into(),
            group => format!("{group}/{}", view.version).into(),
        };
        if self.resource.scope == Scope::Namespaced {
            let namespace = self.record["namespace"].as_str().unwrap_or("default");
            object.meta_mut().insert("namespace".into(), namespace.into());
        }
        self.resource.rules.apply_defaults(&mut object);
        Ok(object)
    }

    fn view(&self, field: &str) -> &View {
        let wanted = self.record[field].as_str().unwrap();
        let (group, version) = wanted.split_once('/').unwrap_or(("", wanted));
        let mut views = self.resource.views.iter();
        views.find(|view| (&*view.group, &*view.version) == (group, version)).unwrap()
    }

    fn subresource(&self) -> Option<Subresource> {
        match self.record["subresource"].as_str()? {
            "status" => Some(Subresource::Status),
            "finalize" => Some(Subresource::Finalize),
            "approval" => Some(Subresource::Approval),
            other => panic!("no subresource {other}"),
        }
    }
}

fn expand_repeats(value: Value) -> Value {
    match value {
        Value::Object(map) => match map.get("$repeat").and_then(Value::as_array) {
            Some(repeat) => {
                let times = repeat[1].as_u64().unwrap();
                repeat[0].as_str().unwrap().repeat(usize::try_from(times).unwrap()).into()
            }
            None => map.into_iter().map(|(key, value)| (key, expand_repeats(value))).collect(),
        },
        Value::Array(list) => list.into_iter().map(expand_repeats).collect(),
        other => other,
    }
}

/// Field errors have no order on kube-apiserver when they come from maps.
fn sorted(mut value: Value) -> Value {
    if let Value::Array(list) = &mut value {
        list.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    value
}

#[test]
fn every_kind_is_described_completely() {
    for resource in all() {
        let name = &resource.plural;
        let columns = resource.rules.columns();
        let cells = resource.rules.cells(&json!({}), 0);
        assert_eq!(columns.len(), cells.len(), "{name}");
        assert_eq!(columns.iter().filter(|c| c.format == "name").count(), 1, "{name}");
        assert_eq!(resource.singular, resource.kind.to_lowercase(), "{name}");
        assert!(resource.views[0].conversion.is_none(), "{name}: the first view is stored");
        for view in &resource.views {
            for field in ["apiVersion", "kind", "metadata"] {
                assert!(view.schema.builtin().unwrap().field(field).is_some(), "{name} {field}");
            }
            assert_eq!(resource.kind, view.schema.builtin().unwrap().name);
        }
    }
}

#[test]
fn rows_read_as_kubectl_prints_them() {
    let now = 1_800_000_000;
    let meta = json!({"name": "n", "creationTimestamp": "2027-01-15T07:57:39Z"});
    let check = |plural: &str, mut object: Value, expected: Value| {
        object["metadata"] = meta.clone();
        let resource = all().into_iter().find(|r| r.plural == plural).unwrap();
        assert_eq!(Value::from(resource.rules.cells(&object, now)), expected, "{plural}");
    };
    check(
        "configmaps",
        json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}),
        json!(["n", 3, "2m21s"]),
    );
    check("secrets", json!({"type": "Opaque"}), json!(["n", "Opaque", 0, "2m21s"]));
    check("namespaces", json!({"status": {"phase": "Active"}}), json!(["n", "Active", "2m21s"]));
    check("serviceaccounts", json!({}), json!(["n", "2m21s"]));
    check("leases", json!({"spec": {"holderIdentity": "h"}}), json!(["n", "h", "2m21s"]));
    check("roles", json!({}), json!(["n", "2027-01-15T07:57:39Z"]));
    check("clusterroles", json!({}), json!(["n", "2027-01-15T07:57:39Z"]));
    let binding = json!({
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"},
            {"kind": "User", "name": "v"},
            {"kind": "Group", "name": "g"},
            {"kind": "ServiceAccount", "namespace": "ns", "name": "s"},
        ],
    });
    let row = json!(["n", "ClusterRole/r", "2m21s", "u, v", "g", "ns/s"]);
    check("rolebindings", binding.clone(), row.clone());
    check("clusterrolebindings", binding, row);
    check(
        "services",
        json!({"spec": {
            "type": "ClusterIP",
            "clusterIPs": ["10.0.0.1"],
            "ports": [{"port": 443, "protocol": "TCP"}, {"port": 1, "nodePort": 2, "protocol": "UDP"}],
        }}),
        json!(["n", "ClusterIP", "10.0.0.1", "<none>", "443/TCP,1:2/UDP", "2m21s", "<none>"]),
    );
    check(
        "events",
        json!({
            "type": "Normal", "reason": "R", "message": " m\n",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"},
            "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2027-01-15T07:00:00Z", "lastTimestamp": "2027-01-15T07:59:00Z", "count": 4,
        }),
        json!(["60s", "Normal", "R", "pod/p", "f", "c, h", "m", "60m", 4, "n"]),
    );
    check(
        "events",
        json!({
            "eventTime": "2027-01-15T07:59:59.000000Z", "reportingComponent": "rc",
            "series": {"count": 9, "lastObservedTime": "2027-01-15T08:00:00.000000Z"},
        }),
        json!(["0s", "", "", "", "", "rc", "", "1s", 9, "n"]),
    );
}

#[test]
fn events_are_selected_by_the_fields_of_their_view() {
    let events = all().into_iter().find(|r| r.plural == "events").unwrap();
    let check = |view: usize, field: &str, expected: Option<&str>| {
        let known = events.rules.selectable_in_view(&events.views[view], field);
        assert_eq!(known, expected, "{field}");
    };
    check(0, "involvedObject.name", Some("involvedObject.name"));
    check(0, "source", Some("source"));
    check(0, "regarding.name", None);
    check(1, "regarding.name", Some("involvedObject.name"));
    check(1, "reportingController", Some("reportingComponent"));
    check(1, "source", None);
    check(1, "involvedObject.name", None);
    let event = json!({"reportingComponent": "rc", "involvedObject": {"uid": "u"}, "type": "T"});
    let value = |field| events.rules.selectable_field(&event, field);
    assert_eq!([value("source"), value("involvedObject.uid"), value("type")], ["rc", "u", "T"]);
}

/// Any JSON, with a leaning to the field names of the kinds.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
        Just(Value::from("2024-01-01T00:00:00Z")),
        Just(Value::from("2024-01-01T00:00:00.000001+01:00")),
        Just(Value::from("eA==")),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let mut names: Vec<&str> = Vec::new();
        for resource in all() {
            for view in &resource.views {
                names
                    .extend(view.schema.builtin().unwrap().fields().iter().map(|field| field.name));
            }
        }
        let key = prop_oneof![proptest::sample::select(names), Just("x")];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((key, inner), 0..6).prop_map(|pairs| {
                pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            }),
        ]
    })
}

/// An object that a kind's table would write, give or take empty fields.
fn object_of(schema: &'static crate::schema::Struct) -> BoxedStrategy<Value> {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name.to_owned();
            proptest::option::of(value_of(&field.ty))
                .prop_map(move |value| value.map(|value| (name.clone(), value)))
        })
        .collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect()).boxed()
}

fn value_of(ty: &'static crate::schema::Type) -> BoxedStrategy<Value> {
    use crate::schema::Type;
    match ty {
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int32 | Type::Int64 | Type::IntOrString => (-2..3).prop_map(Value::from).boxed(),
        Type::Str(_) => "[a-z]{0,2}".prop_map(Value::from).boxed(),
        Type::Bytes => Just(Value::from("eA==")).boxed(),
        Type::Time => Just(Value::from("2024-01-01T00:00:00Z")).boxed(),
        Type::MicroTime => Just(Value::from("2024-01-01T00:00:00.000001Z")).boxed(),
        Type::Double => Just(Value::from(0.5)).boxed(),
        Type::Quantity => Just(Value::from("100m")).boxed(),
        Type::BoxedStrings => Just(json!(["a"])).boxed(),
        Type::SchemaOr(..) => Just(json!({"type": "string"})).boxed(),
        Type::Raw => Just(json!({"f:a": {}})).boxed(),
        Type::Map(inner) => proptest::collection::btree_map("[a-z]{1,2}", value_of(inner), 0..3)
            .prop_map(|map| map.into_iter().collect())
            .boxed(),
        Type::List(inner) => {
            proptest::collection::vec(value_of(inner), 0..3).prop_map(Value::from).boxed()
        }
        Type::Struct(fields) => object_of(fields),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn conforming_twice_changes_nothing(value in any_json(), pick in any::<proptest::sample::Index>()) {
        let resources = all();
        let resource = pick.get(&resources);
        for view in &resource.views {
            if let Ok(first) = view.schema.conform(value.clone()) {
                let second = view.schema.conform(first.value.clone()).unwrap();
                prop_assert_eq!(&second.value, &first.value);
                prop_assert!(second.unknown.is_empty());
            }
        }
    }

    #[test]
    fn rules_never_panic_on_odd_objects(value in any_json(), old in any_json()) {
        for resource in all() {
            let rules = &resource.rules;
            let context = WriteContext { view: &resource.views[0], subresource: None };
            let Ok(conformed) = resource.views[0].schema.conform(value.clone()) else { continue };
            let mut new = conformed.value;
            rules.apply_defaults(&mut new);
            rules.prepare_create(&mut new);
            object_meta::validate_create(&new, resource.scope, rules.name_rule());
            rules.validate(&new, context);
            rules.warnings(&new, None);
            object_meta::carry_over(&mut new, &old);
            rules.prepare_update(&mut new, &old, context);
            object_meta::validate_update(&new, &old);
            rules.validate_update(&new, &old, context);
            rules.cells(&new, 0);
        }
    }

    #[test]
    fn events_survive_the_way_to_the_other_view_and_back(
        stored in object_of(all()[3].views[0].schema.builtin().unwrap()),
        newer in object_of(all()[3].views[1].schema.builtin().unwrap()),
    ) {
        let events = all().remove(3);
        prop_assert_eq!(events.plural, "events");
        let conversion = events.views[1].conversion.unwrap();

        let stored = events.views[0].schema.conform(stored).unwrap().value;
        let mut shown = stored.clone();
        (conversion.from_stored)(&mut shown);
        prop_assert_eq!(&events.views[1].schema.conform(shown.clone()).unwrap().value, &shown);
        (conversion.to_stored)(&mut shown);
        prop_assert_eq!(shown, stored);

        let newer = events.views[1].schema.conform(newer).unwrap().value;
        let mut kept = newer.clone();
        (conversion.to_stored)(&mut kept);
        prop_assert_eq!(&events.views[0].schema.conform(kept.clone()).unwrap().value, &kept);
        (conversion.from_stored)(&mut kept);
        prop_assert_eq!(kept, newer);
    }
}
