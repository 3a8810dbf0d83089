//! FlowSchema: which requests belong to which priority level.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::{
        ALL_VERBS,
        column::{self, AGE, NAME, age_cell, name_cell},
        names::validate_name,
        object_meta::validate_finalizer_domains,
        path::{items, strings},
        status,
    },
    GROUP, STATUS_RESET, bootstrap, check_conditions,
};
use crate::{
    field::{FieldError, quoted},
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

const DEFAULT_PRECEDENCE: i64 = 1000;
const MAX_PRECEDENCE: i64 = 10_000;

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECTS: &[&str] = &["Group", "ServiceAccount", "User"];

pub(in super::super) fn resource() -> Resource {
    Resource {
        storage: format!("flowschemas.{GROUP}").into(),
        plural: "flowschemas".into(),
        singular: "flowschema".into(),
        kind: "FlowSchema".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new(GROUP, "v1", builtin("io.k8s.api.flowcontrol.v1.FlowSchema"))],
        rules: Arc::new(FlowSchemas),
    }
}

static COLUMNS: [Column; 6] = [
    NAME,
    column::text("PriorityLevel", "The priority level of its requests."),
    column::text("MatchingPrecedence", "The schema with the smallest number is asked first."),
    column::text("DistinguisherMethod", "What tells one flow from another."),
    AGE,
    column::text("MissingPL", "Whether the priority level is not there."),
];

struct FlowSchemas;

impl Rules for FlowSchemas {
    fn apply_defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        if spec.get("matchingPrecedence").is_none_or(|number| *number == json!(0)) {
            spec["matchingPrecedence"] = DEFAULT_PRECEDENCE.into();
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        status::clear(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        status::separate_with_metadata(new, old, context);
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => STATUS_RESET,
            _ => &[&["status"]],
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        check_spec(object.name(), spec, &mut errors);
        if bootstrap::fixed_flow_schema(object.name()).is_some_and(|fixed| fixed != *spec) {
            let problem = format!("spec of '{}' must equal the fixed value", object.name());
            errors.push(FieldError::invalid("spec", spec, problem));
        }
        check_conditions(object, &mut errors);
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_none() {
            return self.validate(new, context);
        }
        let mut errors = Vec::new();
        check_conditions(new, &mut errors);
        errors
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(new.get("spec") != old.get("spec"))
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let method = object.at(&["spec", "distinguisherMethod"]);
        let conditions = object.get("status").map_or(&[][..], |status| items(status, "conditions"));
        let dangling = conditions.iter().find(|c| c.text(&["type"]) == "Dangling");
        let precedence = object.at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64);
        vec![
            name_cell(object),
            object.text(&["spec", "priorityLevelConfiguration", "name"]).into(),
            precedence.unwrap_or_default().into(),
            method.map_or("<none>", |method| method.text(&["type"])).into(),
            age_cell(object, now),
            dangling.map_or("?", |condition| condition.text(&["status"])).into(),
        ]
    }
}

fn check_spec(name: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let precedence = spec.get("matchingPrecedence").and_then(Value::as_i64).unwrap_or_default();
    let mut refuse = |problem: String| {
        let path = "spec.matchingPrecedence";
        errors.push(FieldError::invalid(path, &precedence.into(), problem));
    };
    if precedence <= 0 {
        refuse("must be a positive value".into());
    }
    if precedence > MAX_PRECEDENCE {
        refuse(format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1".into());
    }
    if let Some(method) = spec.get("distinguisherMethod").filter(|method| !method.is_null()) {
        let kind = method.text(&["type"]);
        if !METHODS.contains(&kind) {
            let shown = format!("{{\"Type\":{}}}", quoted(kind));
            let path = "spec.distinguisherMethod.type";
            errors.push(FieldError::not_supported_json(path, &shown, METHODS));
        }
    }
    let path = "spec.priorityLevelConfiguration.name";
    match spec.text(&["priorityLevelConfiguration", "name"]) {
        "" => errors.push(FieldError::required(path, "must reference a priority level")),
        level => {
            for problem in validate_name(NameRule::DnsSubdomain, level) {
                errors.push(FieldError::invalid_str(path, level, problem));
            }
        }
    }
    for (index, rule) in items(spec, "rules").iter().enumerate() {
        check_rule(rule, &format!("spec.rules[{index}]"), errors);
    }
}

fn check_rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        let problem = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{path}.subjects"), problem));
    }
    for (index, subject) in subjects.iter().enumerate() {
        check_subject(subject, &format!("{path}.subjects[{index}]"), errors);
    }
    let (resources, others) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let problem = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, problem));
    }
    for (index, rule) in resources.iter().enumerate() {
        check_resource_rule(rule, &format!("{path}.resourceRules[{index}]"), errors);
    }
    for (index, rule) in others.iter().enumerate() {
        check_url_rule(rule, &format!("{path}.nonResourceRules[{index}]"), errors);
    }
}

