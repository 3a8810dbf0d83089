//! Patterns. The `regex` crate has RE2's syntax and, as RE2, takes time linear in the text.

use regex::{Regex, RegexBuilder};

use super::Function;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

/// Compiles a pattern of bounded size.
pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_SIZE).nest_limit(MAX_NESTING).build();
    compiled.map_err(|error| {
        EvalError::new(format!("error parsing regexp: {}", reason(&error, pattern)))
    })
}

/// What is wrong with a pattern, in Go's words where they are known.
fn reason(error: &regex::Error, pattern: &str) -> String {
    let text = error.to_string();
    // The last line says what is wrong; those before it draw the place.
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match last {
        _ if matches!(error, regex::Error::CompiledTooBig(_)) => "expression too large".to_owned(),
        "unclosed character class" => {
            format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or(0)..])
        }
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        other => format!("{other}: `{pattern}`"),
    }
}

/// These get their pattern compiled, see [`apply`].
pub(super) fn function(name: &str) -> Option<Function> {
    matches!(name, "matches" | "find" | "findAll")
        .then_some(|_, _| Err(EvalError::no_such_overload()))
}

/// Runs one of the functions that have a pattern.
pub(crate) fn apply<'a>(
    meter: &mut Meter,
    function: &str,
    regex: &Regex,
    args: &[Value<'a>],
) -> Result<Value<'a>, EvalError> {
    let Some(Value::String(text)) = args.first() else {
        return Err(match function {
            "matches" => EvalError::no_such_overload(),
            _ => EvalError::no_overload(function, args),
        });
    };
    Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::string(regex.find(text).map_or("", |found| found.as_str())),
        _ => {
            let limit = match args.get(2) {
                None => usize::MAX,
                Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
                Some(_) => return Err(EvalError::no_overload(function, args)),
            };
            meter.allocate(text.len())?;
            let found: Vec<Value<'a>> = regex
                .find_iter(text)
                .take(limit)
                .map(|found| Value::string(found.as_str()))
                .collect();
            meter.allocate(found.len() * size_of::<Value<'_>>())?;
            Value::list(found)
        }
    })
}

/// Bytes of a compiled pattern: repetitions of repetitions get large.
const MAX_SIZE: usize = 1 << 20;

/// How deep groups nest.
const MAX_NESTING: u32 = 100;
