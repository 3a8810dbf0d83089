//! Strategic merge patches: merge patches in which lists of built-in kinds merge too.
//!
//! How a list merges is in the kind's table. A patch may also carry directives: `$patch` to replace or
//! delete, `$retainKeys`, `$deleteFromPrimitiveList/x` and `$setElementOrder/x`. Texts are upstream's.

use std::collections::HashMap;

use serde_json::{Map as Object, Value};

use super::{
    ordering::{Identity, arrange},
    typed::{go_plain, go_type},
};
use crate::{
    field::quoted,
    schema::{Field, Struct, Type},
};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Why a patch is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no such patch.
    #[error("{0}")]
    Malformed(&'static str),
    /// It asks for what cannot be done.
    #[error("{0}")]
    Impossible(&'static str),
    /// It does not fit the object.
    #[error("{0}")]
    Misfit(String),
}

const BAD_DELETE_FROM: Refused = Refused::Malformed("invalid patch format of primitive list");
const BAD_RETAIN_KEYS: Refused = Refused::Malformed("invalid patch format of retainKeys");
const BAD_SET_ORDER: Refused = Refused::Malformed("invalid patch format of setElementOrder list");
const LIST_OF_LISTS: Refused = Refused::Impossible("lists of lists are not supported");

type Fields = Object<String, Value>;

/// Merges a patch into an object of a built-in kind.
///
/// # Errors
/// When the patch is none, or does not fit; the object is then in between and must be thrown away.
pub fn apply(kind: &'static Struct, object: &mut Value, patch: Value) -> Result<(), Refused> {
    if let (Value::Object(fields), Value::Object(patch)) = (object, patch) {
        merge_fields(fields, patch, Place::Struct(kind))?;
    }
    Ok(())
}

/// Where in a kind a value stands.
#[derive(Clone, Copy)]
enum Place {
    Struct(&'static Struct),
    /// A value with no known fields: what Go calls it.
    Other(&'static str),
}

impl Place {
    fn of(ty: &'static Type) -> Self {
        match ty {
            Type::Struct(fields) => Self::Struct(fields),
            Type::Map(_) => Self::Other("map"),
            Type::List(_) | Type::BoxedStrings | Type::Bytes => Self::Other("slice"),
            Type::Bool => Self::Other("bool"),
            Type::Int32 => Self::Other("int32"),
            Type::Int64 => Self::Other("int64"),
            Type::Double => Self::Other("float64"),
            Type::Str(_) => Self::Other("string"),
            Type::Time | Type::MicroTime | Type::IntOrString | Type::Quantity => {
                Self::Other("struct")
            }
            Type::Raw | Type::SchemaOr(..) => Self::Other("struct"),
        }
    }

    fn go_kind(self) -> &'static str {
        match self {
            Self::Struct(_) => "struct",
            Self::Other(kind) => kind,
        }
    }

    fn field(self, name: &str) -> Result<&'static Field, Refused> {
        match self {
            Self::Struct(fields) => fields.field(name).ok_or_else(|| {
                Refused::Misfit(format!(
                    "unable to find api field in struct {} for the json field {}",
                    fields.name,
                    quoted(name)
                ))
            }),
            Self::Other(kind) => Err(Refused::Misfit(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            ))),
        }
    }

    /// A list field, and the place of its items.
    fn list(self, name: &str) -> Result<(&'static Field, Self), Refused> {
        let field = self.field(name)?;
        match &field.ty {
            Type::List(items) => match Self::of(items) {
                Self::Other("slice") => Err(Refused::Misfit("unexpected slice of slice".into())),
                items => Ok((field, items)),
            },
            _ => Err(Refused::Misfit(format!(
                "expected slice or array type, but got: {}",
                self.go_kind()
            ))),
        }
    }
}

fn merge_fields(original: &mut Fields, mut patch: Fields, place: Place) -> Result<(), Refused> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                *original = patch;
                Ok(())
            }
            Some("delete") => {
                original.clear();
                Ok(())
            }
            _ => {
                patch.insert(PATCH.into(), directive.clone());
                Err(unknown_directive(&directive, &patch.into()))
            }
        };
    }
    retain_keys(original, &mut patch)?;
    set_orders(original, &mut patch, place)?;
    for (name, value) in patch {
        merge_field(original, name, value, place)?;
    }
    Ok(())
}

