//! What models and fields are for, in a sentence each, as `kubectl explain` shows it.
//!
//! The texts are in `schema/descriptions.txt`: a line that does not begin with a space is a model and
//! its text, the lines below it are its fields.

use std::collections::HashMap;

use super::schemas::OBJECT_META;
use crate::schema::{Field, Struct, Type};

static TEXTS: &str = include_str!("../schema/descriptions.txt");

/// The texts, looked up while documents are made.
pub(super) struct Descriptions {
    models: HashMap<&'static str, &'static str>,
    fields: HashMap<(&'static str, &'static str), &'static str>,
}

impl Descriptions {
    /// Reads the file.
    pub(super) fn read() -> Self {
        let (mut models, mut fields) = (HashMap::new(), HashMap::new());
        let mut model = "";
        for line in TEXTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, text) = line.trim_start().split_once(' ').unwrap_or((line.trim(), ""));
            match line.starts_with(' ') {
                true => {
                    fields.insert((model, name), text);
                }
                false => {
                    model = name;
                    models.insert(name, text);
                }
            }
        }
        Self { models, fields }
    }

    /// What a model is for.
    pub(super) fn of_model(&self, model: &str) -> Option<&'static str> {
        self.models.get(model).copied().filter(|text| !text.is_empty())
    }

    /// What a field is for.
    pub(super) fn of_field(&self, owner: &Struct, field: &Field) -> Option<&'static str> {
        if let Some(text) = self.fields.get(&(owner.model, field.name)) {
            return Some(text);
        }
        match (&field.ty, field.name) {
            (Type::Str(_), "apiVersion") if field.number.is_empty() => Some(self.api_version()),
            (Type::Str(_), "kind") if field.number.is_empty() => Some(self.kind()),
            (Type::Struct(fields), "metadata") if fields.model == OBJECT_META => {
                Some(self.metadata())
            }
            _ => None,
        }
    }

    /// Of `apiVersion` in all kinds.
    pub(super) fn api_version(&self) -> &'static str {
        "The group and version in which the object is written, such as v1 or apps/v1."
    }

    /// Of `kind` in all kinds.
    pub(super) fn kind(&self) -> &'static str {
        "The kind of the object, such as ConfigMap; it cannot change."
    }

    /// Of `metadata` in all kinds.
    pub(super) fn metadata(&self) -> &'static str {
        "The name, labels and whatever else every object has."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;

    #[test]
    fn every_text_is_of_a_model_and_field_that_is_there() {
        let texts = Descriptions::read();
        for (model, field) in texts.fields.keys() {
            assert!(builtin(model).field(field).is_some(), "{model} has no {field}");
        }
        for text in texts.fields.values().chain(texts.models.values()) {
            assert!(text.ends_with('.'), "not a sentence: {text}");
        }
    }
}
