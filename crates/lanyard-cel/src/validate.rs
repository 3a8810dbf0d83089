//! What is refused although its types fit: mixed lists, and constants that are no duration, timestamp or pattern.

use crate::ast::{Call, Expr, Kind, Literal};
use crate::checker::{Checked, mismatch};
use crate::library::{check_format, compile_regex, literal_format};
use crate::source::Report;
use crate::time;
use crate::types::Type;

/// Looks at every node of a checked expression.
pub(crate) fn validate(checked: &Checked, report: &mut Report<'_>) {
    let type_of = |expr: &Expr| checked.types[expr.id as usize].clone();
    checked.root.walk(&mut |expr| {
        if let Kind::Call(call) = &expr.kind {
            constants(call, report);
        }
        if let Some((format, args)) = literal_format(expr)
            && let Some((at, message)) = check_format(expr, format, args, &type_of)
        {
            report.at(at, message);
        }
    });
    homogeneous(&checked.root, checked, false, report);
}

/// Arguments in the text that the function would refuse in any case.
fn constants(call: &Call, report: &mut Report<'_>) {
    let Some(arg) = call.args.first() else { return };
    let valid = match (call.function.as_str(), arg.literal()) {
        ("duration", Some(Literal::String(text))) => time::parse_duration(text).is_some(),
        ("timestamp", Some(Literal::String(text))) => time::parse_timestamp(text).is_some(),
        ("timestamp", Some(Literal::Int(seconds))) => time::from_seconds(*seconds).is_some(),
        ("matches", Some(Literal::String(pattern))) => compile_regex(pattern).is_ok(),
        _ => true,
    };
    if !valid {
        report.at(arg.at, format!("invalid {} argument", call.function));
    }
}

/// Lists and maps in the text must have elements of one type, except as arguments of `format`.
fn homogeneous(expr: &Expr, checked: &Checked, exempt: bool, report: &mut Report<'_>) {
    let type_of = |expr: &Expr, optional: bool| match &checked.types[expr.id as usize] {
        Type::Optional(inner) if optional => (**inner).clone(),
        other => other.clone(),
    };
    match &expr.kind {
        Kind::List(elements) => {
            let mut first = None;
            for (element, optional) in elements {
                let found = type_of(element, *optional);
                let wanted = first.get_or_insert_with(|| found.clone());
                if !exempt && *wanted != found {
                    report.at(element.at, mismatch(wanted, &found));
                    break;
                }
            }
            elements.iter().for_each(|(element, _)| homogeneous(element, checked, exempt, report));
        }
        Kind::Map(entries) => {
            let mut first = None;
            for entry in entries {
                let found = (type_of(&entry.key, false), type_of(&entry.value, entry.optional));
                let wanted = first.get_or_insert_with(|| found.clone());
                if !exempt && wanted.0 != found.0 {
                    report.at(entry.key.at, mismatch(&wanted.0, &found.0));
                }
                if !exempt && wanted.1 != found.1 {
                    report.at(entry.value.at, mismatch(&wanted.1, &found.1));
                }
                homogeneous(&entry.key, checked, exempt, report);
                homogeneous(&entry.value, checked, exempt, report);
            }
        }
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => homogeneous(operand, checked, exempt, report),
        Kind::Call(call) => {
            let exempt = exempt || call.function == "format";
            let parts = call.target.as_deref().into_iter().chain(&call.args);
            parts.for_each(|part| homogeneous(part, checked, exempt, report));
        }
        Kind::Struct { fields, .. } => {
            fields.iter().for_each(|field| homogeneous(&field.value, checked, exempt, report));
        }
        Kind::Fold(fold) => {
            fold.parts().into_iter().for_each(|part| homogeneous(part, checked, exempt, report))
        }
    }
}
