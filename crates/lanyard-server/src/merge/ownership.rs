//! What a write does to the ownership of fields, and what an applied configuration does to an object.
//!
//! A write by anything but apply takes the fields that it changes from their owners. An apply owns all
//! that it says, conflicts where somebody else wants another value, and takes away what it said last
//! time and no longer says, unless somebody else owns it too.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::LazyLock,
};

use serde_json::Value;

use super::{
    combine::merge,
    compare::{Comparison, compare},
    managers::{Manager, Managers, Operation, Owned},
    path::Element,
    set::FieldSet,
    shape::Node,
    typed::Problems,
    walk::{field_set, reconcile, without},
};

/// The group versions of a type.
pub trait Versions {
    /// The schema of a version; nothing when there is no such version.
    fn node(&self, api_version: &str) -> Option<&dyn Node>;

    /// An object of one version in the form of another, both of which are there.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Value;
}

/// Who writes, and where.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The name of the manager.
    pub name: &'a str,
    /// The version that is spoken.
    pub api_version: &'a str,
    /// The subresource that is written to, or empty.
    pub subresource: &'a str,
    /// The time, in RFC 3339; nothing where none is kept.
    pub now: Option<&'a str>,
    /// The fields that this way of writing cannot change, whatever it says.
    pub reset: &'a FieldSet,
}

/// What nobody owns: it says what the object is, or the server decides it.
static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// What an apply comes to.
pub struct Applied {
    /// The merged object; nothing when it is what is there already.
    pub object: Option<Value>,
    /// Who owns what then.
    pub managers: Managers,
}

/// Why an apply is refused.
#[derive(Debug)]
pub enum Refused {
    /// Others own what it wants to change.
    Conflicts(Vec<Conflict>),
    /// The object and the configuration do not go together.
    Misfit(Problems),
}

/// A field that somebody else wants to have another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who.
    pub manager: Manager,
    /// The field.
    pub path: Vec<Element>,
}

impl Conflict {
    /// The field, as messages show it.
    pub fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }
}

/// At most this many conflicts of one apply are told of: enough to see what is wrong.
pub const MAX_CONFLICTS: usize = 1000;

/// One line for one, a list by managers for several.
pub struct Conflicts<'a>(pub &'a [Conflict]);

impl fmt::Display for Conflicts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = &self.0[..self.0.len().min(MAX_CONFLICTS)];
        if let [only] = conflicts {
            let (manager, field) = (&only.manager, only.field());
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {field}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let by_manager = conflicts.chunk_by(|left, right| left.manager == right.manager);
        for (at, chunk) in by_manager.enumerate() {
            let line = if at == 0 { "" } else { "\n" };
            write!(f, "{line}conflicts with {}:", chunk[0].manager)?;
            chunk.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field()))?;
        }
        Ok(())
    }
}

/// Who owns what after `old` became `new` by anything but an apply; both are in the writer's version.
///
/// # Errors
/// When the trees cannot be compared: nobody can be told to own anything then.
pub fn update(
    versions: &dyn Versions,
    old: &Value,
    new: &Value,
    managers: Managers,
    writer: Writer<'_>,
) -> Result<Managers, Problems> {
    let Some(node) = versions.node(writer.api_version) else { return Ok(managers) };
    let comparison = compare(node, old, new)?;
    let mut managers = managers.reconciled(versions);
    let mut changes = Changes { versions, writer, old, new, by_version: BTreeMap::new() };
    let mut mine = comparison.modified.union(&comparison.added);
    changes.by_version.insert(writer.api_version.into(), comparison);
    if let Some(own) = changes.by_version.get_mut(writer.api_version) {
        own.exclude(writer.reset);
    }
    changes.take_from(&mut managers, None)?;
    mine = mine.recursive_difference(writer.reset).difference(&UNOWNED);
    if !mine.is_empty() {
        let Writer { name, api_version, subresource, now, .. } = writer;
        let manager = Manager::new(name, Operation::Update, api_version, subresource);
        if let Some(previous) = managers.0.get(&manager) {
            mine = mine.union(&previous.set);
        }
        let owned = Owned { set: mine, api_version: api_version.into(), time: now.map(Into::into) };
        managers.0.insert(manager, owned);
    }
    managers.cap();
    Ok(managers)
}

/// Applies a configuration; `old` and `config` are in the writer's version and without entries.
///
/// # Errors
/// When others own what it changes and `force` is not set, or the trees do not go together.
pub fn apply(
    versions: &dyn Versions,
    old: &Value,
    config: &Value,
    managers: Managers,
    writer: Writer<'_>,
    force: bool,
) -> Result<Applied, Refused> {
    let Some(node) = versions.node(writer.api_version) else {
        return Ok(Applied { object: None, managers });
    };
    let mut managers = managers.reconciled(versions);
    let merged = merge(node, old, config).map_err(Refused::Misfit)?;
    let set = field_set(node, config).recursive_difference(writer.reset);
    let me = Manager::new(writer.name, Operation::Apply, writer.api_version, writer.subresource);
    let owned = Owned { set, api_version: writer.api_version.into(), time: None };
    let last = managers.0.insert(me.clone(), owned);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let pruned = match &last {
        Some(last) => prune(versions, &merged, &managers, &me, last),
        None => None,
    };
    let new = pruned.unwrap_or(merged);
    let comparison = compare(node, old, &new).map_err(Refused::Misfit)?;
    let unchanged = *old == new;
    let mut changes = Changes { versions, writer, old, new: &new, by_version: BTreeMap::new() };
    changes.by_version.insert(writer.api_version.into(), comparison);
    if let Some(own) = changes.by_version.get_mut(writer.api_version) {
        own.exclude(writer.reset);
    }
    let conflicts = changes.conflicts(&managers, &me).map_err(Refused::Misfit)?;
    if !conflicts.is_empty() && !force {
        return Err(Refused::Conflicts(conflicts));
    }
    changes.take_from(&mut managers, Some(&me)).map_err(Refused::Misfit)?;
    if let Some(mine) = managers.0.get_mut(&me) {
        mine.set = mine.set.difference(&UNOWNED);
        mine.time = if unchanged { time } else { writer.now.map(Into::into) };
        if mine.set.is_empty() {
            managers.0.remove(&me);
        }
    }
    Ok(Applied { object: (!unchanged).then_some(new), managers })
}

