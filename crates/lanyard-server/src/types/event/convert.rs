//! Conversion of events between their two views: fields are renamed, none is lost.

use serde_json::Value;

use crate::resource::Conversion;

pub(super) const CONVERSION: Conversion = Conversion { from_stored, to_stored };

/// The names of the stored form and of the newer view.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn from_stored(object: &mut Value) {
    for (stored, newer) in NAMES {
        rename(object, stored, newer);
    }
    let Value::Object(map) = &mut *object else { return };
    // The stored form writes these even when they are empty, the newer view leaves them out.
    for field in ["reportingController", "reportingInstance"] {
        if map.get(field).is_some_and(|value| value == "") {
            map.remove(field);
        }
    }
    // And the other way around.
    if let Some(Value::Object(series)) = map.get_mut("series") {
        series.entry("count").or_insert_with(|| 0.into());
    }
}

fn to_stored(object: &mut Value) {
    for (stored, newer) in NAMES {
        rename(object, newer, stored);
    }
    let Value::Object(map) = &mut *object else { return };
    for field in ["reportingComponent", "reportingInstance"] {
        map.entry(field).or_insert_with(|| "".into());
    }
    if let Some(Value::Object(series)) = map.get_mut("series")
        && series.get("count").and_then(Value::as_i64) == Some(0)
    {
        series.remove("count");
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Value::Object(map) = object
        && let Some(value) = map.remove(from)
    {
        map.insert(to.to_owned(), value);
    }
}
