//! Walks over one tree: whether it fits its schema, which fields it has, and the tree without some.

use serde_json::{Map as Object, Value};

use super::{
    path::Element,
    set::FieldSet,
    shape::{List, ListKind, Map, Node},
    typed::{Form, Problems, Step, go_value},
};

/// Checks a tree that a client wants applied: only declared fields, values of their types, and no two
/// items of a list that are the same to it.
///
/// # Errors
/// With what is wrong.
pub fn validate(node: &dyn Node, value: &Value) -> Result<(), Problems> {
    let mut walk = Validation { path: Vec::new(), problems: Problems::default() };
    walk.visit(node, value);
    walk.problems.or(())
}

struct Validation<'a> {
    path: Vec<Step<'a>>,
    problems: Problems,
}

impl<'a> Validation<'a> {
    fn visit(&mut self, node: &dyn Node, value: &'a Value) {
        match node.shape().form(Some(value)) {
            Form::Scalar(scalar) => {
                if let Some(problem) = scalar.problem(Some(value)) {
                    self.problems.add(&self.path, problem);
                }
            }
            Form::Map(map) => self.visit_map(&map, value),
            Form::List(list) => self.visit_list(&list, value),
            Form::Nothing => self.problems.add(&self.path, "schema error: invalid atom: inlined"),
        }
    }

    fn visit_map(&mut self, map: &Map<'_>, value: &'a Value) {
        let fields = match value {
            Value::Null => return,
            Value::Object(fields) => fields,
            other => {
                return self
                    .problems
                    .add(&self.path, format!("expected map, got {}", go_value(other)));
            }
        };
        for (name, value) in fields {
            self.path.push(Step::Field(name));
            match map.member(name) {
                Some((node, _)) => self.visit(node, value),
                None => self.problems.add(&self.path, "field not declared in schema"),
            }
            self.path.pop();
            if map.member(name).is_none() {
                return;
            }
        }
    }

    fn visit_list(&mut self, list: &List<'_>, value: &'a Value) {
        let items = match value {
            Value::Null => return,
            Value::Array(items) => items,
            other => {
                return self
                    .problems
                    .add(&self.path, format!("expected list, got {}", go_value(other)));
            }
        };
        let mut seen = std::collections::BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let element = match list.kind {
                ListKind::Atomic => Element::Index(at as i64),
                _ => match list.element(item) {
                    Ok(element) => element,
                    Err(why) => {
                        return self.problems.add(&self.path, format!("element {at}: {why}"));
                    }
                },
            };
            if list.kind != ListKind::Atomic && !seen.insert(element.clone()) {
                self.problems.add(&self.path, format!("duplicate entries for key {element}"));
            }
            self.path.push(Step::Item(element));
            self.visit(list.items, item);
            self.path.pop();
        }
    }
}

/// The fields that a tree has: its leaves, the items of its lists and the keys of its maps.
pub fn field_set(node: &dyn Node, value: &Value) -> FieldSet {
    fields_below(node, value).0
}

/// The fields below a value, and whether the value itself is one.
fn fields_below(node: &dyn Node, value: &Value) -> (FieldSet, bool) {
    match node.shape().form(Some(value)) {
        Form::Scalar(_) | Form::Nothing => (FieldSet::default(), true),
        Form::Map(map) if map.atomic => (FieldSet::default(), true),
        Form::List(list) if list.kind == ListKind::Atomic => (FieldSet::default(), true),
        Form::Map(map) => {
            let fields = value.as_object().into_iter().flatten();
            let steps = fields.filter_map(|(name, value)| {
                let (node, declared) = map.member(name)?;
                let (below, member) = fields_below(node, value);
                let empty = value.is_null() || value.as_object().is_some_and(Object::is_empty);
                Some((Element::field(name), member || empty || !declared, below))
            });
            (FieldSet::of_steps(steps.collect()), false)
        }
        Form::List(list) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            (fields_of_items(&list, items), false)
        }
    }
}