fn check_subject(subject: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = subject.text(&["kind"]);
    let others = [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")];
    let Some((field, _)) = others.iter().find(|(_, known)| *known == kind) else {
        errors.push(FieldError::not_supported(format!("{path}.kind"), kind, SUBJECTS));
        return;
    };
    let at = |field: &str| format!("{path}.{field}");
    let present = |field: &str| subject.get(field).filter(|value| !value.is_null());
    match present(field) {
        None => {
            let problem = format!("{field} is required when subject kind is '{kind}'");
            errors.push(FieldError::required(at(field), problem));
        }
        Some(named) => check_named(named, kind == "ServiceAccount", &at(field), errors),
    }
    for (other, its_kind) in others.iter().filter(|(other, _)| other != field) {
        if present(other).is_some() {
            let problem = format!("{other} is forbidden when subject kind is not '{its_kind}'");
            errors.push(FieldError::forbidden(at(other), problem));
        }
    }
}

fn check_named(subject: &Value, is_account: bool, path: &str, errors: &mut Vec<FieldError>) {
    let name = subject.text(&["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    if !is_account {
        return;
    }
    if !matches!(name, "" | "*") {
        for problem in validate_name(NameRule::DnsSubdomain, name) {
            errors.push(FieldError::invalid_str(format!("{path}.name"), name, problem));
        }
    }
    let (namespace, path) = (subject.text(&["namespace"]), format!("{path}.namespace"));
    if namespace.is_empty() {
        errors.push(FieldError::required(path, "must specify namespace for service account"));
        return;
    }
    for problem in validate_name(NameRule::DnsLabel, namespace) {
        errors.push(FieldError::invalid_str(&*path, namespace, problem));
    }
}

fn check_verbs(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (verbs, path) = (strings(rule, "verbs"), format!("{path}.verbs"));
    if verbs.is_empty() {
        errors.push(FieldError::required(path, "verbs must contain at least one value"));
    } else if verbs.contains(&"*") {
        if verbs.len() > 1 {
            let problem = "if '*' is present, must not specify other verbs";
            errors.push(FieldError::invalid(path, &json!(verbs), problem));
        }
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(FieldError::not_supported_json(path, &json!(verbs).to_string(), VERBS));
    }
}

fn check_resource_rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_verbs(rule, path, errors);
    for (field, one, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let (words, path) = (strings(rule, field), format!("{path}.{field}"));
        if words.is_empty() {
            let problem = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(path, problem));
        } else if words.len() > 1 && words.contains(&"*") {
            let problem = format!("if '*' is present, must not specify other {many}");
            errors.push(FieldError::invalid(path, &json!(words), problem));
        }
    }
    let (namespaces, path) = (strings(rule, "namespaces"), format!("{path}.namespaces"));
    let whole_cluster = rule.get("clusterScope") == Some(&Value::Bool(true));
    if namespaces.is_empty() && !whole_cluster {
        let problem =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(path, problem));
    } else if namespaces.contains(&"*") {
        if namespaces.len() > 1 {
            let problem = "if '*' is present, must not specify other namespaces";
            errors.push(FieldError::invalid(path, &json!(namespaces), problem));
        }
    } else {
        for (index, namespace) in namespaces.iter().enumerate() {
            for problem in validate_name(NameRule::DnsLabel, namespace) {
                let problem =
                    format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                let path = format!("{path}[{index}]");
                errors.push(FieldError::invalid_str(path, namespace, problem));
            }
        }
    }
}

fn check_url_rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_verbs(rule, path, errors);
    let (urls, path) = (strings(rule, "nonResourceURLs"), format!("{path}.nonResourceURLs"));
    if urls.is_empty() {
        errors.push(FieldError::required(path, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        if urls.len() > 1 {
            let problem = "if '*' is present, must not specify other non-resource URLs";
            errors.push(FieldError::invalid(path, &json!(urls), problem));
        }
    } else {
        for (index, url) in urls.iter().enumerate() {
            if let Some(problem) = url_problem(url) {
                errors.push(FieldError::invalid_str(format!("{path}[{index}]"), url, problem));
            }
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_who_and_what() {
        let check = |part: &str, value: Value, expected: &[&str]| {
            let mut rule = json!({
                "subjects": [{"kind": "User", "user": {"name": "u"}}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["a"],
                    "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/a/*"]}],
            });
            if !part.is_empty() {
                *rule.pointer_mut(part).unwrap() = value;
            }
            let mut errors = Vec::new();
            check_rule(&rule, "r", &mut errors);
            let found: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            assert_eq!(found, expected, "{part}");
        };
        check("", Value::Null, &[]);
        check(
            "/subjects",
            json!([]),
            &["r.subjects: Required value: subjects must contain at least one value"],
        );
        check(
            "/subjects/0",
            json!({"kind": "Group", "user": {"name": "u"}}),
            &[
                "r.subjects[0].group: Required value: group is required when subject kind is 'Group'",
                "r.subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
            ],
        );
        check(
            "/resourceRules/0/namespaces",
            json!([]),
            &[
                "r.resourceRules[0].namespaces: Required value: resource rules that are not cluster \
             scoped must supply at least one namespace",
            ],
        );
        check(
            "/nonResourceRules/0/nonResourceURLs",
            json!(["/a*", "a"]),
            &[
                "r.nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"/a*\": wildcard can only do \
             suffix matching",
                "r.nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"a\": must start with slash",
            ],
        );
        check(
            "/nonResourceRules/0/verbs",
            json!(["head"]),
            &[
                "r.nonResourceRules[0].verbs: Unsupported value: [\"head\"]: supported values: \"create\", \
             \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \
             \"watch\"",
            ],
        );
    }
}
