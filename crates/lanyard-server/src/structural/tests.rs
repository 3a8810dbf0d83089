//! What schemas make of values.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn problems(schema: Value, value: Value, old: Option<Value>) -> Vec<String> {
    let errors = Checker { base: "" }.check(&value, old.as_ref(), &Node::parse(&schema));
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn values_are_refused_in_upstreams_words() {
    let check = |schema: Value, value: Value, expected: &[&str]| {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        assert_eq!(problems(schema, json!({"spec": value}), None), expected);
    };
    check(
        json!({"type": "integer"}),
        json!("x"),
        &[r#"spec: Invalid value: "string": spec in body must be of type integer: "string""#],
    );
    check(
        json!({"type": "string"}),
        Value::Null,
        &[r#"spec: Invalid value: "null": spec in body must be of type string: "null""#],
    );
    check(json!({"type": "string", "nullable": true}), Value::Null, &[]);
    check(json!({"type": "integer"}), json!(1.0), &[]);
    check(json!({"type": "number"}), json!(1), &[]);
    check(
        json!({"type": "string", "maxLength": 3}),
        json!("abcd"),
        &["spec: Too long: may not be more than 3 bytes"],
    );
    check(
        json!({"type": "string", "minLength": 3}),
        json!("ab"),
        &[r#"spec: Invalid value: "ab": spec in body should be at least 3 chars long"#],
    );
    check(
        json!({"type": "string", "pattern": "^a+$"}),
        json!("b"),
        &[r#"spec: Invalid value: "b": spec in body should match '^a+$'"#],
    );
    check(
        json!({"type": "string", "enum": ["a", "b"]}),
        json!("c"),
        &[r#"spec: Unsupported value: "c": supported values: "a", "b""#],
    );
    check(
        json!({"type": "string", "format": "ipv4"}),
        json!("c"),
        &[r#"spec: Invalid value: "c": spec in body must be of type ipv4: "c""#],
    );
    check(
        json!({"type": "integer", "minimum": 1, "maximum": 3}),
        json!(4),
        &["spec: Invalid value: 4: spec in body should be less than or equal to 3"],
    );
    check(
        json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
        json!(0.5),
        &["spec: Invalid value: 0.5: spec in body should be greater than 1"],
    );
    check(
        json!({"type": "integer", "multipleOf": 5}),
        json!(4),
        &["spec: Invalid value: 4: spec in body should be a multiple of 5"],
    );
    check(
        json!({"type": "integer", "format": "int32"}),
        json!(3_000_000_000_i64),
        &[
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#,
        ],
    );
    check(
        json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
        json!(["a", 1]),
        &[
            r#"spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer""#,
            "spec: Too many: 2: must have at most 1 item",
        ],
    );
    check(
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
        json!({}),
        &["spec.a: Required value"],
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 2}),
        json!({"k": 1}),
        &[
            "spec: Invalid value: 1: spec in body should have at least 2 properties",
            r#"spec.k: Invalid value: "integer": spec.k in body must be of type string: "integer""#,
        ],
    );
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        &[
            r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
        ],
    );
    check(
        json!({"type": "integer", "oneOf": [{"minimum": 1}, {"maximum": 3}]}),
        json!(2),
        &[
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    check(
        json!({"type": "string", "not": {"enum": ["a"]}}),
        json!("a"),
        &[r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#],
    );
}

#[test]
fn what_was_wrong_before_may_stay_as_it_was() {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 1}, "b": {"type": "integer"}},
    }}});
    let old = json!({"spec": {"a": "long", "b": 1}});
    let kept = json!({"spec": {"a": "long", "b": 2}});
    let touched = json!({"spec": {"a": "longer", "b": 1}});
    assert!(problems(schema.clone(), kept, Some(old.clone())).is_empty());
    assert_eq!(problems(schema, touched, Some(old)).len(), 1);
}

#[test]
fn unknown_fields_are_dropped_and_told() {
    let schema = Node::parse(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"known": {"type": "object"}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }},
    }}));
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x"}, "other": 1,
        "spec": {"a": "a", "b": 1, "list": [{}, {"x": 1}], "map": {"k": "v"},
                 "free": {"any": 1, "known": {"y": 1}}},
    });
    let unknown = prune(&mut object, &schema);
    assert_eq!(unknown, ["other", "spec.b", "spec.free.known.y", "spec.list[1].x"]);
    assert_eq!(
        object,
        json!({
            "apiVersion": "a/v1", "kind": "K", "metadata": {"name": "x"},
            "spec": {"a": "a", "list": [{}, {}], "map": {"k": "v"},
                     "free": {"any": 1, "known": {}}},
        })
    );
}

