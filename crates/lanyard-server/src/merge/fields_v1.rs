//! `fieldsV1`: sets of fields as JSON.
//!
//! Every step of a path is a key, `.` says that the field itself is a member too, and an empty object
//! is a member with nothing below it.

use serde_json::{Map, Value};

use super::{
    path::{BadElement, Element},
    set::FieldSet,
};

/// The deepest nesting that is read; no object that we store goes deeper.
const MAX_DEPTH: usize = crate::schema::MAX_DEPTH;

/// Reads a set.
///
/// # Errors
/// When it is none.
pub fn decode(fields: &Value) -> Result<FieldSet, BadElement> {
    match fields {
        Value::Null => Ok(FieldSet::default()),
        _ => read(fields, MAX_DEPTH).map(|(set, _)| set),
    }
}

/// Writes a set.
pub fn encode(set: &FieldSet) -> Value {
    write(set, false)
}

/// The set below a step, and whether the step itself is a member.
fn read(value: &Value, room: usize) -> Result<(FieldSet, bool), BadElement> {
    let Value::Object(fields) = value else { return Err(BadElement) };
    let room = room.checked_sub(1).ok_or(BadElement)?;
    let mut steps = Vec::with_capacity(fields.len());
    let mut member = false;
    for (key, value) in fields {
        if key == "." {
            member = true;
            continue;
        }
        // What a later version knows and we do not is left out.
        if let Some(element) = Element::decode(key)? {
            let (below, is_member) = read(value, room)?;
            steps.push((element, is_member, below));
        }
    }
    let member = member || steps.is_empty();
    Ok((FieldSet::of_steps(steps), member))
}

fn write(set: &FieldSet, member: bool) -> Value {
    let mut fields = Map::new();
    for (element, member, below) in set.steps() {
        fields.insert(element.encode(), write(below, member));
    }
    if member && !fields.is_empty() {
        fields.insert(".".into(), Value::Object(Map::new()));
    }
    Value::Object(fields)
}

/// Appends `fieldsV1` to JSON text, in upstream's order of keys, which is not that of their text: ports
/// come in the order of their numbers.
pub fn append(fields: &Value, json: &mut Vec<u8>) {
    let Value::Object(map) = fields else {
        json.extend_from_slice(fields.to_string().as_bytes());
        return;
    };
    let mut keys: Vec<_> = map.iter().collect();
    if map.keys().any(|key| !key.starts_with("f:") && key != ".") {
        keys.sort_by_cached_key(|(key, _)| (*key != ".", Element::decode(key).ok().flatten()));
    }
    json.push(b'{');
    for (at, (key, value)) in keys.into_iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        json.push(b':');
        append(value, json);
    }
    json.push(b'}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn sets_are_written_as_upstream_writes_them() {
        for fields in [
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}}),
            json!({"f:finalizers": {"v:\"a\"": {}}, "f:x": {"i:3": {}}}),
        ] {
            assert_eq!(encode(&decode(&fields).unwrap()), fields);
        }
        let odd = json!({"f:a": {".": {}}, "z:later": {"x": 1}, "f:b": {"f:c": {}, ".": {}}});
        let plain = json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}});
        assert_eq!(encode(&decode(&odd).unwrap()), plain);
        for bad in [json!(1), json!([]), json!({"a": {}}), json!({"f:a": 1}), json!({"k:x": {}})] {
            assert_eq!(decode(&bad), Err(BadElement), "{bad}");
        }
    }

    #[test]
    fn keys_are_in_upstreams_order() {
        let fields = json!({
            "k:{\"port\":443}": {"f:port": {}, ".": {}}, "k:{\"port\":80}": {}, ".": {},
            "v:\"a b\"": {}, "v:\"a\"": {}, "i:10": {}, "i:9": {}, "f:x": {},
        });
        let mut json = Vec::new();
        append(&fields, &mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{".":{},"f:x":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:port":{}},"v:\"a\"":{},"v:\"a b\"":{},"i:9":{},"i:10":{}}"#
        );
    }

    #[test]
    fn nesting_has_an_end() {
        let nested = |depth| (0..depth).fold(json!({}), |below, _| json!({"f:a": below}));
        assert!(decode(&nested(MAX_DEPTH - 1)).is_ok());
        assert_eq!(decode(&nested(MAX_DEPTH)), Err(BadElement));
    }

    fn any_fields() -> impl Strategy<Value = Value> {
        let key = proptest::sample::select(vec![
            "f:a",
            "f:b",
            "k:{\"n\":\"x\"}",
            "k:{\"n\":2}",
            "v:1",
            "v:\"1\"",
            "i:0",
            ".",
            "x:y",
            "f",
            "k:[",
        ]);
        let leaf = prop_oneof![9 => Just(json!({})), 1 => Just(json!(1))];
        leaf.prop_recursive(4, 30, 4, move |inner| {
            proptest::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
        })
    }

    proptest! {
        #[test]
        fn fuzz_what_is_read_is_written_back(fields in any_fields()) {
            if let Ok(set) = decode(&fields) {
                let written = encode(&set);
                prop_assert_eq!(decode(&written), Ok(set));
                let mut json = Vec::new();
                append(&written, &mut json);
                prop_assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), written);
            }
        }
    }
}
