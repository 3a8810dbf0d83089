//! What differs between two trees.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    path::{Element, same},
    set::FieldSet,
    shape::{List, ListKind, Node},
    typed::{Form, Problems, Step, fields, items, zip},
};

/// What differs between two trees. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Only in the old tree.
    pub removed: FieldSet,
    /// In both, with other values.
    pub modified: FieldSet,
    /// Only in the new tree.
    pub added: FieldSet,
}

impl Comparison {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Leaves out these fields and all below them.
    pub fn exclude(&mut self, fields: &FieldSet) {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            if !set.is_empty() {
                *set = set.recursive_difference(fields);
            }
        }
    }
}

/// Compares two trees.
///
/// # Errors
/// When an item of a list cannot be told from others, or a value fits its type in neither tree.
pub fn compare(node: &dyn Node, old: &Value, new: &Value) -> Result<Comparison, Problems> {
    let mut walk =
        Compare { path: Vec::new(), problems: Problems::default(), found: Comparison::default() };
    walk.visit(node, Some(old), Some(new));
    walk.problems.or(walk.found)
}

struct Compare<'a> {
    path: Vec<Step<'a>>,
    problems: Problems,
    found: Comparison,
}

impl<'a> Compare<'a> {
    fn visit(&mut self, node: &dyn Node, old: Option<&'a Value>, new: Option<&'a Value>) {
        let shape = node.shape();
        let leaf = match (old, new) {
            (Some(_), Some(_)) => {
                let (was, is) = (shape.clone().form(old), shape.form(new));
                if !was.is_like(&is) {
                    self.visit_form(&was, old, new);
                }
                self.visit_form(&is, old, new)
            }
            (old, new) => self.visit_form(&shape.form(new.or(old)), old, new),
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&Step::path(&self.path)),
                (_, None) => self.found.removed.insert(&Step::path(&self.path)),
                _ => {}
            }
        }
    }

    /// Says whether the value was taken as one.
    fn visit_form(
        &mut self,
        form: &Form<'_>,
        old: Option<&'a Value>,
        new: Option<&'a Value>,
    ) -> bool {
        match form {
            Form::Scalar(scalar) => {
                if let (Some(left), Some(right)) = (scalar.problem(old), scalar.problem(new)) {
                    self.problems.add(&self.path, format!("lhs: {left}"));
                    self.problems.add(&self.path, format!("rhs: {right}"));
                    return false;
                }
                self.leaf(old, new)
            }
            Form::Nothing => self.leaf(old, new),
            Form::Map(map) => {
                let (old_fields, new_fields) = (fields(old), fields(new));
                if map.atomic || old_fields.is_none() && new_fields.is_none() {
                    return self.leaf(old, new);
                }
                zip(old_fields, new_fields, |name, old, new| {
                    // What the schema does not know, nobody owns.
                    if let Some((node, _)) = map.member(name) {
                        self.path.push(Step::Field(name));
                        self.visit(node, old, new);
                        self.path.pop();
                    }
                });
                false
            }
            Form::List(list) => {
                let (old_items, new_items) = (items(old), items(new));
                if list.kind == ListKind::Atomic || old_items.is_empty() && new_items.is_empty() {
                    return self.leaf(old, new);
                }
                self.visit_items(list, old_items, new_items);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&'a Value>, new: Option<&'a Value>) -> bool {
        let set = match (old, new) {
            (None, _) => &mut self.found.added,
            (_, None) => &mut self.found.removed,
            (Some(old), Some(new)) if !same(old, new) => &mut self.found.modified,
            _ => return true,
        };
        set.insert(&Step::path(&self.path));
        true
    }

    fn visit_items(&mut self, list: &List<'_>, old: &'a [Value], new: &'a [Value]) {
        if old == new {
            return;
        }
        let mut by: BTreeMap<Element, [Vec<&'a Value>; 2]> = BTreeMap::new();
        for (side, list_items) in [old, new].into_iter().enumerate() {
            for (at, item) in list_items.iter().enumerate() {
                match list.element(item) {
                    Ok(element) => by.entry(element).or_default()[side].push(item),
                    Err(why) => self.problems.add(&self.path, format!("element {at}: {why}")),
                }
            }
        }
        for (element, [old, new]) in by {
            self.path.push(Step::Item(element));
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.visit(list.items, old.first().copied(), new.first().copied());
                }
                ([_, _, ..], [_, _, ..]) => {
                    let equal =
                        old.len() == new.len() && old.iter().zip(&new).all(|(o, n)| same(o, n));
                    if !equal {
                        self.found.modified.insert(&Step::path(&self.path));
                    }
                }
                // No longer there more than once.
                (_, [] | [_]) => {
                    if let Some(item) = new.first() {
                        self.visit(list.items, None, Some(item));
                    }
                    self.found.removed.insert(&Step::path(&self.path));
                }
                // Now there more than once.
                _ => {
                    if let Some(item) = old.first() {
                        self.visit(list.items, Some(item), None);
                    }
                    self.found.added.insert(&Step::path(&self.path));
                }
            }
            self.path.pop();
        }
    }
}
