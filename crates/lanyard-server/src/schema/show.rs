//! Values in error messages, with their fields in the order of the Go type.

use std::fmt::Write;

use serde_json::Value;

use super::{Struct, Type};
use crate::field::json_text;

impl Struct {
    /// The JSON that Go would write for an object of this type.
    pub fn show(&self, value: &Value) -> String {
        let mut out = String::new();
        show_struct(self, value, &mut out);
        out
    }

    /// The JSON that Go would write for a list of objects of this type.
    pub fn show_list(&self, list: &[Value]) -> String {
        let items: Vec<_> = list.iter().map(|item| self.show(item)).collect();
        format!("[{}]", items.join(","))
    }
}

fn show_struct(fields: &Struct, value: &Value, out: &mut String) {
    out.push('{');
    let mut separator = "";
    for field in fields.fields() {
        if let Some(value) = value.get(field.name) {
            let _ = write!(out, "{separator}\"{}\":", field.name);
            show_value(&field.ty, value, out);
            separator = ",";
        }
    }
    out.push('}');
}

fn show_value(ty: &Type, value: &Value, out: &mut String) {
    match (ty, value) {
        (Type::Struct(fields), Value::Object(_)) => show_struct(fields, value, out),
        (Type::List(item), Value::Array(list)) if let Type::Struct(table) = &**item => {
            out.push_str(&table.show_list(list))
        }
        _ => out.push_str(&json_text(value)),
    }
}
