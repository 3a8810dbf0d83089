//! The text of an expression, and what is wrong with it and where.
//!
//! Positions count code points, as upstream's do, so that the marker below a snippet stands under the right character
//! for text in any script.

use std::fmt;

/// Why an expression does not compile: everything that was found, in the order of the text.
///
/// The `Display` form is upstream's: a line per problem, followed by the line of the text and a marker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CompileErrors {
    issues: Vec<Issue>,
    text: String,
    truncated: usize,
    /// Why it compiles but cannot be run, as when a constant does not convert.
    instantiation: Option<String>,
}

/// One problem at one place of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The line, from 1; zero and below when the problem has no place.
    pub line: i64,
    /// The column in code points, from 0.
    pub column: i64,
    /// What is wrong, in upstream's words.
    pub message: String,
}

impl CompileErrors {
    pub(crate) fn instantiation(message: String) -> Self {
        Self { issues: Vec::new(), text: String::new(), truncated: 0, instantiation: Some(message) }
    }

    /// The errors as they are in answers to clients, with what went wrong before them.
    pub fn describe(&self) -> String {
        match &self.instantiation {
            Some(message) => format!("program instantiation failed: {message}"),
            None => format!("compilation failed: {self}"),
        }
    }

    /// The problems, in the order of the text. None if the expression compiles but cannot be run.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = &self.instantiation {
            return f.write_str(message);
        }
        let lines: Vec<&str> = self.text.split('\n').collect();
        for (at, issue) in self.issues.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "ERROR: <input>:{}:{}: {}", issue.line, issue.column + 1, issue.message)?;
            let line = usize::try_from(issue.line - 1).ok().and_then(|line| lines.get(line));
            if let Some(line) = line.filter(|line| line.len() <= MAX_SNIPPET) {
                snippet(f, line, issue.column)?;
            }
        }
        if self.truncated > 0 {
            write!(f, "\n{} more errors were truncated", self.truncated)?;
        }
        Ok(())
    }
}

/// Writes a line of the text with a marker below the column. Wide characters get a wide dot, so that columns agree.
fn snippet(f: &mut fmt::Formatter<'_>, line: &str, column: i64) -> fmt::Result {
    write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
    let mut rest = line.chars();
    for _ in 0..column {
        match rest.next() {
            Some(c) if c.len_utf8() > 1 => f.write_str("\u{ff0e}")?,
            Some(_) => f.write_str(".")?,
            None => break,
        }
    }
    f.write_str(if rest.next().is_some_and(|c| c.len_utf8() > 1) { "\u{ff3e}" } else { "^" })
}

/// Gathers problems while an expression is read.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    text: &'a str,
    /// The code point at which each line begins.
    lines: Vec<usize>,
    issues: Vec<Issue>,
    seen: usize,
}

impl<'a> Report<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = text.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { text, lines, issues: Vec::new(), seen: 0 }
    }

    /// Records a problem at a code point of the text.
    pub(crate) fn at(&mut self, offset: u32, message: impl Into<String>) {
        let offset = offset as usize;
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let column = offset - self.lines[line - 1];
        self.push(Issue { line: line as i64, column: column as i64, message: message.into() });
    }

    /// Records a problem of the whole expression.
    pub(crate) fn nowhere(&mut self, message: impl Into<String>) {
        self.push(Issue { line: -1, column: -1, message: message.into() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seen == 0
    }

    /// The errors, if there are any.
    pub(crate) fn finish(self) -> Result<(), CompileErrors> {
        if self.seen == 0 { Ok(()) } else { Err(self.into_errors()) }
    }

    /// The errors, after at least one was reported.
    pub(crate) fn into_errors(mut self) -> CompileErrors {
        self.issues.sort_by_key(|issue| (issue.line, issue.column));
        let truncated = self.seen - self.issues.len();
        CompileErrors {
            issues: self.issues,
            text: self.text.to_owned(),
            truncated,
            instantiation: None,
        }
    }

    fn push(&mut self, issue: Issue) {
        self.seen += 1;
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(issue);
        }
    }
}

/// As many problems as upstream reports.
const MAX_ISSUES: usize = 100;

/// A longer line is not quoted in an error, as upstream.
const MAX_SNIPPET: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_quotes_its_line_and_marks_the_column() {
        let mut report = Report::new("a &&\n\tself.x");
        report.at(10, "undefined field 'x'");
        let text = report.finish().unwrap_err().to_string();
        assert_eq!(text, "ERROR: <input>:2:6: undefined field 'x'\n |  self.x\n | .....^");
    }

    #[test]
    fn wide_characters_have_wide_markers() {
        let mut report = Report::new("'ü' + 1");
        report.at(4, "no");
        let text = report.finish().unwrap_err().to_string();
        assert_eq!(text, "ERROR: <input>:1:5: no\n | 'ü' + 1\n | .．..^");
    }
}