/// What differs between two trees, in each version that somebody names their fields in.
struct Changes<'a> {
    versions: &'a dyn Versions,
    writer: Writer<'a>,
    old: &'a Value,
    new: &'a Value,
    by_version: BTreeMap<String, Comparison>,
}

impl Changes<'_> {
    /// The differences in one version; nothing when there is no such version.
    fn in_version(&mut self, api_version: &str) -> Result<Option<&Comparison>, Problems> {
        let Some(node) = self.versions.node(api_version) else { return Ok(None) };
        if !self.by_version.contains_key(api_version) {
            let convert =
                |object| self.versions.convert(object, self.writer.api_version, api_version);
            let mut found = compare(node, &convert(self.old), &convert(self.new))?;
            found.exclude(self.writer.reset);
            self.by_version.insert(api_version.into(), found);
        }
        Ok(self.by_version.get(api_version))
    }

    /// The fields of others that change, by manager in upstream's order.
    fn conflicts(&mut self, managers: &Managers, me: &Manager) -> Result<Vec<Conflict>, Problems> {
        let mut others: Vec<_> = managers.0.iter().filter(|(other, _)| *other != me).collect();
        others.sort_by_cached_key(|(other, _)| other.sort_key());
        let mut conflicts = Vec::new();
        for (manager, owned) in others {
            let Some(changes) = self.in_version(&owned.api_version)? else { continue };
            if !owned.set.meets(&changes.modified) && !owned.set.meets(&changes.added) {
                continue;
            }
            let changed = changes.modified.union(&changes.added);
            for path in owned.set.intersection(&changed).paths() {
                conflicts.push(Conflict { manager: manager.clone(), path });
            }
        }
        Ok(conflicts)
    }

    /// Takes what changes from all who own it, but for one; who owns nothing any more is forgotten.
    fn take_from(
        &mut self,
        managers: &mut Managers,
        but: Option<&Manager>,
    ) -> Result<(), Problems> {
        let mut failure = None;
        managers.0.retain(|manager, owned| {
            if failure.is_some() || Some(manager) == but {
                return true;
            }
            match self.in_version(&owned.api_version) {
                Err(problems) => failure = Some(problems),
                Ok(None) => return false,
                Ok(Some(changes)) => {
                    for gone in [&changes.modified, &changes.added, &changes.removed] {
                        if owned.set.meets(gone) {
                            owned.set = owned.set.difference(gone);
                        }
                    }
                }
            }
            !owned.set.is_empty()
        });
        failure.map_or(Ok(()), Err)
    }
}

impl Managers {
    /// Fits the sets to today's schemas, and forgets those in versions that are gone.
    fn reconciled(mut self, versions: &dyn Versions) -> Self {
        self.0.retain(|_, owned| match versions.node(&owned.api_version) {
            Some(node) => {
                if let Some(set) = reconcile(node, &owned.set) {
                    owned.set = set;
                }
                true
            }
            None => false,
        });
        self
    }
}

/// The merged object without what its applier said last time and says no longer, and nobody else owns;
/// nothing when that is all of it.
fn prune(
    versions: &dyn Versions,
    merged: &Value,
    managers: &Managers,
    me: &Manager,
    last: &Owned,
) -> Option<Value> {
    let mine = managers.0.get(me)?;
    let same_version = mine.api_version == last.api_version;
    if last.set.is_empty() || same_version && last.set.difference(&mine.set).is_empty() {
        return None;
    }
    let node = versions.node(&last.api_version)?;
    let convert = |object: &Value, from: &str, to: &str| match from == to {
        true => object.clone(),
        false => versions.convert(object, from, to),
    };
    let merged = convert(merged, &mine.api_version, &last.api_version);
    let last_set = last.set.with_declared_parents(Some(node));
    let mut pruned = without(node, &merged, &last_set);
    let mut pruned_version = last.api_version.as_str();
    // What was pruned is first given back in its own version: others may not be had without it.
    let own = BTreeSet::from([last.api_version.as_str()]);
    let all: BTreeSet<_> = managers.0.values().map(|owned| owned.api_version.as_str()).collect();
    for version in own.iter().chain(all.difference(&own)) {
        let Some(node) = versions.node(version) else { continue };
        let sets = managers.0.values().filter(|owned| owned.api_version == *version);
        let owned = sets.fold(FieldSet::default(), |all, owned| all.union(&owned.set));
        let here = convert(&merged, &last.api_version, version);
        let left = convert(&pruned, pruned_version, version);
        let full = |set: &FieldSet| set.with_declared_parents(Some(node));
        let keep = full(&field_set(node, &left)).union(&full(&owned));
        pruned = without(node, &here, &full(&field_set(node, &here)).difference(&keep));
        pruned_version = version;
    }
    let left = convert(&pruned, pruned_version, &last.api_version);
    let full = |object: &Value| field_set(node, object).with_declared_parents(Some(node));
    let gone = full(&merged).difference(&full(&left)).intersection(&last_set);
    let pruned = without(node, &merged, &gone);
    Some(convert(&pruned, &last.api_version, &mine.api_version))
}
