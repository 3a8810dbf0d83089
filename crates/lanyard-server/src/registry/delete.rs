//! DELETE: of one object, and of all that a selector takes.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lanyard_store::WriteOp;
use serde_json::{Map, Value, json};

use super::{Body, Call, Deleted, ListAnswer, ObjectAnswer, Registry};
use crate::{
    admission::{Operation, Subject},
    clock,
    encoded::Encoded,
    field::{FieldError, quoted},
    object::ObjectExt,
    request::{ListOptions, Query, dry_run_error, refuse},
    resource::Rules,
    schema::{self, ParseError, time},
    status::{ApiError, ApiResult},
};

/// The finalizer that keeps an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer that keeps an object until its dependents have forgotten it.
pub const ORPHAN: &str = "orphan";

/// How often a deletion is tried again when others write at the same time.
const RETRIES: usize = 20;

/// How many objects of a collection are deleted at the same time: enough for the store to put many
/// into one commit, few beside what it serves others.
const DELETIONS_AT_ONCE: usize = 16;

/// How to delete.
#[derive(Debug, Default)]
pub struct DeleteOptions {
    dry_run: bool,
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<Propagation>,
    /// How many seconds the object may take to end.
    grace: Option<i64>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Foreground,
    Background,
    Orphan,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query when there is no body.
    pub fn parse(query: &Query, body: &Body) -> ApiResult<Self> {
        if body.bytes.is_empty() {
            return Self::from_object(&options_of(query)?);
        }
        let bad = |error: ParseError| ApiError::bad_request(error.without_kind());
        let object = body.parse().map_err(bad)?.value;
        let (version, kind) = schema::type_meta(&object).map_err(bad)?;
        if !matches!(kind, "" | "DeleteOptions") {
            let (kind, version) = (quoted(kind), quoted(version));
            let text = format!("no kind {kind} is registered for version {version}");
            return Err(ApiError::bad_request(text));
        }
        let object =
            schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions").conform(object);
        let object = object.map_err(|error| ApiError::bad_request(error.to_string()))?.value;
        Self::from_object(&object)
    }

    /// Deletes at once; dependents follow.
    pub fn background() -> Self {
        Self { propagation: Some(Propagation::Background), ..Self::default() }
    }

    /// Deletes after the dependents.
    pub fn foreground() -> Self {
        Self { propagation: Some(Propagation::Foreground), ..Self::default() }
    }

    /// Deletes after the dependents have forgotten it.
    pub fn orphan() -> Self {
        Self { propagation: Some(Propagation::Orphan), ..Self::default() }
    }

    /// Deletes only this very object in this very state.
    pub fn only(mut self, uid: &str, resource_version: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self.resource_version = Some(resource_version.to_owned());
        self
    }

    fn from_object(object: &Value) -> ApiResult<Self> {
        let listed = object.get("dryRun").and_then(Value::as_array).into_iter().flatten();
        let dry: Vec<&str> = listed.filter_map(Value::as_str).collect();
        let mut errors = Vec::new();
        let orphans = object.get("orphanDependents").and_then(Value::as_bool);
        let named = object.text(&["propagationPolicy"]);
        if orphans.is_some() && !named.is_empty() {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid_str("propagationPolicy", named, text));
        }
        let propagation = match (named, orphans) {
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            ("", None) => None,
            (other, _) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &known));
                None
            }
        };
        errors.extend(dry_run_error(&dry));
        refuse("DeleteOptions", &errors)?;
        let precondition = |field| {
            let text = object.text(&["preconditions", field]);
            (!text.is_empty()).then(|| text.to_owned())
        };
        Ok(Self {
            dry_run: !dry.is_empty(),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            propagation,
            // Less than nothing is as little as there is, as upstream has it.
            grace: object
                .get("gracePeriodSeconds")
                .and_then(Value::as_i64)
                .map(|seconds| if seconds < 0 { 1 } else { seconds }),
        })
    }
}

fn options_of(query: &Query) -> ApiResult<Value> {
    let mut options = Map::new();
    options.insert("dryRun".into(), query.all("dryRun").collect::<Vec<_>>().into());
    if let Some(policy) = query.get("propagationPolicy") {
        options.insert("propagationPolicy".into(), policy.into());
    }
    if query.has("orphanDependents") {
        options.insert("orphanDependents".into(), query.flag("orphanDependents").into());
    }
    if let Some(seconds) = query.number::<i64>("gracePeriodSeconds")? {
        options.insert("gracePeriodSeconds".into(), seconds.into());
    }
    Ok(Value::Object(options))
}

impl Registry {
    /// Deletes one object, or marks it when finalizers hold it.
    pub async fn delete(&self, call: &Call<'_>, options: &DeleteOptions) -> ApiResult<Deleted> {
        let mut fresh = false;
        for _ in 0..RETRIES {
            let result = match call.endpoint.collection.get(&call.key()) {
                Some(current) => self.try_delete(call, &current, options).await,
                None => Err(call.not_found()),
            };
            match result {
                Ok(Some(deleted)) => return Ok(deleted),
                Err(error) if fresh => return Err(error),
                Ok(None) | Err(_) => {
                    self.caught_up().await?;
                    fresh = true;
                }
            }
        }
        Err(ApiError::modified(call.endpoint.group_resource(), call.name))
    }

