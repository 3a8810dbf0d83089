//! Semantic versions, as the library that upstream uses reads them.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Function, Inner, Opaque, quantity};
use crate::error::EvalError;
use crate::value::Value;

/// A version. Build metadata does not count when versions are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<Identifier>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Identifier {
    Number(u64),
    Text(String),
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => {
            |_, args| read("semver", args)?.map(|version| Inner::Semver(Arc::new(version)).into())
        }
        "isSemver" => |_, args| Ok(Value::Bool(read("isSemver", args)?.is_ok())),
        "major" => |_, args| number("major", args, 0),
        "minor" => |_, args| number("minor", args, 1),
        "patch" => |_, args| number("patch", args, 2),
        "isGreaterThan" | "isLessThan" | "compareTo" => {
            return Some(match name {
                "isGreaterThan" => {
                    |_, args| order("isGreaterThan", args).map(|order| Value::Bool(order.is_gt()))
                }
                "isLessThan" => {
                    |_, args| order("isLessThan", args).map(|order| Value::Bool(order.is_lt()))
                }
                _ => |_, args| order("compareTo", args).map(|order| Value::Int(order as i64)),
            });
        }
        _ => return None,
    })
}

/// Quantities and versions are compared by functions of the same names.
fn order(name: &str, args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Semver(a))), Value::Opaque(Opaque(Inner::Semver(b)))] => {
            Ok(a.compare(b))
        }
        _ => quantity::order(name, args),
    }
}

fn number<'a>(name: &str, args: &[Value<'a>], at: usize) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Semver(version)))] => {
            Ok(Value::Int(version.numbers[at] as i64))
        }
        _ => Err(EvalError::no_overload(name, args)),
    }
}

type Parsed = Result<Semver, EvalError>;

fn read(name: &str, args: &[Value<'_>]) -> Result<Parsed, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Semver::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => {
            Ok(normalize(text).and_then(|text| Semver::parse(&text)))
        }
        _ => Err(EvalError::no_overload(name, args)),
    }
}

/// Takes away what is often written: a `v`, leading zeros, missing numbers.
fn normalize(text: &str) -> Result<String, EvalError> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(strip_zeros).collect();
    if parts.len() < 3 {
        if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
            return Err(EvalError::new("short version cannot contain PreRelease/Build meta data"));
        }
        parts.resize(3, "0".to_owned());
    }
    Ok(parts.join("."))
}

fn strip_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let stripped = part.trim_start_matches('0');
    if stripped.starts_with(|c: char| c.is_ascii_digit()) {
        stripped.to_owned()
    } else {
        format!("0{stripped}")
    }
}

impl Semver {
    fn parse(text: &str) -> Parsed {
        let wrong = |message: &str| Err(EvalError::new(message));
        if text.is_empty() {
            return wrong("Version string empty");
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return wrong("No Major.Minor.Patch elements found");
        };
        let (rest, build) =
            rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let names = ["major", "minor", "patch"];
        let mut numbers = [0; 3];
        for (at, number) in [major, minor, patch].into_iter().enumerate() {
            numbers[at] = parse_number(number, names[at])?;
        }
        let prerelease =
            prerelease.map(|text| text.split('.').map(identifier).collect()).transpose()?;
        for part in build.iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return wrong("Build meta data is empty");
            }
            if !part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                return wrong(&format!("Invalid character(s) found in build meta data {part:?}"));
            }
        }
        Ok(Self { numbers, prerelease: prerelease.unwrap_or_default() })
    }

    /// Which version comes first. One with a prerelease comes before the same one without.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let by_numbers = self.numbers.cmp(&other.numbers);
        let ranks = (self.prerelease.is_empty(), other.prerelease.is_empty());
        by_numbers.then_with(|| match ranks {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let mut pairs = self.prerelease.iter().zip(&other.prerelease);
                let first =
                    pairs.find_map(|(a, b)| Some(a.compare(b)).filter(|order| order.is_ne()));
                first.unwrap_or_else(|| self.prerelease.len().cmp(&other.prerelease.len()))
            }
        })
    }
}

impl Identifier {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

fn parse_number(text: &str, name: &str) -> Result<u64, EvalError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(EvalError::new(format!(
            "Invalid character(s) found in {name} number {text:?}"
        )));
    }
    if text.len() > 1 && text.starts_with('0') {
        let name = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        return Err(EvalError::new(format!(
            "{name} number must not contain leading zeroes {text:?}"
        )));
    }
    text.parse().map_err(|_| {
        EvalError::new(format!("strconv.ParseUint: parsing {text:?}: value out of range"))
    })
}

fn identifier(text: &str) -> Result<Identifier, EvalError> {
    if text.is_empty() {
        return Err(EvalError::new("Prerelease is empty"));
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let message =
                format!("Numeric PreRelease version must not contain leading zeroes {text:?}");
            return Err(EvalError::new(message));
        }
        if let Ok(number) = text.parse() {
            return Ok(Identifier::Number(number));
        }
    }
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Ok(Identifier::Text(text.to_owned()));
    }
    Err(EvalError::new(format!("Invalid character(s) found in prerelease {text:?}")))
}
