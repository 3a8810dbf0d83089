//! Lists that are sets or maps: no item twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Additional, List, Node};
use crate::field::FieldError;

/// What is twice in the lists of an object that may have it only once.
pub fn validate_lists(object: &Value, schema: &Node) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk("", object, schema, &mut errors);
    errors
}

fn walk(path: &str, value: &Value, schema: &Node, errors: &mut Vec<FieldError>) {
    if !schema.keyed {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(property) = schema.properties.get(name) {
                    walk(&child(path, name), value, property, errors);
                } else if let Additional::Schema(schema) = &schema.additional {
                    walk(&format!("{path}[{name}]"), value, schema, errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                List::Atomic => {}
                List::Set => {
                    let twice = repeated(items.iter().map(Value::to_string));
                    let error = |at: usize| duplicate(path, at, &items[at]);
                    errors.extend(twice.into_iter().map(error));
                }
                List::Map(keys) => check_map(path, items, keys, errors),
            }
            let Some(schema) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                walk(&format!("{path}[{at}]"), item, schema, errors);
            }
        }
        _ => {}
    }
}

fn check_map(path: &str, items: &[Value], keys: &[String], errors: &mut Vec<FieldError>) {
    let odd = items.iter().position(|item| !item.is_null() && !item.is_object());
    if let Some(at) = odd {
        let problem = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{at}]"), &items[at], problem));
        return;
    }
    let key = |item: &Value| {
        let pair = |key: &String| Some((key.clone(), item.get(key)?.clone()));
        Value::Object(keys.iter().filter_map(pair).collect::<Map<_, _>>())
    };
    let found: Vec<Value> = items.iter().map(key).collect();
    for at in repeated(found.iter().map(Value::to_string)) {
        errors.push(duplicate(path, at, &found[at]));
    }
}

/// Where something stands for the second time.
fn repeated(items: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen = HashMap::<String, usize>::new();
    let mut twice = Vec::new();
    for (at, item) in items.enumerate() {
        let times = seen.entry(item).or_default();
        *times += 1;
        if *times == 2 {
            twice.push(at);
        }
    }
    twice
}

fn duplicate(path: &str, at: usize, value: &Value) -> FieldError {
    FieldError::duplicate(format!("{path}[{at}]"), value)
}

/// The path of a field.
pub(super) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The items of the list that was there before, by their keys.
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn new(old: Option<&'a Value>, list: &'a List) -> Self {
        let (List::Map(keys), Some(Value::Array(list))) = (list, old) else {
            return Self { keys: &[], items: HashMap::new() };
        };
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            items.entry(key(item, keys)).or_insert(item);
        }
        Self { keys, items }
    }

    /// What an item was before.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key(item, self.keys)).copied()
    }
}

fn key(item: &Value, keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        // What is missing is told from what is null.
        let value = item.get(key).map(Value::to_string).unwrap_or_default();
        text.push_str(&value);
        text.push('\0');
    }
    text
}