    /// Deletes every object of the scope that the selectors take; the answer lists them.
    pub async fn delete_collection(
        &self,
        call: &Call<'_>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> ApiResult<ListAnswer> {
        let found = self.list(call, list).await?;
        self.delete_all(call, &found.objects, options).await?;
        Ok(found)
    }

    /// Deletes objects, several at a time. All are tried; the first failure is the answer.
    pub async fn delete_all(
        &self,
        call: &Call<'_>,
        objects: &[Arc<Encoded>],
        options: &DeleteOptions,
    ) -> ApiResult<()> {
        let mut waiting = objects.iter();
        let mut running = FuturesUnordered::new();
        let mut outcome = Ok(());
        loop {
            while running.len() < DELETIONS_AT_ONCE
                && let Some(object) = waiting.next()
            {
                running.push(self.delete_if_there(call, object, options));
            }
            match running.next().await {
                Some(result) => outcome = outcome.and(result),
                None => return outcome,
            }
        }
    }

    async fn delete_if_there(
        &self,
        call: &Call<'_>,
        object: &Encoded,
        options: &DeleteOptions,
    ) -> ApiResult<()> {
        let one = Call { namespace: object.namespace(), name: object.name(), ..*call };
        match self.delete(&one, options).await {
            Err(error) if error.reason() == "NotFound" => Ok(()),
            result => result.map(drop),
        }
    }

    /// One attempt; `None` when somebody else wrote in between.
    async fn try_delete(
        &self,
        call: &Call<'_>,
        current: &Arc<Encoded>,
        options: &DeleteOptions,
    ) -> ApiResult<Option<Deleted>> {
        let old = current.value();
        options.check(call, &old)?;
        let subject = Subject::new(call, Operation::Delete, None, Some(&old));
        self.admission.check(&subject)?;
        let dry_run = options.dry_run;
        self.admission.validate_by_policies(&self.served(), &subject, call.warnings, dry_run)?;
        let rules = &call.endpoint.resource().rules;
        let mut new = old.clone();
        let peace = let_end(&mut new, &**rules, options.grace);
        if peace == Peace::Pending {
            return Ok(Some(Deleted::Object(ObjectAnswer::Stored(current.clone()))));
        }
        if rules.has_dependents() {
            options.set_finalizers(&mut new);
        }
        if let Peace::Left(seconds) = peace {
            return self.let_go(call, current, new, seconds, options.dry_run).await;
        }
        let ready = rules.deletion_ready(&new);
        if ready && new.finalizers().is_empty() {
            let gone = match rules.returns_deleted() {
                true => Deleted::Object(ObjectAnswer::Stored(current.clone())),
                false => Deleted::Gone(success(call, &old)),
            };
            if options.dry_run {
                return Ok(Some(gone));
            }
            let deleted = self.write_over(call, current, WriteOp::Delete).await?;
            return Ok(deleted.map(|_| gone));
        }
        mark(&mut new, call);
        if new == old || (old.is_deleting() && !ready) {
            return Ok(Some(Deleted::Object(ObjectAnswer::Stored(current.clone()))));
        }
        if options.dry_run {
            return Ok(Some(Deleted::Object(ObjectAnswer::Tree(new))));
        }
        let value = call.endpoint.collection.codec.encode(&mut new);
        let op = WriteOp::Put { value: value.clone(), ttl: None };
        match self.write_over(call, current, op).await? {
            Some(revision) => {
                Ok(Some(Deleted::Object(call.stored(call.key(), &value, revision)?)))
            }
            None => Ok(None),
        }
    }

    /// Writes an object that has some seconds left, and deletes it when it has none; `None` when somebody
    /// else wrote in between.
    async fn let_go(
        &self,
        call: &Call<'_>,
        current: &Arc<Encoded>,
        mut new: Value,
        seconds: i64,
        dry_run: bool,
    ) -> ApiResult<Option<Deleted>> {
        if dry_run {
            return Ok(Some(Deleted::Object(ObjectAnswer::Tree(new))));
        }
        let ends = seconds == 0 && new.finalizers().is_empty();
        let mut marked = current.clone();
        if new != current.value() {
            let value = call.endpoint.collection.codec.encode(&mut new);
            let op = WriteOp::Put { value: value.clone(), ttl: None };
            let Some(revision) = self.write_over(call, current, op).await? else { return Ok(None) };
            if let ObjectAnswer::Stored(written) = call.stored(call.key(), &value, revision)? {
                marked = written;
            }
        }
        if ends && self.write_over(call, &marked, WriteOp::Delete).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(Deleted::Object(ObjectAnswer::Stored(marked))))
    }
}