#[test]
fn defaults_fill_what_is_missing_or_null() {
    let schema = Node::parse(&json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "A"},
        "n": {"type": "string", "default": "N", "nullable": true},
        "o": {"type": "object", "default": {}, "properties": {"p": {"default": 1}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"q": {"default": 2}}}},
        "x": {"type": "string"},
    }}));
    let mut object = json!({"a": null, "n": null, "l": [{}], "x": null});
    drop_nulls(&mut object, Some(&schema));
    apply_defaults(&mut object, &schema);
    assert_eq!(object, json!({"a": "A", "n": null, "o": {"p": 1}, "l": [{"q": 2}]}));
}

#[test]
fn sets_and_maps_have_nothing_twice() {
    let schema = Node::parse(&json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}},
    }}));
    let object = json!({"set": ["a", "a", "a"], "map": [{"k": 1}, {"k": 2}, {"k": 1}]});
    let errors: Vec<_> = validate_lists(&object, &schema).iter().map(ToString::to_string).collect();
    assert_eq!(errors, [r#"map[2]: Duplicate value: {"k":1}"#, r#"set[1]: Duplicate value: "a""#]);
}

#[test]
fn embedded_resources_have_a_type_and_metadata() {
    let schema = Node::parse(&json!({"type": "object", "properties": {"r": {
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    }}}));
    let mut object = json!({"r": {"kind": "9", "metadata": {"name": "a/b", "odd": 1}}});
    assert_eq!(coerce(&mut object, &schema).unwrap(), ["r.metadata.odd"]);
    let errors = validate_embedded(&object, &schema);
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["r.apiVersion", "r.kind", "r.metadata.name"]);
}

fn any_json(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 32, 4, |inner| {
        let names =
            "type|properties|items|default|enum|anyOf|not|required|a|b|additionalProperties";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn fuzz_any_schema_and_value_end_well(schema in any_json(5), value in any_json(5)) {
        let node = Node::parse(&schema);
        let mut object = value.clone();
        prune(&mut object, &node);
        prop_assert!(prune(&mut object, &node).is_empty());
        drop_nulls(&mut object, Some(&node));
        apply_defaults(&mut object, &node);
        Checker { base: "" }.check(&value, Some(&object), &node);
        validate_lists(&value, &node);
        validate_embedded(&value, &node);
        let _ = coerce(&mut object, &node);
    }
}

fn rule_problems(schema: Value, object: Value, old: Option<Value>) -> Vec<String> {
    let expressions = Expressions::compile(&Node::parse(&schema), true).unwrap();
    let errors = expressions.validate("", &object, old.as_ref());
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn rules_speak_of_values_and_of_their_change() {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let schema = json!({"type": "object", "properties": {
        "size": {"type": "integer", "x-kubernetes-validations": rule("self >= oldSelf")},
        "name": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self.startsWith('a')", "messageExpression": "'not ' + self"},
        ]},
        "spec": {"type": "object", "properties": {"max": {"type": "integer"}},
                 "x-kubernetes-validations": [
            {"rule": "self.max < 10", "fieldPath": ".max", "message": "too much"},
        ]},
    }, "x-kubernetes-validations": rule("self.metadata.name != 'evil'")});
    let check = |object: Value, old: Option<Value>, expected: &[&str]| {
        assert_eq!(rule_problems(schema.clone(), object, old), expected);
    };
    let old = json!({"metadata": {"name": "x"}, "size": 2, "name": "b", "spec": {"max": 11}});
    check(
        old.clone(),
        None,
        &[r#"name: Invalid value: "b": not b"#, "spec.max: Invalid value: too much"],
    );
    check(old.clone(), Some(old.clone()), &[]);
    let smaller = json!({"metadata": {"name": "x"}, "size": 1, "name": "b", "spec": {"max": 11}});
    check(smaller, Some(old.clone()), &["size: Invalid value: 1: failed rule: self >= oldSelf"]);
    let more = json!({"metadata": {"name": "x"}, "name": "a", "spec": {"max": 12}});
    check(more, Some(old), &["spec.max: Invalid value: too much"]);
    check(
        json!({"metadata": {"name": "evil"}}),
        None,
        &["<nil>: Invalid value: failed rule: self.metadata.name != 'evil'"],
    );
}

#[test]
fn rules_that_cost_too_much_are_stopped() {
    let schema = json!({"type": "object", "properties": {"l": {
        "type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [
            {"rule": "self.all(x, self.all(y, self.all(z, x + y != z)))"},
        ],
    }}});
    let items: Vec<String> = (0..1000).map(|n| format!("item {n}")).collect();
    let started = std::time::Instant::now();
    let problems = rule_problems(schema, json!({"l": items}), None);
    assert!(problems.len() == 1 && problems[0].contains("cost"), "{problems:?}");
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
}
