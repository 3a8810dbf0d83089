//! Label selectors: `app=web,tier in (a,b),!legacy,size>3`.
//!
//! The grammar, and what is said about texts that do not follow it, are apimachinery's.

use super::MAX_REQUIREMENTS;
use crate::{
    field::FieldError,
    types::{validate_label_key, validate_label_value},
};

/// A conjunction of label requirements; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// All of these must hold.
    pub requirements: Vec<Requirement>,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label is there with one of the values, which are sorted.
    In(String, Vec<String>),
    /// The label is absent, or has none of the values, which are sorted.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is absent.
    Absent(String),
    /// The label is an integer above the bound.
    Greater(String, i64),
    /// The label is an integer below the bound.
    Less(String, i64),
}

impl LabelSelector {
    /// Reads the text of a `labelSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: tokens(text), at: 0 }.selector()
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => label(key).is_some_and(|value| has(values, value)),
            Requirement::NotIn(key, values) => label(key).is_none_or(|value| !has(values, value)),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
            Requirement::Greater(key, bound) => integer(label(key)).is_some_and(|n| n > *bound),
            Requirement::Less(key, bound) => integer(label(key)).is_some_and(|n| n < *bound),
        })
    }
}

/// The values of a requirement are sorted.
fn has(values: &[String], value: &str) -> bool {
    values.binary_search_by(|v| v.as_str().cmp(value)).is_ok()
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// The symbols of the grammar, longer ones before their beginnings.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

/// Symbols and words; the end of the text is the empty one.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let word = || rest.find(|c: char| c.is_whitespace() || "=!()<>,".contains(c));
        let length = symbol.map_or_else(|| word().unwrap_or(rest.len()), |symbol| symbol.len());
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !SYMBOLS.contains(&token)
}

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            "" => return Ok(LabelSelector::default()),
            first if !is_word(first) && first != "!" => {
                return Err(format!(
                    "found '{first}', expected: !, identifier, or 'end of string'"
                ));
            }
            _ => {}
        }
        loop {
            let requirement = self.requirement();
            requirements
                .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            if requirements.len() > MAX_REQUIREMENTS {
                return Err(format!("a selector has {MAX_REQUIREMENTS} requirements at most"));
            }
            match self.next() {
                "" => return Ok(LabelSelector { requirements }),
                "," => {}
                other => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
            let after = self.peek();
            if !is_word(after) && after != "!" {
                return Err(format!("found '{after}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == "!";
        if absent {
            self.next();
        }
        let key = self.key()?;
        if matches!(self.peek(), "" | ",") {
            return Ok(if absent { Requirement::Absent(key) } else { Requirement::Exists(key) });
        }
        if absent {
            // The comma that is missing is for the caller to miss.
            return Ok(Requirement::Absent(key));
        }
        match self.next() {
            "in" => Ok(Requirement::In(key.clone(), self.values(&key)?)),
            "notin" => Ok(Requirement::NotIn(key.clone(), self.values(&key)?)),
            "=" | "==" => Ok(Requirement::In(key.clone(), vec![self.value(&key)?])),
            "!=" => Ok(Requirement::NotIn(key.clone(), vec![self.value(&key)?])),
            ">" => Ok(Requirement::Greater(key.clone(), self.bound(&key)?)),
            "<" => Ok(Requirement::Less(key.clone(), self.bound(&key)?)),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.next();
        if !is_word(key) {
            return Err(format!("found '{key}', expected: identifier"));
        }
        match validate_label_key(key) {
            problems if problems.is_empty() => Ok(key.to_owned()),
            problems => Err(FieldError::invalid_str("<nil>", key, problems.join("; ")).to_string()),
        }
    }

    /// What stands behind `=`; nothing is the empty value.
    fn exact(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            "" | "," => Ok(""),
            token => {
                self.next();
                let expected = || format!("found '{token}', expected: identifier");
                is_word(token).then_some(token).ok_or_else(expected)
            }
        }
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        let value = self.exact()?.to_owned();
        check_values(key, std::slice::from_ref(&value), Vec::new())?;
        Ok(value)
    }

    fn bound(&mut self, key: &str) -> Result<i64, String> {
        let value = self.exact()?.to_owned();
        let bound = value.parse::<i64>();
        let problem = "for 'Gt', 'Lt' operators, the value must be an integer";
        let problem = bound.is_err().then(|| FieldError::invalid_str("values[0]", &value, problem));
        check_values(key, std::slice::from_ref(&value), problem.into_iter().collect())?;
        bound.map_err(|error| error.to_string())
    }

    /// `(a,b)`: at least the parentheses; a missing value is the empty one.
    fn values(&mut self, key: &str) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != "(" {
            return Err(format!("found '{open}' expected: '('"));
        }
        let first = self.peek();
        if !is_word(first) && !matches!(first, "," | ")") {
            return Err(format!("found '{first}', expected: ',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            let value = if is_word(self.peek()) { self.next() } else { "" };
            values.push(value.to_owned());
            match self.next() {
                "," => {}
                ")" => break,
                other if value.is_empty() => {
                    return Err(format!("found '{other}', expected: ',', or identifier"));
                }
                other => return Err(format!("found '{other}', expected: ',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        check_values(key, &values, Vec::new())?;
        Ok(values)
    }

    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }
}

fn check_values(key: &str, values: &[String], mut errors: Vec<FieldError>) -> Result<(), String> {
    for (at, value) in values.iter().enumerate() {
        let problems = validate_label_value(value);
        if !problems.is_empty() {
            let path = format!("values[{at}][{key}]");
            errors.push(FieldError::invalid_str(path, value, problems.join("; ")));
        }
    }
    let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let parsed = LabelSelector::parse(selector).unwrap();
        let find = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        assert_eq!(parsed.matches(find), expected, "{selector} on {labels:?}");
    }

    #[test]
    fn every_operator_selects_as_documented() {
        let web = [("app", "web"), ("size", "5")];
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = web , size = 5", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (db)", true),
            ("other notin (db)", true),
            ("app", true),
            ("other", false),
            ("!other", true),
            ("!app", false),
            ("size>4", true),
            ("size<4", false),
            ("app>4", false),
            ("app in (web),size>4,!x/y", true),
            ("app=", false),
            ("in=x", false),
        ] {
            check(selector, &web, expected);
        }
        check("app=", &[("app", "")], true);
        check("app in ()", &[("app", "")], true);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["=", "a in", "a in (b", "a=b,", ",a", "a b", "a>x", "!", "-a=b", "a=b c", "a==(x)"]
        {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_upstreams_words() {
        for (text, expected) in [
            ("=x", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("!a=x", "found '=', expected: ',' or 'end of string'"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a=!x", "unable to parse requirement: found '!', expected: identifier"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_selector_or_refused(text in "([a-c]|in|notin|[ !=<>(),./é-]){0,20}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                selector.matches(|key| (key == "a").then_some("b"));
            }
        }

        #[test]
        fn fuzz_sets_select_their_members(
            values in proptest::collection::vec("[a-d]{0,2}", 1..8),
            value in proptest::option::of("[a-d]{0,2}"),
        ) {
            let list = values.join(",");
            let label = |_: &str| value.as_deref();
            let member = value.as_ref().is_some_and(|value| values.contains(value));
            let within = LabelSelector::parse(&format!("k in ({list})")).unwrap();
            let without = LabelSelector::parse(&format!("k notin ({list})")).unwrap();
            prop_assert_eq!(within.matches(label), member);
            prop_assert_eq!(without.matches(label), !member);
        }
    }
}
