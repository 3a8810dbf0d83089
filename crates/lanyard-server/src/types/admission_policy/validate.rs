//! The rules of admission policies and their bindings, with upstream's sentences.

use lanyard_cel::is_identifier;
use serde_json::Value;

use super::{
    super::{
        admission::{conditions, rules},
        label_selector,
        names::{validate_label_key, validate_name},
        path::items,
    },
    Policies,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    policy::expression::{Scope, Wanted},
    resource::NameRule,
};

/// Upstream's limits.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_VALUE_EXPRESSION: usize = 5 * 1024;

const MUTATING_OPERATIONS: [&str; 3] = ["*", "CREATE", "UPDATE"];
const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

/// What is wrong with an object of one of the kinds, beyond its metadata.
pub(super) fn problems(kind: Policies, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut check = Check { errors: Vec::new() };
    let spec = &new["spec"];
    match kind {
        Policies::Validating | Policies::Mutating => check.policy(kind, new, spec, old),
        Policies::ValidatingBinding | Policies::MutatingBinding => check.binding(kind, spec),
    }
    check.errors
}

struct Check {
    errors: Vec<FieldError>,
}

impl Check {
    fn policy(&mut self, kind: Policies, new: &Value, spec: &Value, old: Option<&Value>) {
        self.one_of("spec.failurePolicy", spec.text(&["failurePolicy"]), &["Fail", "Ignore"]);
        let params = spec.get("paramKind").filter(|kind| kind.is_object());
        if let Some(params) = params {
            self.param_kind(params);
        }
        match spec.get("matchConstraints").filter(|constraints| constraints.is_object()) {
            None => self.required("spec.matchConstraints", ""),
            Some(constraints) => {
                self.matching(constraints, "spec.matchConstraints");
                if items(constraints, "resourceRules").is_empty() {
                    self.required("spec.matchConstraints.resourceRules", "");
                }
                if kind == Policies::Mutating {
                    self.mutating_operations(constraints);
                }
            }
        }
        // Conditions that did not change were good when they came.
        let conditions_of = |object: &Value| object.at(&["spec", "matchConditions"]).cloned();
        let before = old.and_then(conditions_of);
        if before.is_none() || before != conditions_of(new) {
            let path = "spec.matchConditions";
            self.errors.extend(conditions::validate(spec, path, params.is_some()));
        }
        let mut scope = Scope { params: params.is_some(), authorizer: true, ..Scope::default() };
        self.variables(spec, &mut scope);
        match kind {
            Policies::Mutating => self.mutations(spec, &scope),
            _ => self.validations(new, spec, &scope),
        }
    }

    fn required(&mut self, path: impl Into<String>, detail: &str) {
        self.errors.push(FieldError::required(path, detail));
    }

    fn one_of(&mut self, path: &str, value: &str, supported: &[&str]) {
        match value {
            "" => self.required(path, ""),
            value if supported.contains(&value) => {}
            value => self.errors.push(FieldError::not_supported(path, value, supported)),
        }
    }

    fn names(&mut self, path: &str, value: &str, rule: NameRule) {
        for problem in validate_name(rule, value) {
            self.errors.push(FieldError::invalid_str(path, value, problem));
        }
    }

    fn param_kind(&mut self, params: &Value) {
        let path = "spec.paramKind.apiVersion";
        let version = params.text(&["apiVersion"]);
        match version.split('/').collect::<Vec<_>>()[..] {
            [""] => self.required(path, ""),
            [version] => self.joined(path, version, NameRule::Dns1035Label, ""),
            [group, number] => {
                if !group.is_empty() {
                    self.joined(path, group, NameRule::DnsSubdomain, "");
                }
                match number {
                    "" => {
                        let text = "version must be specified";
                        self.errors.push(FieldError::invalid_str(path, version, text));
                    }
                    number => self.joined(path, number, NameRule::Dns1035Label, ""),
                }
            }
            _ => {
                let text = format!("unexpected GroupVersion string: {version}");
                self.errors.push(FieldError::invalid_str(path, version, text));
            }
        }
        let path = "spec.paramKind.kind";
        match params.text(&["kind"]) {
            "" => self.required(path, ""),
            kind => {
                let problems = validate_name(NameRule::Dns1035Label, &kind.to_lowercase());
                if !problems.is_empty() {
                    let text = "may have mixed case, but should otherwise match: ";
                    let text = format!("{text}{}", problems.join(","));
                    self.errors.push(FieldError::invalid_str(path, kind, text));
                }
            }
        }
    }

