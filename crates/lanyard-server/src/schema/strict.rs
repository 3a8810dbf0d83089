//! What strict decoding complains about, in upstream's words and order.

use super::parse::order_of;
use crate::field::quoted;

/// The complaints about repeated and unknown fields of a body, in the order of the body.
///
/// What stands inside of an unknown field is not looked at, so repetitions in there do not count. A
/// body of YAML has no order for upstream: it is sorted on the way.
pub fn strict_errors(body: &[u8], duplicates: &[String], unknown: &[String]) -> Vec<String> {
    let duplicates: Vec<_> =
        duplicates.iter().filter(|path| !is_inside(path, unknown)).cloned().collect();
    if duplicates.is_empty() && unknown.is_empty() {
        return Vec::new();
    }
    let wanted = duplicates.iter().chain(unknown).cloned();
    let Some(order) = order_of(wanted, body) else {
        let duplicates = duplicates.iter().map(|path| duplicate_text(path));
        return duplicates.chain(unknown.iter().map(|path| unknown_text(path))).collect();
    };
    let mut texts = Vec::with_capacity(order.len());
    for (at, path) in order.iter().enumerate() {
        let is_second = order[..at].contains(path);
        if !is_second && unknown.contains(path) {
            texts.push(unknown_text(path));
        }
        if is_second && duplicates.contains(path) {
            texts.push(duplicate_text(path));
        }
    }
    texts
}

fn unknown_text(path: &str) -> String {
    format!("unknown field {}", quoted(path))
}

fn duplicate_text(path: &str) -> String {
    format!("duplicate field {}", quoted(path))
}

fn is_inside(path: &str, fields: &[String]) -> bool {
    fields.iter().any(|field| {
        path.strip_prefix(field.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{schema::parse_json, types};

    /// Recorded from kube-apiserver 1.36.
    #[test]
    fn complaints_stand_in_the_order_of_the_body() {
        let check = |body: &str, expected: &str| {
            let roles = types::all().into_iter().find(|r| r.plural == "roles").unwrap();
            let parsed = parse_json(body.as_bytes()).unwrap();
            let unknown = roles.views[0].schema.conform(parsed.value).unwrap().unknown;
            let texts = strict_errors(body.as_bytes(), &parsed.duplicates, &unknown);
            assert_eq!(texts.join(", "), expected);
        };
        check(r#"{"metadata": {"name": "r"}}"#, "");
        check(
            r#"{"metadata": {"name": "r", "foo": 1}, "rules": [{"verb": ["get"]}], "zz": 1, "aa": {"b": 1}}"#,
            r#"unknown field "metadata.foo", unknown field "rules[0].verb", unknown field "zz", unknown field "aa""#,
        );
        check(
            r#"{"metadata":{"name":"r","labels":{"a":"b","a":"c"}},"zz":1,"zz":{"a":1,"a":2},"rules":[{"verbs":["get"],"verbs":["x"]}]}"#,
            r#"duplicate field "metadata.labels.a", unknown field "zz", duplicate field "rules[0].verbs""#,
        );
    }
}