fn merge_field(
    original: &mut Fields,
    name: String,
    value: Value,
    place: Place,
) -> Result<(), Refused> {
    let (name, deletes) = match name.starts_with(DELETE_FROM) {
        true => (directed(&name, DELETE_FROM).ok_or(BAD_DELETE_FROM)?.to_owned(), true),
        false => (name, false),
    };
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    match (original.get_mut(&name), value) {
        (Some(Value::Object(fields)), Value::Object(patch)) => {
            let field = place.field(&name)?;
            merge_fields(fields, patch, Place::of(&field.ty))
        }
        (Some(Value::Array(items)), Value::Array(patch)) => {
            let (field, place) = place.list(&name)?;
            let list = List { field, place };
            let before = std::mem::take(items);
            *items = list.merge(before, patch, deletes)?;
            Ok(())
        }
        (_, _) if deletes => Ok(()),
        (_, value) => {
            match clean(value) {
                Some(value) => original.insert(name, value),
                None => original.remove(&name),
            };
            Ok(())
        }
    }
}

/// Drops all fields but those that `$retainKeys` lists.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Refused> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else { return Err(BAD_RETAIN_KEYS) };
    let keys: std::collections::HashSet<_> = keys.iter().filter_map(Value::as_str).collect();
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !keys.contains(name.as_str()) {
            return Err(BAD_RETAIN_KEYS);
        }
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Merges the lists whose order the patch gives.
fn set_orders(original: &mut Fields, patch: &mut Fields, place: Place) -> Result<(), Refused> {
    let directives: Vec<_> =
        patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(wrong_type("[]interface {}", &other.unwrap_or_default())),
        };
        let name = directed(&directive, SET_ORDER).ok_or(BAD_SET_ORDER)?;
        let items = |value: Option<&Value>| match value {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items.clone())),
            Some(other) => Err(wrong_type("[]interface {}", other)),
        };
        let (before, wanted) = (items(original.get(name))?, items(patch.get(name))?);
        let (field, items) = place.list(name)?;
        let list = List { field, place: items };
        list.check_order(wanted.as_deref().unwrap_or_default(), &order)?;
        let empty = Vec::new();
        let first = before.as_ref().unwrap_or(&empty);
        let kind = element_kind(&[first, wanted.as_ref().unwrap_or(&empty)]);
        let merged = match (before.clone(), wanted) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(wanted)) => wanted.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(wanted)) => list.merge(before, wanted, false)?,
        };
        kind?;
        let identity = list.identity();
        let arranged = arrange(merged, &order, before.as_deref().unwrap_or_default(), identity);
        let arranged = arranged.map_err(|item| list.no_key(&item))?;
        original.insert(name.to_owned(), arranged.into());
        patch.remove(name);
    }
    Ok(())
}

/// A list of a kind.
struct List {
    field: &'static Field,
    place: Place,
}

impl List {
    fn identity(&self) -> Identity {
        self.field.merge.patch_key.map_or(Identity::Value, Identity::Field)
    }

    fn merge(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        deletes: bool,
    ) -> Result<Vec<Value>, Refused> {
        if !self.field.merge.patch_merge && !deletes {
            return Ok(patch);
        }
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        if element_kind(&[&original, &patch])? == "map" {
            return self.merge_objects(original, patch);
        }
        let key = |value: &Value| value.to_string();
        if deletes {
            let gone: std::collections::HashSet<_> = patch.iter().map(key).collect();
            return Ok(original.into_iter().filter(|item| !gone.contains(&key(item))).collect());
        }
        let mut seen = std::collections::HashSet::new();
        let both = original.iter().chain(&patch).filter(|item| seen.insert(key(item)));
        let both = both.cloned().collect();
        arrange(both, &patch, &original, self.identity()).map_err(|item| self.no_key(&item))
    }