    /// All problems of a name in one.
    fn joined(&mut self, path: &str, value: &str, rule: NameRule, prefix: &str) {
        let problems = validate_name(rule, value);
        if !problems.is_empty() {
            let text = format!("{prefix}{}", problems.join(","));
            self.errors.push(FieldError::invalid_str(path, value, text));
        }
    }

    fn matching(&mut self, matching: &Value, path: &str) {
        let policy = matching.text(&["matchPolicy"]);
        self.one_of(&format!("{path}.matchPolicy"), policy, &["Equivalent", "Exact"]);
        for name in ["namespaceSelector", "objectSelector"] {
            let path = format!("{path}.{name}");
            match matching.get(name).filter(|selector| selector.is_object()) {
                None => self.required(path, ""),
                Some(selector) => self.errors.extend(label_selector::validate(selector, &path)),
            }
        }
        for list in ["resourceRules", "excludeResourceRules"] {
            for (at, rule) in items(matching, list).iter().enumerate() {
                self.rule(rule, &format!("{path}.{list}[{at}]"));
            }
        }
    }

    fn rule(&mut self, rule: &Value, path: &str) {
        let mut seen = Vec::new();
        for (at, name) in items(rule, "resourceNames").iter().enumerate() {
            let path = format!("{path}.resourceNames[{at}]");
            self.names(&path, name.as_str().unwrap_or(""), NameRule::PathSegment);
            if seen.contains(&name) {
                self.errors.push(FieldError::duplicate(path, name));
            } else {
                seen.push(name);
            }
        }
        self.errors.extend(rules::validate(rule, path));
    }

    fn mutating_operations(&mut self, constraints: &Value) {
        let path = "spec.matchConstraints.resourceRules.operations";
        for rule in items(constraints, "resourceRules") {
            for operation in items(rule, "operations") {
                let operation = operation.as_str().unwrap_or("");
                if !MUTATING_OPERATIONS.contains(&operation) {
                    let error = FieldError::not_supported(path, operation, &MUTATING_OPERATIONS);
                    self.errors.push(error);
                }
            }
        }
    }

    /// Compiles an expression; an error shows `shown`.
    fn compiles(&mut self, scope: &Scope, text: &str, shown: &str, wanted: Wanted, path: &str) {
        if let Err(problem) = scope.compile(text, wanted) {
            self.errors.push(FieldError::invalid_str(path, shown, problem));
        }
    }

    /// Each variable sees those before it.
    fn variables(&mut self, spec: &Value, scope: &mut Scope) {
        for (at, variable) in items(spec, "variables").iter().enumerate() {
            let path = format!("spec.variables[{at}]");
            let (name, text) = (variable.text(&["name"]), variable.text(&["expression"]));
            if name.trim().is_empty() {
                self.required(format!("{path}.name"), "name is not specified");
            } else if !is_identifier(name) {
                let problem = "must be a valid CEL identifier";
                self.errors.push(FieldError::invalid_str(format!("{path}.name"), name, problem));
            }
            let path = format!("{path}.expression");
            if text.trim().is_empty() {
                self.required(path, "expression is not specified");
                continue;
            }
            match scope.compile(text, Wanted::Any) {
                Ok(program) => {
                    let of = program.output_type().clone();
                    if is_identifier(name) {
                        scope.variables.push((name.to_owned(), of));
                    }
                }
                Err(problem) => self.errors.push(FieldError::invalid_str(path, text, problem)),
            }
        }
    }

