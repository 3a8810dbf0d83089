//! Definitions and what upstream says of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn definition(schema: Value) -> Value {
    let mut object = json!({
        "metadata": {"name": "as.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "as", "kind": "A"},
            "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    Definitions.apply_defaults(&mut object);
    Definitions.prepare_create(&mut object);
    object
}

fn problems(object: &Value) -> Vec<String> {
    validate::create(object).iter().map(ToString::to_string).collect()
}

#[test]
fn a_definition_is_completed_with_what_follows_from_its_kind() {
    let object = definition(json!({"type": "object"}));
    assert_eq!(problems(&object), [""; 0]);
    let names = json!({"plural": "as", "kind": "A", "singular": "a", "listKind": "AList"});
    assert_eq!(object["spec"]["names"], names);
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn schemas_are_refused_in_upstreams_words() {
    let check = |schema: Value, expected: &[&str]| {
        let found = problems(&definition(schema));
        let path = "spec.validation.openAPIV3Schema";
        let expected: Vec<String> = expected.iter().map(|text| format!("{path}{text}")).collect();
        assert_eq!(found, expected);
    };
    let of = |property: Value| json!({"type": "object", "properties": {"a": property}});
    check(json!({}), &[".type: Required value: must not be empty at the root"]);
    check(
        of(json!({})),
        &[".properties[a].type: Required value: must not be empty for specified object fields"],
    );
    check(
        of(json!({"type": "array"})),
        &[".properties[a].items: Required value: must be specified"],
    );
    check(
        of(json!({"type": "string", "pattern": "(a"})),
        &[
            ".properties[a].pattern: Invalid value: \"(a\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(a`",
        ],
    );
    check(
        of(json!({"type": "string", "$ref": "#"})),
        &[".properties[a].$ref: Forbidden: $ref is not supported"],
    );
    check(
        of(json!({"type": "string", "default": 1})),
        &[
            ".properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ],
    );
    check(
        of(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        &[".properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
    );
    check(
        json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]}),
        &[
            ".properties[b]: Required value: because it is defined in spec.validation.openAPIV3Schema.oneOf[0].properties[b]",
        ],
    );
    check(
        of(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
        &[
            ".properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ],
    );
    check(
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name"}]}),
        &[
            ".x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.metadata.name\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: cel expression must evaluate to a bool",
        ],
    );
}

#[test]
fn what_is_stored_cannot_be_renamed_or_dropped() {
    let old = {
        let mut old = definition(json!({"type": "object"}));
        set(&mut old, &Condition::new("Established", true, "R", "m"), "2027-01-15T07:57:39Z");
        old
    };
    let check = |change: fn(&mut Value), expected: &str| {
        let mut new = old.clone();
        change(&mut new);
        let found = validate::update(&new, &old);
        assert!(found.iter().any(|error| error.to_string().contains(expected)), "{found:?}");
    };
    check(
        |new| new["spec"]["scope"] = "Namespaced".into(),
        "spec.scope: Invalid value: \"Namespaced\": field is immutable",
    );
    check(
        |new| new["spec"]["names"]["kind"] = "B".into(),
        "spec.names.kind: Invalid value: \"B\": field is immutable",
    );
    check(
        |new| new["spec"]["group"] = "b.com".into(),
        "spec.group: Invalid value: \"b.com\": field is immutable",
    );
    check(
        |new| new["spec"]["versions"][0]["name"] = "v2".into(),
        "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions",
    );
}

#[test]
fn a_deletion_waits_for_the_objects() {
    let mut object = definition(json!({"type": "object"}));
    assert!(!Definitions.deletion_ready(&object));
    object["metadata"]["deletionTimestamp"] = "2027-01-15T07:57:39Z".into();
    Definitions.mark_deleting(&mut object);
    assert!(!Definitions.deletion_ready(&object));
    assert_eq!(object.finalizers(), [CLEANUP]);
    assert_eq!(find(&object, "Terminating").map(|c| c["status"].clone()), Some("True".into()));
    object.meta_mut().remove("finalizers");
    assert!(Definitions.deletion_ready(&object));
}

proptest! {
    #[test]
    fn fuzz_any_definition_is_accepted_or_refused(
        kind in "object|array|string|integer||odd",
        format in "int32|date|odd|",
        pattern in "(\\PC|[\\[(a+*)]){0,6}",
        default in "1|\"x\"|\\{\\}|\\[1\\]|null",
        rule in "self.a|self == oldSelf|true|[a-z().=]{0,8}",
        list_type in "set|map|atomic|odd",
        junctor in "anyOf|allOf|oneOf",
    ) {
        let default: Value = serde_json::from_str(&default).unwrap();
        let inner = json!({
            "type": kind, "format": format, "pattern": pattern, "default": default,
            "x-kubernetes-list-type": list_type, "x-kubernetes-list-map-keys": ["k"],
            "x-kubernetes-validations": [{"rule": rule}],
            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
            junctor: [{"properties": {"k": {"minimum": 1}}}, {"pattern": pattern}],
        });
        let schema = json!({"type": "object", "properties": {"a": inner.clone(), "b": {"type": "object", "additionalProperties": inner}}});
        let object = definition(schema);
        let first = problems(&object);
        prop_assert_eq!(&first, &problems(&object));
        Definitions.warnings(&object, None);
    }
}
