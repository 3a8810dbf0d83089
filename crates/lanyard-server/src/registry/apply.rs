//! Server-side apply: the object becomes what its appliers want together.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    Body, Call, ObjectAnswer, Registry, Served,
    create::Owners,
    decode::Misfit,
    ownership::{set_managers, take_entries},
    update::Change,
};
use crate::{
    field::quoted,
    merge::{
        last_applied,
        managers::{Managers, Operation},
        ownership::{self, Applied, Conflict, Conflicts, MAX_CONFLICTS, Refused, Versions as _},
        path::Element,
        walk::validate,
    },
    object::ObjectExt,
    request::FieldValidation,
    resource::Subresource,
    schema::json_kind,
    status::{ApiError, ApiResult},
};

/// The manager of fields that were set before anybody was tracked.
const BEFORE: &str = "before-first-apply";

/// The version of Scales.
const SCALE_VERSION: &str = "autoscaling/v1";

/// How often an object may appear and vanish while it is applied.
const TRIES: usize = 5;

/// What somebody wants of an object.
pub struct Configuration {
    object: Value,
    /// Whether to take what others own.
    force: bool,
    /// Fields that stand there more than once.
    duplicates: Vec<String>,
    validation: FieldValidation,
}

impl Configuration {
    /// Reads a body.
    fn new(body: &Body, force: bool) -> ApiResult<Self> {
        let bad = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
        let parsed = body.parse();
        let parsed = parsed.map_err(|why| bad(format!("error converting YAML to JSON: {why}")))?;
        let object = match parsed.value {
            Value::Null => Value::Object(Map::new()),
            object @ Value::Object(_) => object,
            other => {
                return Err(bad(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    json_kind(&other)
                )));
            }
        };
        Ok(Self { object, force, duplicates: parsed.duplicates, validation: body.validation })
    }

    /// `namespace/name; group/version, Kind=kind`, as messages show it.
    fn shown(&self) -> String {
        let object = &self.object;
        format!("{}/{}; {}", object.namespace(), object.name(), shown_type(object))
    }

    /// The fields that stand there more than once.
    fn repeated(&self) -> Option<String> {
        if self.validation == FieldValidation::Ignore || self.duplicates.is_empty() {
            return None;
        }
        let key = |path: &String| {
            let key = path.rsplit('.').next().unwrap_or_default();
            format!("key {} already set in map", quoted(key))
        };
        let keys: Vec<_> = self.duplicates.iter().map(key).collect();
        Some(format!("error converting YAML to JSON: yaml: unmarshal errors: {}", keys.join(", ")))
    }
}

impl Registry {
    /// Applies a configuration; says whether it created the object.
    pub async fn apply(
        &self,
        call: &Call<'_>,
        body: &Body,
        force: bool,
        dry_run: bool,
    ) -> ApiResult<(ObjectAnswer, bool)> {
        let config = Arc::new(Configuration::new(body, force)?);
        let change = Change::Apply(config.clone());
        for _ in 0..TRIES {
            let there = call.endpoint.collection.get(&call.key()).is_some();
            if there || call.subresource.is_some() || self.present(call).await?.is_some() {
                match self.change(call, &change, dry_run).await {
                    // Deleted meanwhile.
                    Err(error) if error.reason() == "NotFound" && call.subresource.is_none() => {}
                    result => return result.map(|answer| (answer, false)),
                }
                if self.present(call).await?.is_some() {
                    continue;
                }
            }
            match self.create_applied(call, &config, dry_run).await {
                // Created meanwhile.
                Err(error) if error.reason() == "AlreadyExists" => {}
                result => return result.map(|answer| (answer, true)),
            }
        }
        Err(ApiError::modified(call.endpoint.group_resource(), call.name))
    }

    async fn create_applied(
        &self,
        call: &Call<'_>,
        config: &Configuration,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        let mut object = call.applied(&self.served(), None, config)?;
        let uid = object.uid();
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(call.endpoint.group_resource(), call.name, why));
        }
        object.meta_mut().remove("resourceVersion");
        self.admission.may_create(call)?;
        self.create_owned(call, object, Owners::Told, dry_run).await
    }
}

