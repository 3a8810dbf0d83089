//! Sets of fields, and their algebra.
//!
//! A field and what is below it are separate members: whoever owns `.spec` does not own `.spec.a`. The
//! operations, and the order in which members are told, are those of upstream's structured-merge-diff.

use std::cmp::Ordering;

use super::{
    path::Element,
    shape::{Node, Shape},
};

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In the order of their elements.
    entries: Vec<Entry>,
}

/// One step, and what of it is in the set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    element: Element,
    /// Whether the field itself is.
    member: bool,
    /// What below it is.
    below: FieldSet,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(Entry::is_empty)
    }

    /// Adds a field; the whole object, an empty path, cannot be a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.entry(last).member = true,
            [first, rest @ ..] => self.entry(first).below.insert(rest),
        }
    }

    /// The set of these fields of objects.
    pub fn of_names(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether a field is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has_member(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.has(rest)),
        }
    }

    /// Whether the field one step away is a member.
    pub(super) fn has_member(&self, element: &Element) -> bool {
        self.find(element).is_some_and(|entry| entry.member)
    }

    /// What is below an element.
    pub(super) fn below(&self, element: &Element) -> Option<&Self> {
        self.find(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// Every step with whether it is a member, and what is below it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.entries.iter().map(|entry| (&entry.element, entry.member, &entry.below))
    }

    /// The set of these steps, in whatever order they come; those with nothing in the set are left out.
    pub(super) fn of_steps(mut steps: Vec<(Element, bool, Self)>) -> Self {
        if !steps.is_sorted_by(|left, right| left.0 < right.0) {
            steps.sort_by(|left, right| left.0.cmp(&right.0));
        }
        let mut entries: Vec<Entry> = Vec::with_capacity(steps.len());
        for (element, member, below) in steps {
            if !member && below.is_empty() {
                continue;
            }
            match entries.last_mut().filter(|last| last.element == element) {
                Some(last) => {
                    last.member |= member;
                    last.below = last.below.union(&below);
                }
                None => entries.push(Entry { element, member, below }),
            }
        }
        Self { entries }
    }

    fn find(&self, element: &Element) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.element.cmp(element)).ok()?;
        Some(&self.entries[at])
    }

    fn entry(&mut self, element: &Element) -> &mut Entry {
        // Walks go in order, so the end is where most belong.
        let at = match self.entries.last().map(|last| last.element.cmp(element)) {
            Some(Ordering::Equal) => Ok(self.entries.len() - 1),
            Some(Ordering::Less) | None => Err(self.entries.len()),
            Some(Ordering::Greater) => {
                self.entries.binary_search_by(|entry| entry.element.cmp(element))
            }
        };
        let at = at.unwrap_or_else(|at| {
            let entry = Entry { element: element.clone(), member: false, below: Self::default() };
            self.entries.insert(at, entry);
            at
        });
        &mut self.entries[at]
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        if other.entries.is_empty() {
            return self.clone();
        }
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => {
                (left.member || right.member, left.below.union(&right.below))
            }
            (Some(entry), None) | (None, Some(entry)) => (entry.member, entry.below.clone()),
            (None, None) => (false, Self::default()),
        })
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => {
                (left.member && right.member, left.below.intersection(&right.below))
            }
            _ => (false, Self::default()),
        })
    }

    /// Whether something is in both. Quick when the other is small, as what a write changes is.
    pub fn meets(&self, other: &Self) -> bool {
        other.entries.iter().any(|other| {
            let here = self.find(&other.element);
            here.is_some_and(|e| e.member && other.member || e.below.meets(&other.below))
        })
    }

    /// What is here and not there. Fields below one that is there stay.
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => {
                (left.member && !right.member, left.below.difference(&right.below))
            }
            (Some(left), None) => (left.member, left.below.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// What is here and not there, nor below anything that is there.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.zip(other, |left, right| match (left, right) {
            (Some(_), Some(right)) if right.member => (false, Self::default()),
            (Some(left), Some(right)) => {
                (left.member, left.below.recursive_difference(&right.below))
            }
            (Some(left), None) => (left.member, left.below.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// Only the fields that have none below them in the set.
    pub fn leaves(&self) -> Self {
        let entries = self.entries.iter().map(|entry| Entry {
            element: entry.element.clone(),
            member: entry.member && entry.below.is_empty(),
            below: entry.below.leaves(),
        });
        Self { entries: entries.filter(|entry| !entry.is_empty()).collect() }
    }

    /// The set with all declared fields on the way to a member.
    ///
    /// A field of a struct is there as long as something below it is; the key of a map is not.
    pub(super) fn with_declared_parents(&self, node: Option<&dyn Node>) -> Self {
        let shape = node.map(Node::shape).unwrap_or_default();
        let entries = self.entries.iter().map(|entry| {
            let (below, declared) = descend(&shape, &entry.element);
            let member = entry.member || declared && !entry.below.is_empty();
            let below = entry.below.with_declared_parents(below);
            Entry { element: entry.element.clone(), member, below }
        });
        Self { entries: entries.collect() }
    }

    /// All members, those of one level before those below it.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for entry in self.entries.iter().filter(|entry| entry.member) {
            paths.push(prefix.iter().chain([&entry.element]).cloned().collect());
        }
        for entry in &self.entries {
            prefix.push(entry.element.clone());
            entry.below.collect_paths(prefix, paths);
            prefix.pop();
        }
    }

    /// Walks both sets in order; what `join` makes of each step is the result.
    fn zip(
        &self,
        other: &Self,
        join: impl Fn(Option<&Entry>, Option<&Entry>) -> (bool, Self),
    ) -> Self {
        let (mut left, mut right) = (self.entries.as_slice(), other.entries.as_slice());
        let mut entries = Vec::new();
        loop {
            let order = match (left.first(), right.first()) {
                (None, None) => return Self { entries },
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(l), Some(r)) => l.element.cmp(&r.element),
            };
            let l = if order.is_le() { left.split_off_first() } else { None };
            let r = if order.is_ge() { right.split_off_first() } else { None };
            let (member, below) = join(l, r);
            if let Some(entry) = l.or(r)
                && (member || !below.is_empty())
            {
                entries.push(Entry { element: entry.element.clone(), member, below });
            }
        }
    }
}