    fn validations(&mut self, new: &Value, spec: &Value, scope: &Scope) {
        let (validations, annotations) =
            (items(spec, "validations"), items(spec, "auditAnnotations"));
        if validations.is_empty() && annotations.is_empty() {
            let text = "validations or auditAnnotations must contain at least one item";
            self.required("spec.validations", text);
            self.required("spec.auditAnnotations", text);
            return;
        }
        for (at, validation) in validations.iter().enumerate() {
            self.validation(validation, scope, &format!("spec.validations[{at}]"));
        }
        self.annotations(new, annotations, scope);
    }

    fn validation(&mut self, validation: &Value, scope: &Scope, path: &str) {
        let text = validation.text(&["expression"]);
        let place = format!("{path}.expression");
        match text.trim() {
            "" => self.required(place, "expression is not specified"),
            _ => self.compiles(scope, text, text, Wanted::Bool, &place),
        }
        let text = validation.text(&["messageExpression"]);
        let place = format!("{path}.messageExpression");
        if !text.is_empty() && text.trim().is_empty() {
            let problem = "must be non-empty if specified";
            self.errors.push(FieldError::invalid_str(place, text, problem));
        } else if !text.is_empty() {
            let scope = Scope { authorizer: false, ..scope.clone() };
            self.compiles(&scope, text, text, Wanted::Text, &place);
        }
        let message = validation.text(&["message"]);
        let place = format!("{path}.message");
        if !message.is_empty() && message.trim().is_empty() {
            let problem = "must be non-empty if specified";
            self.errors.push(FieldError::invalid_str(place, message, problem));
        } else if message.trim().contains(['\n', '\r']) {
            let problem = "must not contain line breaks";
            self.errors.push(FieldError::invalid_str(place, message, problem));
        }
        let reason = validation.text(&["reason"]);
        if validation.get("reason").is_some_and(Value::is_string) && !REASONS.contains(&reason) {
            let place = format!("{path}.reason");
            self.errors.push(FieldError::not_supported(place, reason, &REASONS));
        }
    }

    fn annotations(&mut self, new: &Value, annotations: &[Value], scope: &Scope) {
        if annotations.len() > MAX_AUDIT_ANNOTATIONS {
            let text = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
            let value = Value::Array(annotations.to_vec());
            self.errors.push(FieldError::invalid("spec.auditAnnotations", &value, text));
            return;
        }
        let mut seen = Vec::new();
        for (at, annotation) in annotations.iter().enumerate() {
            let path = format!("spec.auditAnnotations[{at}]");
            let key = annotation.text(&["key"]);
            let place = format!("{path}.key");
            match new.name() {
                "" => {
                    let problem = "requires metadata.name be non-empty";
                    self.errors.push(FieldError::invalid_str(&place, key, problem));
                }
                name => {
                    let full = format!("{name}/{key}");
                    for problem in validate_label_key(&full) {
                        self.errors.push(FieldError::invalid_str(&place, &full, problem));
                    }
                }
            }
            let text = annotation.text(&["valueExpression"]);
            let place_of_value = format!("{path}.valueExpression");
            match text.trim() {
                "" => self.required(place_of_value, "valueExpression is not specified"),
                trimmed if trimmed.len() > MAX_VALUE_EXPRESSION => {
                    let problem = format!("must not exceed {MAX_VALUE_EXPRESSION} bytes in length");
                    self.required(place_of_value, &problem);
                }
                trimmed => self.compiles(scope, trimmed, text, Wanted::TextOrNull, &place_of_value),
            }
            if seen.contains(&key) {
                self.errors.push(FieldError::duplicate(place, &key.into()));
            }
            seen.push(key);
        }
    }

    fn mutations(&mut self, spec: &Value, scope: &Scope) {
        let mutations = items(spec, "mutations");
        if mutations.is_empty() {
            self.required("spec.mutations", "mutations must contain at least one item");
        }
        let scope = Scope { patches: true, ..scope.clone() };
        for (at, mutation) in mutations.iter().enumerate() {
            self.mutation(mutation, &scope, &format!("spec.mutations[{at}]"));
        }
        let policy = spec.text(&["reinvocationPolicy"]);
        self.one_of("spec.reinvocationPolicy", policy, &["IfNeeded", "Never"]);
    }

