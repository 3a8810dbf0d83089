//! CustomResourceDefinitions: whose names are accepted, and whose objects must go.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{client::Client, queue::Queue};
use crate::{
    clock,
    collection::{Collection, Scope},
    field::quoted,
    object::ObjectExt,
    registry::Registry,
    resource::Subresource,
    status::ApiResult,
    types::custom_resource_definition::{CLEANUP, Condition, GROUP, approval_problem, find, set},
};

/// How long to wait before looking again at a definition whose objects are not gone yet.
const RETRY: Duration = Duration::from_millis(500);

/// Accepts names, and cleans up.
pub(super) struct DefinitionController {
    registry: Arc<Registry>,
    client: Client,
    definitions: Option<Arc<Collection>>,
    queue: Queue<Arc<str>>,
}

impl DefinitionController {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let queue = Queue::new();
        let endpoint = registry.endpoint(GROUP, "v1", "customresourcedefinitions");
        let definitions = endpoint.map(|endpoint| endpoint.collection);
        if let Some(definitions) = &definitions {
            let queue = queue.clone();
            definitions.observe(Box::new(move |event| queue.add(event.object.key.clone())));
        }
        Self { registry: registry.clone(), client: Client::new(registry), definitions, queue }
    }

    pub(super) async fn run(&self) {
        let Some(definitions) = &self.definitions else { return };
        let _open = self.queue.open();
        self.add_all(definitions, "");
        loop {
            let name = self.queue.next().await;
            match self.look_at(definitions, &name).await {
                Ok(true) => {}
                Ok(false) => self.queue.add_later(name, RETRY),
                Err(error) if matches!(error.reason(), "NotFound" | "Conflict") => {}
                Err(error) => {
                    tracing::warn!(%error, definition = &*name, "cannot keep a definition");
                    self.queue.add_later(name, RETRY);
                }
            }
        }
    }

    /// Looks at all definitions of a group, or of all groups, again.
    fn add_all(&self, definitions: &Collection, group: &str) {
        let (page, _) = definitions.list(&Scope::All, None, None, |_| true);
        for object in page.objects {
            if object.name().ends_with(group) {
                self.queue.add(object.key.clone());
            }
        }
    }

    /// Brings the status of one definition up to date; false when it must be looked at again.
    async fn look_at(&self, definitions: &Arc<Collection>, name: &Arc<str>) -> ApiResult<bool> {
        self.registry.caught_up().await?;
        let Some(definition) = definitions.get(name).map(|object| object.value()) else {
            // Its names are free now.
            self.add_all(definitions, name.split_once('.').map_or("", |(_, group)| group));
            return Ok(true);
        };
        if definition.is_deleting() {
            return self.clean_up(definitions, &definition).await;
        }
        let mut wanted = definition.clone();
        self.accept_names(definitions, &mut wanted);
        if let Some((holds, reason, message)) = approval_problem(&definition) {
            let name = "KubernetesAPIApprovalPolicyConformant";
            set_if_new(&mut wanted, &Condition::new(name, holds, reason, message));
        }
        if wanted["status"] == definition["status"] {
            return Ok(true);
        }
        self.write_status(definitions, &definition, &wanted).await?;
        // Names may have been let go.
        self.add_all(definitions, definition.text(&["spec", "group"]));
        Ok(true)
    }

    fn accept_names(&self, definitions: &Collection, definition: &mut Value) {
        let wanted = definition["spec"]["names"].clone();
        let accepted = definition["status"]["acceptedNames"].clone();
        if wanted == accepted && find(definition, "Established").is_some() {
            return;
        }
        let used = Used::of(definitions, definition);
        let (names, conflict) = used.deconflict(&wanted, &accepted);
        definition["status"]["acceptedNames"] = names;
        let established = find(definition, "Established").map(|c| c.text(&["status"]) == "True");
        match conflict {
            None => {
                let text = "no conflicts found";
                set_if_new(definition, &Condition::new("NamesAccepted", true, "NoConflicts", text));
                let text = "the initial names have been accepted";
                let condition = Condition::new("Established", true, "InitialNamesAccepted", text);
                set_if_new(definition, &condition);
            }
            Some((reason, text)) => {
                set_if_new(definition, &Condition::new("NamesAccepted", false, reason, text));
                if established != Some(true) {
                    let text = "not all names are accepted";
                    let condition = Condition::new("Established", false, "NotAccepted", text);
                    set_if_new(definition, &condition);
                }
            }
        }
    }

    /// Deletes the objects of a definition, then lets it go.
    async fn clean_up(&self, definitions: &Arc<Collection>, definition: &Value) -> ApiResult<bool> {
        if !definition.finalizers().contains(&CLEANUP) {
            return Ok(true);
        }
        let mut wanted = definition.clone();
        let established =
            find(definition, "Established").is_some_and(|c| c.text(&["status"]) == "True");
        if !established {
            let text = "resource was never established";
            set_if_new(
                &mut wanted,
                &Condition::new("Terminating", false, "NeverEstablished", text),
            );
            return self.let_go(definitions, definition, &wanted).await;
        }
        let text = "CustomResource deletion is in progress";
        let condition = Condition::new("Terminating", true, "InstanceDeletionInProgress", text);
        set_if_new(&mut wanted, &condition);
        if wanted["status"] != definition["status"] {
            self.write_status(definitions, definition, &wanted).await?;
            return Ok(false);
        }
        let served = self.registry.served();
        let storage = definition.name();
        let ours = |c: &&Arc<Collection>| c.resource.is_custom() && c.resource.storage == *storage;
        let Some(objects) = served.collections.iter().find(ours) else { return Ok(false) };
        let (page, _) = objects.list(&Scope::All, None, None, |_| true);
        self.client.delete_all(objects, &page.objects).await?;
        self.registry.caught_up().await?;
        if !objects.is_empty() {
            return Ok(false);
        }
        let text = "removed all instances";
        let condition = Condition::new("Terminating", false, "InstanceDeletionCompleted", text);
        set_if_new(&mut wanted, &condition);
        self.let_go(definitions, definition, &wanted).await
    }

    async fn let_go(
        &self,
        definitions: &Arc<Collection>,
        definition: &Value,
        wanted: &Value,
    ) -> ApiResult<bool> {
        if wanted["status"] != definition["status"] {
            self.write_status(definitions, definition, wanted).await?;
        }
        let others: Vec<&str> =
            definition.finalizers().into_iter().filter(|f| *f != CLEANUP).collect();
        let patch = json!({"metadata": {"uid": definition.uid(), "finalizers": others}});
        self.client.merge(definitions, definition.name(), None, patch).await?;
        Ok(true)
    }

    async fn write_status(
        &self,
        definitions: &Arc<Collection>,
        definition: &Value,
        wanted: &Value,
    ) -> ApiResult<()> {
        let patch = json!({
            "metadata": {
                "uid": definition.uid(),
                "resourceVersion": definition.resource_version(),
            },
            "status": wanted["status"],
        });
        let part = Some(Subresource::Status);
        self.client.merge(definitions, definition.name(), part, patch).await
    }
}

