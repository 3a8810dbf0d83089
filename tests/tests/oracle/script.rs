//! Requests as text: the `.http` format that editors know, with a few directives.
//!
//! ```text
//! ### what this asks
//! # @save uid /metadata/uid
//! POST /api/v1/namespaces/{{ns}}/configmaps
//! Content-Type: application/json
//!
//! {"metadata": {"name": "a"}}
//! ```
//!
//! `@save` keeps a string of the answer, per server, for later `{{uid}}`; `@anonymous` sends no client
//! certificate; `@served` compares only those list entries that Lanyard has; `@until 200` asks again, for
//! ten seconds at most, until that is the status. `{{ab*3}}` is `ababab`.

use anyhow::{Context, Result, bail, ensure};

/// Requests that are sent one after another.
pub(crate) struct Script {
    pub(crate) cases: Vec<Case>,
}

/// One request.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) line: usize,
    /// Variable and JSON pointer.
    pub(crate) saves: Vec<(String, String)>,
    pub(crate) served_only: bool,
    /// The status to wait for.
    pub(crate) until: Option<u16>,
    anonymous: bool,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A request with its variables filled in.
pub(crate) struct Request {
    pub(crate) anonymous: bool,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Script {
    /// Reads a script.
    pub(crate) fn parse(text: &str) -> Result<Script> {
        let mut cases = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let Some(title) = line.strip_prefix("### ") else {
                ensure!(
                    line.is_empty() || line.starts_with("# "),
                    "line {}: expected `### title`, found {line:?}",
                    at + 1
                );
                continue;
            };
            let mut block = Vec::new();
            while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with("### ")) {
                block.push(line);
            }
            let case = Case::parse(title, &block).with_context(|| format!("line {}", at + 1))?;
            cases.push(Case { line: at + 1, ..case });
        }
        Ok(Script { cases })
    }
}

impl Case {
    fn parse(title: &str, block: &[&str]) -> Result<Case> {
        let mut case = Case { title: title.to_owned(), ..Case::default() };
        let mut lines = block.iter().copied();
        for line in lines.by_ref() {
            if let Some(directive) = line.strip_prefix("# @") {
                case.direct(directive)?;
            } else if !line.starts_with('#') {
                let (method, path) = line.split_once(' ').context("no request line")?;
                (case.method, case.path) = (method.to_owned(), path.to_owned());
                break;
            }
        }
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").context("a header is `Name: value`")?;
            case.headers.push((name.to_owned(), value.to_owned()));
        }
        let body: Vec<&str> = lines.filter(|line| !line.starts_with("# ")).collect();
        case.body = body.join("\n").trim_end().to_owned();
        ensure!(!case.method.is_empty(), "no request line");
        Ok(case)
    }

    fn direct(&mut self, directive: &str) -> Result<()> {
        match directive.split(' ').collect::<Vec<_>>()[..] {
            ["save", name, pointer] => self.saves.push((name.to_owned(), pointer.to_owned())),
            ["anonymous"] => self.anonymous = true,
            ["served"] => self.served_only = true,
            ["until", status] => self.until = Some(status.parse()?),
            _ => bail!("no directive @{directive}"),
        }
        Ok(())
    }

    /// For a reader who wants to find the case.
    pub(crate) fn request_line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The request to send.
    pub(crate) fn filled(&self, value: impl Fn(&str) -> Option<String>) -> Result<Request> {
        let fill = |text: &str| fill(text, &value);
        let header = |(name, text): &(String, String)| Ok((name.clone(), fill(text)?));
        Ok(Request {
            anonymous: self.anonymous,
            method: self.method.clone(),
            path: fill(&self.path)?,
            headers: self.headers.iter().map(header).collect::<Result<_>>()?,
            body: fill(&self.body)?,
        })
    }
}

/// Replaces `{{name}}` by its value and `{{text*n}}` by n times the text; values may hold variables too.
fn fill(text: &str, value: &impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").context("`{{` without `}}`")?;
        filled.push_str(before);
        match (value(name), name.rsplit_once('*')) {
            (Some(value_of), _) => filled.push_str(&fill(&value_of, value)?),
            (None, Some((part, times))) => filled.push_str(&part.repeat(times.parse()?)),
            (None, None) => bail!("no variable {name}"),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
