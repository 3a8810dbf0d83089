//! Which requests a policy or a binding is for.

use serde_json::Value;

use crate::{object::ObjectExt, registry::Endpoint, resource::Scope, selector::LabelSelector};

/// What a policy or a binding says about requests.
#[derive(Debug)]
pub struct Match {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    equivalent: bool,
}

/// One rule: sets of names where a star stands for all.
#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// A request, as far as it counts for matching.
pub struct Asked<'a> {
    /// The type and the view that the request is for.
    pub endpoint: &'a Endpoint,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace; for a namespace its own name; else empty.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The object and what there was before.
    pub objects: [Option<&'a Value>; 2],
    /// The labels of the namespace, if there is one.
    pub namespace_labels: &'a dyn Fn() -> Vec<(String, String)>,
}

impl Match {
    /// Reads `matchConstraints` or `matchResources`.
    pub fn new(value: &Value) -> Self {
        let selector =
            |name: &str| value.get(name).and_then(LabelSelector::from_object).unwrap_or_default();
        let rules = |name: &str| {
            let list = value.get(name).and_then(Value::as_array);
            list.into_iter().flatten().map(Rule::new).collect()
        };
        Self {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            equivalent: value.text(&["matchPolicy"]) != "Exact",
        }
    }

    /// The view of the resource through which a request matches, or nothing.
    pub fn view(&self, asked: &Asked<'_>) -> Option<usize> {
        if !self.takes_namespace(asked) || !self.takes_object(asked) {
            return None;
        }
        if self.find(&self.excluded, asked).is_some() {
            return None;
        }
        match self.rules.is_empty() {
            true => Some(asked.endpoint.view),
            false => self.find(&self.rules, asked),
        }
    }

    fn takes_namespace(&self, asked: &Asked<'_>) -> bool {
        if asked.namespace.is_empty() || self.namespaces.is_empty() {
            return true;
        }
        let labels = (asked.namespace_labels)();
        matches(&self.namespaces, &labels)
    }

    fn takes_object(&self, asked: &Asked<'_>) -> bool {
        if self.objects.is_empty() {
            return true;
        }
        asked.objects.iter().flatten().any(|object| {
            let labels = object.labels();
            self.objects.matches(|key| {
                labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
            })
        })
    }

    /// The view of a rule that takes the request: its own, or one with the same objects.
    fn find(&self, rules: &[Rule], asked: &Asked<'_>) -> Option<usize> {
        let asked_view = asked.endpoint.view;
        let takes = |view: usize| rules.iter().any(|rule| rule.takes(asked, view));
        if takes(asked_view) {
            return Some(asked_view);
        }
        let views = 0..asked.endpoint.resource().views.len();
        views.filter(|view| self.equivalent && *view != asked_view).find(|view| takes(*view))
    }
}

fn matches(selector: &LabelSelector, labels: &[(String, String)]) -> bool {
    selector.matches(|key| {
        labels.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    })
}

impl Rule {
    fn new(value: &Value) -> Self {
        let texts = |name: &str| {
            let list = value.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            scope: value.text(&["scope"]).to_owned(),
        }
    }

    fn takes(&self, asked: &Asked<'_>, view: usize) -> bool {
        let resource = asked.endpoint.resource();
        let view = &resource.views[view];
        let holds = |set: &[String], name: &str| set.iter().any(|item| item == "*" || item == name);
        holds(&self.operations, asked.operation)
            && holds(&self.groups, &view.group)
            && holds(&self.versions, &view.version)
            && self.resources.iter().any(|item| {
                let (name, part) = item.split_once('/').unwrap_or((item, ""));
                (name == "*" || resource.plural == *name)
                    && (part == "*" || part == asked.subresource)
            })
            && match self.scope.as_str() {
                "Namespaced" => resource.scope == Scope::Namespaced,
                "Cluster" => resource.scope == Scope::Cluster,
                _ => true,
            }
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }
}
