//! Event: something that happened to an object, kept for an hour.
//!
//! Two views of one store: `v1`, which is the stored form, and `events.k8s.io/v1`, which has newer
//! names for some fields and stricter rules.

mod convert;
mod validate;

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS,
    column::{self, since},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

/// The group of the newer view.
const EVENTS_GROUP: &str = "events.k8s.io";

/// How long events live: upstream's `--event-ttl`.
const TIME_TO_LIVE_SECONDS: u64 = 3600;

pub(super) fn resource() -> Resource {
    Resource {
        storage: "events".into(),
        plural: "events".into(),
        singular: "event".into(),
        kind: "Event".into(),
        short_names: names(&["ev"]),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![
            View::new("", "v1", builtin("io.k8s.api.core.v1.Event")),
            View::new(EVENTS_GROUP, "v1", builtin("io.k8s.api.events.v1.Event"))
                .converted(convert::CONVERSION),
        ],
        rules: Arc::new(Events),
    }
}

static COLUMNS: [Column; 10] = [
    column::text("Last Seen", "The time since it last happened."),
    column::text("Type", "Normal or Warning."),
    column::text("Reason", "Why it happened, in one word for programs."),
    column::text("Object", "What it happened to."),
    column::wide("Subobject", "The part of the object that it happened to."),
    column::wide("Source", "Who reports it."),
    column::text("Message", "What happened, for people."),
    column::wide("First Seen", "The time since it first happened."),
    column::wide("Count", "How often it happened."),
    Column { priority: 1, ..column::NAME },
];

struct Events;

impl Rules for Events {
    fn validate(&self, object: &Value, context: WriteContext<'_>) -> Vec<FieldError> {
        validate::create(object, context.view)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        validate::update(new, old, context.view)
    }

    /// Old clients may say more or less anything there.
    fn checks_metadata(&self) -> bool {
        true
    }

    /// An event expires, and whatever it owned would go with it.
    fn has_dependents(&self) -> bool {
        false
    }

    /// Old clients name events freely; the newer view asks for more in its own rules.
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn time_to_live(&self, _object: &Value) -> Option<u64> {
        Some(TIME_TO_LIVE_SECONDS)
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let (first_seen, last_seen, count) = occurrences(object, now);
        vec![
            last_seen.into(),
            object.text(&["type"]).into(),
            object.text(&["reason"]).into(),
            target(object).into(),
            object.text(&["involvedObject", "fieldPath"]).into(),
            reporter(object).into(),
            object.text(&["message"]).trim().into(),
            first_seen.into(),
            count.into(),
            column::name_cell(object),
        ]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn selectable_in_view(&self, view: &View, field: &str) -> Option<&'static str> {
        let stored = match (&*view.group, field) {
            ("", _) => field.to_owned(),
            (_, "reportingController") => "reportingComponent".to_owned(),
            (_, "reason" | "type") => field.to_owned(),
            _ => format!("involvedObject.{}", field.strip_prefix("regarding.")?),
        };
        self.selectable_fields().iter().copied().find(|known| *known == stored)
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        let text = match (field, field.strip_prefix("involvedObject.")) {
            (_, Some(part)) => object.text(&["involvedObject", part]),
            ("source", _) => non_empty(
                object.text(&["source", "component"]),
                object.text(&["reportingComponent"]),
            ),
            _ => object.text(&[field]),
        };
        text.to_owned()
    }
}

/// The ages of the first and last occurrence, and how many there were.
fn occurrences(object: &Value, now: i64) -> (String, String, i64) {
    let first_time = non_empty(object.text(&["firstTimestamp"]), object.text(&["eventTime"]));
    let first = since(first_time, now);
    let last = match object.text(&["lastTimestamp"]) {
        "" => first.clone(),
        time => since(time, now),
    };
    let number = |path: &[&str]| object.at(path).and_then(Value::as_i64).unwrap_or(0);
    if object.at(&["series"]).is_some_and(Value::is_object) {
        let last = since(object.text(&["series", "lastObservedTime"]), now);
        return (first, last, number(&["series", "count"]));
    }
    // The newer view does not count what happened once.
    (first, last, number(&["count"]).max(1))
}

fn target(object: &Value) -> String {
    let kind = object.text(&["involvedObject", "kind"]).to_lowercase();
    match object.text(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn reporter(object: &Value) -> String {
    let component =
        non_empty(object.text(&["source", "component"]), object.text(&["reportingComponent"]));
    match non_empty(object.text(&["source", "host"]), object.text(&["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

fn non_empty<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}