impl Call<'_> {
    /// What becomes of an object (in the stored form) by a configuration, with its managers.
    pub(super) fn applied(
        &self,
        served: &Served,
        old: Option<&Value>,
        config: &Configuration,
    ) -> ApiResult<Value> {
        self.check_configuration(config)?;
        let wanted = match self.subresource {
            Some(Subresource::Scale) => &self.configured(&config.object),
            _ => &config.object,
        };
        let mut live = match old {
            Some(old) => self.endpoint.to_view(old.clone()),
            None => self.endpoint.empty(),
        };
        let managers = Managers::decode(take_entries(&mut live).as_ref());
        let managers = managers.map_err(|why| {
            ApiError::unclassified(format!("failed to decode managed fields: {why}"))
        })?;
        let Applied { object, managers } = self.merged(&live, wanted, config.force, managers)?;
        let unchanged = object.is_none();
        let mut object = object.unwrap_or(live);
        if self.manager == last_applied::KUBECTL {
            last_applied::keep_in_step(&mut object, wanted);
        }
        let mut new = match (old, unchanged) {
            (Some(_), true) => self.endpoint.to_stored(object),
            _ => {
                let shown = config.shown();
                let unfit = |misfit: Misfit| {
                    let (why, kind) = (misfit.why(), shown_type(&config.object));
                    ApiError::unclassified(format!(
                        "failed to convert new object ({shown}) to proper version: unable to convert unstructured object to {kind}: error decoding from json: {why}"
                    ))
                };
                let none = |_: &[String]| Vec::new();
                let ignore = FieldValidation::Ignore;
                self.conform(served, object, ignore, none).map_err(unfit)?
            }
        };
        self.endpoint.resource().rules.apply_defaults(&mut new);
        if let Some(problem) = config.repeated() {
            if config.validation == FieldValidation::Strict {
                let text = format!("error strict decoding YAML: {problem}");
                return Err(ApiError::bad_request(text));
            }
            self.warnings.lock().push(problem);
        }
        self.check_namespace(&mut new)?;
        self.check_name(&new)?;
        set_managers(&mut new, &managers);
        Ok(new)
    }

    /// A configuration is of the type of the URL, and does not say who owns what.
    fn check_configuration(&self, config: &Configuration) -> ApiResult<()> {
        let object = &config.object;
        let (api_version, kind) = match self.subresource {
            Some(Subresource::Scale) => (SCALE_VERSION.to_owned(), "Scale"),
            _ => (self.endpoint.view().api_version(), &*self.endpoint.resource().kind),
        };
        if object.api_version() != api_version || object.kind() != kind {
            let shown = shown_type(object);
            return Err(ApiError::bad_request(format!("invalid object type: {shown}")));
        }
        if object.at(&["metadata", "managedFields"]).is_some_and(Value::is_array) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        validate(self.body_schema().node(), object).map_err(|problems| {
            let shown = config.shown();
            let text = format!("failed to create typed patch object ({shown}): {problems}");
            ApiError::unclassified(text)
        })
    }

    /// Merges a configuration into an object of the same view.
    fn merged(
        &self,
        live: &Value,
        config: &Value,
        force: bool,
        mut managers: Managers,
    ) -> ApiResult<Applied> {
        let write = self.write_now();
        let misfit = |why: &dyn std::fmt::Display| ApiError::unclassified(why.to_string());
        if managers.is_empty() {
            let empty = self.endpoint.empty();
            let writer = self.writer(BEFORE, &write);
            managers = ownership::update(self.endpoint, &empty, live, managers, writer)
                .map_err(|problems| misfit(&problems))?;
        }
        let writer = self.writer(self.manager, &write);
        let apply = |managers, force| {
            ownership::apply(self.endpoint, live, config, managers, writer, force)
        };
        match apply(managers.clone(), force) {
            Ok(applied) => Ok(applied),
            Err(Refused::Misfit(problems)) => Err(misfit(&problems)),
            Err(Refused::Conflicts(conflicts)) => match self.unforgivable(live, conflicts) {
                conflicts if conflicts.is_empty() => {
                    apply(managers, true).map_err(|_| misfit(&"failed to force an apply"))
                }
                conflicts => Err(conflict(&self.as_seen(conflicts))),
            },
        }
    }

    /// Conflicts in the words of what was applied: a Scale has fields of its own.
    fn as_seen(&self, mut conflicts: Vec<Conflict>) -> Vec<Conflict> {
        if self.subresource == Some(Subresource::Scale) {
            for conflict in &mut conflicts {
                if conflict.manager.operation == Operation::Update {
                    conflict.manager.api_version = SCALE_VERSION.into();
                }
                conflict.path = ["spec", "replicas"].map(Element::field).into();
            }
        }
        conflicts
    }

    /// The conflicts that are not with what kubectl's own client-side apply did.
    fn unforgivable(&self, live: &Value, conflicts: Vec<Conflict>) -> Vec<Conflict> {
        let allowed = (self.manager == last_applied::KUBECTL)
            .then(|| {
                let node = self.endpoint.node(live.api_version())?;
                last_applied::still_applied(node, live)
            })
            .flatten();
        match allowed {
            Some(allowed) => conflicts.into_iter().filter(|c| !allowed.has(&c.path)).collect(),
            None => conflicts,
        }
    }
}

fn conflict(conflicts: &[Conflict]) -> ApiError {
    let code = http::StatusCode::CONFLICT;
    let error = ApiError::new(code, "Conflict", Conflicts(conflicts).to_string());
    conflicts.iter().take(MAX_CONFLICTS).fold(error, |error, conflict| {
        let message = format!("conflict with {}", conflict.manager);
        error.caused("FieldManagerConflict", &message, Some(&conflict.field()))
    })
}

/// `group/version, Kind=kind` of an object.
fn shown_type(object: &Value) -> String {
    let (api_version, kind) = (object.api_version(), object.kind());
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        _ => "/, Kind=".to_owned(),
    }
}
