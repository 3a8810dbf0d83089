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
    schema::{
        Field, STRING, Struct,
        Type::{self, Int32, MicroTime, Time},
        meta::{API_VERSION, KIND, METADATA, UID},
    },
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
            View::new("", "v1", &CORE_EVENT),
            View::new(EVENTS_GROUP, "v1", &EVENT).converted(convert::CONVERSION),
        ],
        rules: Arc::new(Events),
    }
}

/// The event of the core group.
static CORE_EVENT: Struct = Struct::new(
    "Event",
    &[
        KIND,
        API_VERSION,
        METADATA,
        Field::always("involvedObject", Type::Struct(&OBJECT_REFERENCE)),
        Field::omit_empty("reason", STRING),
        Field::omit_empty("message", STRING),
        Field::always("source", Type::Struct(&SOURCE)),
        Field::always("firstTimestamp", Time),
        Field::always("lastTimestamp", Time),
        Field::omit_empty("count", Int32),
        Field::omit_empty("type", STRING),
        Field::always("eventTime", MicroTime),
        Field::pointer("series", Type::Struct(&CORE_SERIES)),
        Field::omit_empty("action", STRING),
        Field::pointer("related", Type::Struct(&OBJECT_REFERENCE)),
        Field::always("reportingComponent", STRING),
        Field::always("reportingInstance", STRING),
    ],
);

/// The event of the events group.
static EVENT: Struct = Struct::new(
    "Event",
    &[
        KIND,
        API_VERSION,
        METADATA,
        Field::always("eventTime", MicroTime),
        Field::pointer("series", Type::Struct(&SERIES)),
        Field::omit_empty("reportingController", STRING),
        Field::omit_empty("reportingInstance", STRING),
        Field::omit_empty("action", STRING),
        Field::omit_empty("reason", STRING),
        Field::always("regarding", Type::Struct(&OBJECT_REFERENCE)),
        Field::pointer("related", Type::Struct(&OBJECT_REFERENCE)),
        Field::omit_empty("note", STRING),
        Field::omit_empty("type", STRING),
        Field::always("deprecatedSource", Type::Struct(&SOURCE)),
        Field::always("deprecatedFirstTimestamp", Time),
        Field::always("deprecatedLastTimestamp", Time),
        Field::omit_empty("deprecatedCount", Int32),
    ],
);

static SOURCE: Struct = Struct::new(
    "EventSource",
    &[Field::omit_empty("component", STRING), Field::omit_empty("host", STRING)],
);

static CORE_SERIES: Struct = Struct::new(
    "EventSeries",
    &[Field::omit_empty("count", Int32), Field::always("lastObservedTime", MicroTime)],
);

static SERIES: Struct = Struct::new(
    "EventSeries",
    &[Field::always("count", Int32), Field::always("lastObservedTime", MicroTime)],
);

/// A reference to any object, or to a part of one.
pub(super) static OBJECT_REFERENCE: Struct = Struct::new(
    "ObjectReference",
    &[
        Field::omit_empty("kind", STRING),
        Field::omit_empty("namespace", STRING),
        Field::omit_empty("name", STRING),
        Field::omit_empty("uid", UID),
        Field::omit_empty("apiVersion", STRING),
        Field::omit_empty("resourceVersion", STRING),
        Field::omit_empty("fieldPath", STRING),
    ],
);

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