    fn merge_objects(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<Vec<Value>, Refused> {
        let Some(key) = self.field.merge.patch_key else {
            let kind = self.place.go_kind();
            return Err(Refused::Misfit(format!(
                "cannot merge lists without merge key for {kind}"
            )));
        };
        let identity = Identity::Field(key);
        let (original, patch) = self.directives(original, patch, identity)?;
        let mut at: HashMap<String, usize> = HashMap::new();
        for (index, item) in original.iter().enumerate() {
            if let Some(key) = identity.of(item) {
                at.entry(key).or_insert(index);
            }
        }
        let mut merged = original.clone();
        for item in &patch {
            let key = identity.of(item).ok_or_else(|| self.no_key(item))?;
            let found = at.get(&key).and_then(|index| merged.get_mut(*index));
            match (found, item) {
                (Some(Value::Object(found)), Value::Object(item)) => {
                    merge_fields(found, item.clone(), self.place)?;
                }
                _ => {
                    at.insert(key, merged.len());
                    merged.push(item.clone());
                }
            }
        }
        arrange(merged, &patch, &original, identity).map_err(|item| self.no_key(&item))
    }

    /// Carries out the directives among the items of a patch; what is left are items.
    fn directives(
        &self,
        mut original: Vec<Value>,
        patch: Vec<Value>,
        identity: Identity,
    ) -> Result<(Vec<Value>, Vec<Value>), Refused> {
        let mut items = Vec::with_capacity(patch.len());
        let mut gone = std::collections::HashSet::new();
        let mut replaces = false;
        for item in patch {
            match item.get(PATCH).map(|directive| (directive, directive.as_str())) {
                None => items.push(item),
                Some((_, Some("delete"))) => {
                    gone.insert(identity.of(&item).ok_or_else(|| self.no_key(&item))?);
                }
                Some((_, Some("replace"))) => replaces = true,
                Some((_, Some("merge"))) => {
                    let text = "merging lists cannot yet be specified in the patch";
                    return Err(Refused::Misfit(text.into()));
                }
                Some((directive, _)) => return Err(unknown_directive(directive, &item)),
            }
        }
        if replaces {
            return Ok((items, Vec::new()));
        }
        original.retain(|item| identity.of(item).is_none_or(|key| !gone.contains(&key)));
        Ok((original, items))
    }

    /// The items of a patch must come in the order that it gives.
    fn check_order(&self, patch: &[Value], order: &[Value]) -> Result<(), Refused> {
        let identity = self.identity();
        if patch.is_empty() || order.is_empty() {
            return Ok(());
        }
        let key = |item: &Value| identity.of(item).ok_or_else(|| self.no_key(item));
        let mut order_keys = order.iter();
        for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
            let wanted = key(item)?;
            loop {
                let Some(next) = order_keys.next() else {
                    let (patch, order) = (patch.to_vec().into(), order.to_vec().into());
                    return Err(Refused::Misfit(format!(
                        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                        go_plain(&patch),
                        go_plain(&order)
                    )));
                };
                if key(next)? == wanted {
                    break;
                }
            }
        }
        Ok(())
    }

    fn no_key(&self, item: &Value) -> Refused {
        let key = self.field.merge.patch_key.unwrap_or_default();
        let item = go_plain(item);
        Refused::Misfit(format!("map: {item} does not contain declared merge key: {key}"))
    }
}

/// What all items of some lists are, in Go's words.
fn element_kind(lists: &[&Vec<Value>]) -> Result<&'static str, Refused> {
    let mut found = None;
    for item in lists.iter().copied().flatten() {
        let kind = match item {
            Value::Array(_) if found.is_none() => return Err(LIST_OF_LISTS),
            Value::Object(_) => "map",
            Value::Number(number) if !number.is_f64() => "int64",
            other => go_type(other),
        };
        if *found.get_or_insert(kind) != kind {
            let lists: Vec<_> = lists.iter().map(|list| Value::from((*list).clone())).collect();
            let lists = go_plain(&lists.into());
            return Err(Refused::Misfit(format!("list element types are not identical: {lists}")));
        }
    }
    found.ok_or_else(|| Refused::Misfit("no elements in any of the given slices".into()))
}

/// The field that a directive is about.
fn directed<'a>(name: &'a str, directive: &str) -> Option<&'a str> {
    name.split_once('/').filter(|(prefix, _)| *prefix == directive).map(|(_, field)| field)
}

/// A value of a patch where there was none to merge with: without nulls, and what is left of it without
/// directives.
fn clean(mut value: Value) -> Option<Value> {
    discard_nulls(&mut value);
    without_directives(value)
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(fields) if fields.contains_key(PATCH) => return None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(k, v)| Some((k, without_directives(v)?)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.into_iter().filter_map(without_directives).collect(),
        other => other,
    })
}

fn unknown_directive(directive: &Value, patch: &Value) -> Refused {
    let (directive, patch) = (go_plain(directive), go_plain(patch));
    Refused::Misfit(format!("unknown patch type: {directive} in map: {patch}"))
}

fn wrong_type(expected: &str, found: &Value) -> Refused {
    Refused::Misfit(format!("expected a {expected}, but received a {}", go_type(found)))
}

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;