/// Whether an object that is to be deleted is let end in peace.
#[derive(Debug, PartialEq, Eq)]
enum Peace {
    /// Its type knows no such thing.
    Unknown,
    /// It has this many seconds left.
    Left(i64),
    /// It has as many left as before.
    Pending,
}

/// Gives an object the time to end that its type lets it have. One that is ending already can only be
/// hurried.
fn let_end(object: &mut Value, rules: &dyn Rules, asked: Option<i64>) -> Peace {
    let Some(seconds) = rules.grace_period(object, asked) else { return Peace::Unknown };
    if object.is_deleting() {
        let left = object.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
        let left = left.unwrap_or(0);
        if left == 0 {
            return Peace::Unknown;
        }
        let Some(mut seconds) = asked.filter(|asked| *asked < left) else { return Peace::Pending };
        let now = clock::now_seconds();
        let ends = time::unix_seconds(object.text(&["metadata", "deletionTimestamp"]));
        let mut ends = ends.unwrap_or(now).saturating_sub(left).saturating_add(seconds);
        if ends < now {
            // It should have ended already: it gets the least that is still peaceful.
            (ends, seconds) = (now, seconds.min(1));
        }
        set_end(object, ends, seconds);
        return Peace::Left(seconds);
    }
    set_end(object, clock::now_seconds().saturating_add(seconds), seconds);
    next_generation(object);
    Peace::Left(seconds)
}

fn set_end(object: &mut Value, ends: i64, seconds: i64) {
    let meta = object.meta_mut();
    meta.insert("deletionTimestamp".into(), clock::rfc3339(ends).into());
    meta.insert("deletionGracePeriodSeconds".into(), seconds.into());
}

/// Being deleted is a change that those who look after an object must see.
fn next_generation(object: &mut Value) {
    let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64);
    if let Some(generation) = generation {
        object.meta_mut().insert("generation".into(), (generation + 1).into());
    }
}

impl DeleteOptions {
    fn check(&self, call: &Call<'_>, object: &Value) -> ApiResult<()> {
        let checks = [
            ("UID", &self.uid, object.uid(), "deleted and then recreated"),
            ("ResourceVersion", &self.resource_version, object.resource_version(), "modified"),
        ];
        for (what, wanted, found, happened) in checks {
            if let Some(wanted) = wanted
                && wanted != found
            {
                let text = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record \
                     ({found}). The object might have been {happened}"
                );
                return Err(ApiError::conflict(call.endpoint.group_kind(), call.name, text));
            }
        }
        Ok(())
    }

    /// The propagation policy is kept in finalizers until the garbage collector has carried it out.
    fn set_finalizers(&self, object: &mut Value) {
        let Some(propagation) = self.propagation else { return };
        let wanted = match propagation {
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
            Propagation::Background => None,
        };
        let others = |f: &&str| *f != FOREGROUND && *f != ORPHAN;
        let mut finalizers: Vec<&str> = object.finalizers().into_iter().filter(others).collect();
        finalizers.extend(wanted);
        let finalizers = json!(finalizers);
        if finalizers == json!([]) {
            object.meta_mut().remove("finalizers");
        } else {
            object.meta_mut().insert("finalizers".into(), finalizers);
        }
    }
}

/// Marks an object as being deleted, once.
fn mark(object: &mut Value, call: &Call<'_>) {
    if object.is_deleting() {
        return;
    }
    let rules = &call.endpoint.resource().rules;
    set_end(object, clock::now_seconds(), 0);
    next_generation(object);
    rules.mark_deleting(object);
}

fn success(call: &Call<'_>, object: &Value) -> Value {
    let resource = call.endpoint.group_resource();
    let mut details = json!({"name": object.name(), "kind": resource.name, "uid": object.uid()});
    if !resource.group.is_empty() {
        details["group"] = resource.group.into();
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn an_object_that_ends_in_peace_can_only_be_hurried() {
        let pods = types::all().into_iter().find(|kind| kind.plural == "pods").unwrap().rules;
        let mut pod = json!({"metadata": {"generation": 1}, "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": 30,
        }});
        let mut unbound = json!({"metadata": {}, "spec": {"terminationGracePeriodSeconds": 30}});
        assert_eq!(let_end(&mut unbound, &*pods, None), Peace::Left(0));
        assert_eq!(let_end(&mut pod, &*pods, None), Peace::Left(30));
        assert_eq!(pod["metadata"]["generation"], 2);
        assert_eq!(let_end(&mut pod, &*pods, None), Peace::Pending);
        assert_eq!(let_end(&mut pod, &*pods, Some(40)), Peace::Pending);
        let ends = pod["metadata"]["deletionTimestamp"].clone();
        assert_eq!(let_end(&mut pod, &*pods, Some(10)), Peace::Left(10));
        assert_ne!(pod["metadata"]["deletionTimestamp"], ends);
        assert_eq!(let_end(&mut pod, &*pods, Some(0)), Peace::Left(0));
        assert_eq!(let_end(&mut pod, &*pods, None), Peace::Unknown, "it has no time left");
        assert_eq!(pod["metadata"]["generation"], 2);
    }
}