    fn mutation(&mut self, mutation: &Value, scope: &Scope, path: &str) {
        let kind = mutation.text(&["patchType"]);
        let (used, unused, wanted) = match kind {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", Wanted::Patches),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Wanted::Object),
            "" => return self.required(format!("{path}.patchType"), ""),
            other => {
                let known = ["ApplyConfiguration", "JSONPatch"];
                let path = format!("{path}.patchType");
                self.errors.push(FieldError::not_supported(path, other, &known));
                return;
            }
        };
        match mutation.get(used).filter(|patch| patch.is_object()) {
            None => {
                let text = format!("must be specified when patchType is {kind}");
                self.required(format!("{path}.{used}"), &text);
            }
            Some(patch) => {
                let path = format!("{path}.{used}.expression");
                match patch.text(&["expression"]).trim() {
                    "" => self.required(path, ""),
                    text => self.compiles(scope, text, text, wanted, &path),
                }
            }
        }
        if mutation.get(unused).is_some_and(Value::is_object) {
            let text = format!("must not be specified when patchType is {kind}");
            let shown = format!("{{{unused}}}");
            self.errors.push(FieldError::invalid_str(format!("{path}.{unused}"), &shown, text));
        }
    }

    fn binding(&mut self, kind: Policies, spec: &Value) {
        match spec.text(&["policyName"]) {
            "" => self.required("spec.policyName", ""),
            name => self.names("spec.policyName", name, NameRule::DnsSubdomain),
        }
        if let Some(reference) = spec.get("paramRef").filter(|reference| reference.is_object()) {
            self.param_ref(reference);
        }
        if let Some(matching) = spec.get("matchResources").filter(|matching| matching.is_object()) {
            self.matching(matching, "spec.matchResources");
        }
        if kind == Policies::ValidatingBinding {
            self.actions(spec);
        }
    }

    fn param_ref(&mut self, reference: &Value) {
        let name = reference.text(&["name"]);
        let selector = reference.get("selector").filter(|selector| selector.is_object());
        let exclusive = "name and selector are mutually exclusive";
        if !name.is_empty() {
            self.names("spec.paramRef.name", name, NameRule::PathSegment);
            if selector.is_some() {
                self.errors.push(FieldError::forbidden("spec.paramRef.name", exclusive));
            }
        }
        if let Some(selector) = selector {
            let path = "spec.paramRef.selector";
            self.errors.extend(label_selector::validate(selector, path));
            if !name.is_empty() {
                self.errors.push(FieldError::forbidden("spec.paramRef.selector", exclusive));
            }
        }
        if name.is_empty() && selector.is_none() {
            self.required("spec.paramRef", "one of name or selector must be specified");
        }
        let action = reference.text(&["parameterNotFoundAction"]);
        self.one_of("spec.paramRef.parameterNotFoundAction", action, &["Deny", "Allow"]);
    }

    fn actions(&mut self, spec: &Value) {
        let path = "spec.validationActions";
        let known = ["Audit", "Deny", "Warn"];
        let mut seen = Vec::new();
        for (at, action) in items(spec, "validationActions").iter().enumerate() {
            let text = action.as_str().unwrap_or("");
            if !known.contains(&text) {
                self.errors.push(FieldError::not_supported(format!("{path}[{at}]"), text, &known));
            }
            if seen.contains(&text) {
                self.errors.push(FieldError::duplicate(format!("{path}[{at}]"), action));
            }
            seen.push(text);
        }
        if seen.contains(&"Deny") && seen.contains(&"Warn") {
            let text = "must not contain both Deny and Warn (repeating the same validation failure \
                        information in the API response and headers serves no purpose)";
            self.errors.push(FieldError::invalid(path, &spec["validationActions"], text));
        }
        if seen.is_empty() {
            self.required(path, "at least one validation action is required");
        }
    }
}