fn set_if_new(definition: &mut Value, condition: &Condition) {
    if find(definition, condition.name).is_none_or(|known| !condition.is_said_by(known)) {
        set(definition, condition, &clock::now_rfc3339());
    }
}

/// The names that other definitions of a group hold.
struct Used {
    resources: HashSet<String>,
    kinds: HashSet<String>,
}

impl Used {
    fn of(definitions: &Collection, definition: &Value) -> Self {
        let mut used = Self { resources: HashSet::new(), kinds: HashSet::new() };
        let (page, _) = definitions.list(&Scope::All, None, None, |_| true);
        for other in page.objects.iter().map(|object| object.value()) {
            if other.at(&["spec", "group"]) == definition.at(&["spec", "group"]) {
                used.take(&other["status"]["acceptedNames"]);
            }
        }
        used
    }

    fn take(&mut self, names: &Value) {
        let short = names.get("shortNames").and_then(Value::as_array).into_iter().flatten();
        let short = short.filter_map(Value::as_str);
        let resources = [names.text(&["plural"]), names.text(&["singular"])].into_iter();
        self.resources.extend(resources.chain(short).map(str::to_owned));
        let kinds = [names.text(&["kind"]), names.text(&["listKind"])];
        self.kinds.extend(kinds.map(str::to_owned));
    }

    /// The names that can be accepted, and the last conflict.
    fn deconflict(
        &self,
        wanted: &Value,
        accepted: &Value,
    ) -> (Value, Option<(&'static str, String)>) {
        let mut names = accepted.clone();
        let mut conflict = None;
        let in_use = |name: &str| format!("{} is already in use", quoted(name));
        for (field, reason, used) in [
            ("plural", "PluralConflict", &self.resources),
            ("singular", "SingularConflict", &self.resources),
            ("shortNames", "ShortNamesConflict", &self.resources),
            ("kind", "KindConflict", &self.kinds),
            ("listKind", "ListKindConflict", &self.kinds),
        ] {
            let taken: Vec<String> = texts(wanted.get(field))
                .into_iter()
                .filter(|name| !texts(accepted.get(field)).contains(name) && used.contains(*name))
                .map(in_use)
                .collect();
            match taken.as_slice() {
                [] => copy(&mut names, wanted, field),
                [one] => conflict = Some((reason, one.clone())),
                many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
            }
        }
        copy(&mut names, wanted, "categories");
        (names, conflict)
    }
}

fn copy(names: &mut Value, wanted: &Value, field: &str) {
    if let Some(names) = names.as_object_mut() {
        match wanted.get(field) {
            Some(value) => names.insert(field.to_owned(), value.clone()),
            None => names.remove(field),
        };
    }
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_hold_are_not_accepted() {
        let mut used = Used { resources: HashSet::new(), kinds: HashSet::new() };
        used.take(&json!({"plural": "as", "singular": "a", "shortNames": ["s"], "kind": "A",
                          "listKind": "AList"}));
        let none = json!({"plural": "", "kind": ""});
        let free = json!({"plural": "bs", "singular": "b", "kind": "B", "listKind": "BList"});
        assert_eq!(used.deconflict(&free, &none), (free.clone(), None));
        let short = json!({"plural": "bs", "singular": "b", "shortNames": ["s", "a", "x"],
                           "kind": "B", "listKind": "BList", "categories": ["all"]});
        let (names, conflict) = used.deconflict(&short, &none);
        assert_eq!(names["plural"], "bs");
        assert!(names.get("shortNames").is_none() && names["categories"][0] == "all");
        let text = r#"["s" is already in use, "a" is already in use]"#;
        assert_eq!(conflict, Some(("ShortNamesConflict", text.to_owned())));
        let kind = json!({"plural": "bs", "singular": "b", "kind": "A", "listKind": "BList"});
        let (names, conflict) = used.deconflict(&kind, &none);
        assert_eq!((names["kind"].as_str(), conflict.unwrap().0), (Some(""), "KindConflict"));
        // Its own names are no conflict.
        let own = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
        assert_eq!(used.deconflict(&own, &own).1, None);
    }
}