/// What stands one step further in a schema, and whether it is a declared field.
fn descend<'a>(shape: &Shape<'a>, element: &Element) -> (Option<&'a dyn Node>, bool) {
    match (element, &shape.map, &shape.list) {
        (Element::Field(name), Some(map), _) => match map.member(name) {
            Some((node, declared)) => (Some(node), declared),
            None => (None, false),
        },
        (Element::Key(_), _, Some(list)) => (Some(list.items), false),
        _ => (None, false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A set from lines like `a.b`.
    fn set(paths: &[&str]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.split('.').map(Element::field).collect::<Vec<_>>());
        }
        set
    }

    fn shown(set: &FieldSet) -> Vec<String> {
        let text = |path: &Vec<Element>| {
            let steps: String = path.iter().map(ToString::to_string).collect();
            steps.trim_start_matches('.').to_owned()
        };
        set.paths().iter().map(text).collect()
    }

    #[test]
    fn the_algebra_is_upstreams() {
        let (a, b) = (set(&["x", "x.y", "x.y.z", "q.r", "s"]), set(&["x", "x.y.z", "q.r", "q.t"]));
        assert_eq!(shown(&a.union(&b)), ["s", "x", "q.r", "q.t", "x.y", "x.y.z"]);
        assert_eq!(shown(&a.intersection(&b)), ["x", "q.r", "x.y.z"]);
        assert_eq!(shown(&a.difference(&b)), ["s", "x.y"]);
        assert_eq!(shown(&b.difference(&a)), ["q.t"]);
        assert_eq!(shown(&a.recursive_difference(&set(&["x"]))), ["s", "q.r"]);
        assert_eq!(shown(&a.recursive_difference(&set(&["x.y", "q.r"]))), ["s", "x"]);
        assert_eq!(shown(&a.leaves()), ["s", "q.r", "x.y.z"]);
        assert!(a.difference(&a).is_empty());
    }

    #[test]
    fn members_are_found() {
        let a = set(&["x.y", "s"]);
        let has = |path: &str| a.has(&path.split('.').map(Element::field).collect::<Vec<_>>());
        assert!(has("s") && has("x.y"));
        assert!(!has("x") && !has("x.y.z") && !has("t"));
        assert!(!a.has(&[]));
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        let path = proptest::collection::vec("[abc]", 1..4).prop_map(|steps| steps.join("."));
        proptest::collection::vec(path, 0..9)
            .prop_map(|paths| set(&paths.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    proptest! {
        #[test]
        fn sets_are_sets(a in any_set(), b in any_set(), c in any_set()) {
            let (ab, ba) = (a.union(&b), b.union(&a));
            prop_assert_eq!(&ab, &ba);
            prop_assert_eq!(ab.union(&c), a.union(&b.union(&c)));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.meets(&b), !a.intersection(&b).is_empty());
            prop_assert_eq!(&a.union(&a), &a);
            let gone = a.recursive_difference(&b);
            prop_assert_eq!(gone.difference(&a), FieldSet::default());
            prop_assert!(gone.intersection(&b).is_empty());
            for path in ab.paths() {
                prop_assert!(a.has(&path) || b.has(&path));
            }
        }
    }
}