/// Items that are there more than once are one field, with nothing known below it.
fn fields_of_items(list: &List<'_>, items: &[Value]) -> FieldSet {
    let mut found: Vec<_> =
        items.iter().filter_map(|item| Some((list.element(item).ok()?, item))).collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    let step = |same: &[(Element, &Value)]| match same {
        [(element, item)] => (element.clone(), true, fields_below(list.items, item).0),
        _ => (same[0].0.clone(), true, FieldSet::default()),
    };
    FieldSet::of_steps(found.chunk_by(|left, right| left.0 == right.0).map(step).collect())
}

/// The tree without some fields; what they leave empty becomes null.
pub fn without(node: &dyn Node, value: &Value, gone: &FieldSet) -> Value {
    match node.shape().form(Some(value)) {
        Form::Scalar(_) | Form::Nothing => value.clone(),
        Form::Map(map) => match value {
            Value::Object(fields) if !map.atomic => {
                let kept: Object<_, _> = fields
                    .iter()
                    .filter_map(|(name, value)| {
                        let element = Element::field(name);
                        if gone.has_member(&element) {
                            return None;
                        }
                        let value = match (gone.below(&element), map.member(name)) {
                            (Some(below), Some((node, _))) => without(node, value, below),
                            _ => value.clone(),
                        };
                        Some((name.clone(), value))
                    })
                    .collect();
                if kept.is_empty() { Value::Null } else { Value::Object(kept) }
            }
            _ => Value::Null,
        },
        Form::List(list) => match value {
            Value::Array(items) if list.kind != ListKind::Atomic => {
                let kept: Vec<_> = items
                    .iter()
                    .filter_map(|item| {
                        let Ok(element) = list.element(item) else { return Some(item.clone()) };
                        if gone.has_member(&element) {
                            return None;
                        }
                        Some(match gone.below(&element) {
                            Some(below) => without(list.items, item, below),
                            None => item.clone(),
                        })
                    })
                    .collect();
                if kept.is_empty() { Value::Null } else { Value::Array(kept) }
            }
            _ => Value::Null,
        },
    }
}

/// Brings a set that was made when the schema was another in line with today's: of a list or object
/// that has become one value, its owner owns all. Nothing when it is in line already.
pub fn reconcile(node: &dyn Node, set: &FieldSet) -> Option<FieldSet> {
    match outdated(node, set, false) {
        Outdated::No => None,
        Outdated::Below => Some(reconciled(node, set)),
        Outdated::Itself => Some(FieldSet::default()),
    }
}

/// What of a set is not as today's schema has it.
#[derive(PartialEq, Eq)]
enum Outdated {
    No,
    Below,
    Itself,
}

fn outdated(node: &dyn Node, below: &FieldSet, leaf: bool) -> Outdated {
    match node.shape().form(None) {
        Form::Map(map) if map.free => return Outdated::No,
        Form::Map(map) if map.atomic && !leaf && !below.is_empty() => return Outdated::Itself,
        Form::List(list) if list.kind == ListKind::Atomic && !leaf => return Outdated::Itself,
        _ => {}
    }
    let mut steps = below.steps();
    let changed = steps.any(|(element, member, below)| {
        let leaf = member && below.is_empty();
        step(node, element).is_some_and(|node| outdated(node, below, leaf) != Outdated::No)
    });
    if changed { Outdated::Below } else { Outdated::No }
}

fn reconciled(node: &dyn Node, below: &FieldSet) -> FieldSet {
    let steps = below.steps().map(|(element, member, below)| {
        let leaf = member && below.is_empty();
        let inner = step(node, element);
        match inner.map(|node| (node, outdated(node, below, leaf))) {
            Some((_, Outdated::Itself)) => (element.clone(), true, FieldSet::default()),
            Some((node, Outdated::Below)) => (element.clone(), member, reconciled(node, below)),
            _ => (element.clone(), member, below.clone()),
        }
    });
    FieldSet::of_steps(steps.collect())
}

/// What stands one step further.
fn step<'a>(node: &'a dyn Node, element: &Element) -> Option<&'a dyn Node> {
    match (node.shape().form(None), element) {
        (Form::Map(map), Element::Field(name)) => map.member(name).map(|(node, _)| node),
        (Form::Map(map), _) => map.fields.others(),
        (Form::List(list), _) => Some(list.items),
        _ => None,
    }
}
