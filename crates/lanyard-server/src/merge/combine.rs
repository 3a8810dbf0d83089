//! A tree merged into another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map as Object, Value};

use super::{
    path::Element,
    shape::{List, ListKind, Map, Node},
    typed::{Form, Problems, Step, fields, items, zip},
};

/// The tree `base` with all that `over` says: it wins where both speak, and lists take its order.
///
/// # Errors
/// When a value fits neither its type nor the other tree.
pub fn merge(node: &dyn Node, base: &Value, over: &Value) -> Result<Value, Problems> {
    let mut walk = Merge { path: Vec::new(), problems: Problems::default() };
    let merged = walk.visit(node, Some(base), Some(over));
    walk.problems.or(merged.unwrap_or(Value::Null))
}

struct Merge<'a> {
    path: Vec<Step<'a>>,
    problems: Problems,
}

impl<'a> Merge<'a> {
    fn visit(
        &mut self,
        node: &dyn Node,
        base: Option<&'a Value>,
        over: Option<&'a Value>,
    ) -> Option<Value> {
        let shape = node.shape();
        match (base, over) {
            (Some(_), Some(_)) => {
                let (was, is) = (shape.clone().form(base), shape.form(over));
                if !was.is_like(&is) {
                    self.visit_form(&was, base, over);
                }
                self.visit_form(&is, base, over)
            }
            (base, over) => self.visit_form(&shape.form(over.or(base)), base, over),
        }
    }

    fn visit_form(
        &mut self,
        form: &Form<'_>,
        base: Option<&'a Value>,
        over: Option<&'a Value>,
    ) -> Option<Value> {
        let winner = || over.or(base).cloned();
        match form {
            Form::Scalar(scalar) => {
                if let (Some(left), Some(right)) = (scalar.problem(base), scalar.problem(over)) {
                    self.problems.add(&self.path, format!("lhs: {left}"));
                    self.problems.add(&self.path, format!("rhs: {right}"));
                    return None;
                }
                winner()
            }
            Form::Nothing => winner(),
            Form::Map(map) => {
                let (base_fields, over_fields) = (fields(base), fields(over));
                if map.atomic || base_fields.is_none() && over_fields.is_none() {
                    return winner();
                }
                self.visit_fields(map, base_fields, over_fields)
            }
            Form::List(list) => {
                let (base_items, over_items) = (items(base), items(over));
                if list.kind == ListKind::Atomic || base_items.is_empty() && over_items.is_empty() {
                    return winner();
                }
                self.visit_items(list, base_items, over_items)
            }
        }
    }

    fn visit_fields(
        &mut self,
        map: &Map<'_>,
        base: Option<&'a Object<String, Value>>,
        over: Option<&'a Object<String, Value>>,
    ) -> Option<Value> {
        let mut merged = Object::new();
        zip(base, over, |name, left, right| {
            let Some((node, _)) = map.member(name) else {
                // Stored before the schema forgot it: it stays as it is.
                merged.extend(right.or(left).map(|value| (name.to_owned(), value.clone())));
                return;
            };
            self.path.push(Step::Field(name));
            let value = self.visit(node, left, right);
            self.path.pop();
            merged.extend(value.map(|value| (name.to_owned(), value)));
        });
        (!merged.is_empty()).then_some(Value::Object(merged))
    }

    /// Items of both keep the order of `over`, and those of `base` alone stay where they were between
    /// them. Items that are more than once in `base` do not merge: they are replaced.
    fn visit_items(
        &mut self,
        list: &List<'_>,
        base: &'a [Value],
        over: &'a [Value],
    ) -> Option<Value> {
        let wanted = self.index(list, over, false)?;
        let present = self.index(list, base, true)?;
        let mut shared =
            wanted.order.iter().filter(|(element, _)| present.by.contains_key(element));
        let mut next = shared.next();
        let mut taken = BTreeSet::new();
        let mut merged = Vec::with_capacity(base.len().max(over.len()));
        let (mut left, mut right) = (0, 0);
        while left < present.order.len() || right < wanted.order.len() {
            let want = wanted.order.get(right).map(|(element, _)| element);
            if let Some((element, item)) = present.order.get(left) {
                let in_both = wanted.by.contains_key(element);
                if want != Some(element) {
                    let later = next.is_some_and(|(next, _)| next != element);
                    if want.is_some() && in_both && later {
                        left += 1;
                        continue;
                    }
                    if !in_both {
                        merged.extend(self.visit_item(list, element, Some(item), None));
                        left += 1;
                        continue;
                    }
                    if taken.contains(element) {
                        left += 1;
                    }
                } else {
                    left += 1;
                }
            }
            if let Some(element) = want {
                taken.insert(element);
                let (base, over) = (present.get(element), wanted.get(element));
                merged.extend(self.visit_item(list, element, base, over));
                right += 1;
                if next.is_some_and(|(next, _)| next == element) {
                    next = shared.next();
                }
            }
        }
        (!merged.is_empty()).then_some(Value::Array(merged))
    }

    fn visit_item(
        &mut self,
        list: &List<'_>,
        element: &Element,
        base: Option<&'a Value>,
        over: Option<&'a Value>,
    ) -> Option<Value> {
        self.path.push(Step::Item(element.clone()));
        let merged = self.visit(list.items, base, over);
        self.path.pop();
        merged
    }

    /// The items by their elements; nothing when one has none.
    fn index(
        &mut self,
        list: &List<'_>,
        items: &'a [Value],
        may_repeat: bool,
    ) -> Option<Index<'a>> {
        let mut index = Index { order: Vec::with_capacity(items.len()), by: BTreeMap::new() };
        let mut fine = true;
        for (at, item) in items.iter().enumerate() {
            match list.element(item) {
                Err(why) => {
                    self.problems.add(&self.path, format!("element {at}: {why}"));
                    fine = false;
                }
                Ok(element) if index.by.contains_key(&element) && !may_repeat => {
                    self.problems.add(&self.path, format!("duplicate entries for key {element}"));
                    fine = false;
                }
                Ok(element) => {
                    let repeated = index.by.contains_key(&element);
                    index.by.insert(element.clone(), (!repeated).then_some(item));
                    index.order.push((element, item));
                }
            }
        }
        fine.then_some(index)
    }
}

/// The items of a list by their elements.
struct Index<'a> {
    order: Vec<(Element, &'a Value)>,
    /// Nothing for those that are there more than once.
    by: BTreeMap<Element, Option<&'a Value>>,
}

impl<'a> Index<'a> {
    fn get(&self, element: &Element) -> Option<&'a Value> {
        self.by.get(element).copied().flatten()
    }
}
