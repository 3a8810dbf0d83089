//! What a client found: the lines that its program wrote, and the files that the matrix is made from.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::features;

/// A client of one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) client: String,
    pub(crate) version: String,
}

impl fmt::Display for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.client, self.version)
    }
}

/// Whether one feature works, as a program writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) feature: String,
    pub(crate) ok: bool,
    /// Why it does not; for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ok {
            true => write!(out, "ok     {}", self.feature),
            false => write!(out, "FAILED {}: {}", self.feature, self.error),
        }
    }
}

/// A finding with whose it is: a line of a results file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) client: Client,
    pub(crate) feature: String,
    pub(crate) ok: bool,
}

/// Reads the lines of a program. A feature that several lines name works if all of them say so.
pub(crate) fn read(path: &Path) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut findings: Vec<Finding> = Vec::new();
    for line in text.lines() {
        let finding: Finding =
            serde_json::from_str(line).with_context(|| format!("this is no finding: {line}"))?;
        ensure!(features::place(&finding.feature).is_some(), "no feature {:?}", finding.feature);
        match findings.iter_mut().find(|known| known.feature == finding.feature) {
            Some(known) if known.ok => *known = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
    Ok(findings)
}

/// Writes the file of a client's program, one record per line.
pub(crate) fn keep(dir: &Path, client: &Client, part: &str, findings: &[Finding]) -> Result<()> {
    let mut text = String::new();
    for Finding { feature, ok, .. } in findings {
        let record = Record { client: client.clone(), feature: feature.clone(), ok: *ok };
        text.push_str(&serde_json::to_string(&record).context("write a record")?);
        text.push('\n');
    }
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(format!("{}-{}-{part}.jsonl", client.client, client.version));
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// All records of a run.
pub(crate) fn all(results: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let place = || results.display().to_string();
    for entry in fs::read_dir(results).with_context(place)? {
        let path = entry.with_context(place)?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines() {
            let record = serde_json::from_str(line).with_context(|| path.display().to_string())?;
            records.push(record);
        }
    }
    ensure!(!records.is_empty(), "no results in {}: run ./dev peers", results.display());
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_works_if_every_line_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        let line = |feature: &str, ok: bool| format!("{{\"feature\":{feature:?},\"ok\":{ok}}}\n");
        let text = [("watch", true), ("watch", false), ("watch", true), ("pages", true)];
        let text: String = text.iter().map(|(feature, ok)| line(feature, *ok)).collect();
        fs::write(&path, text).unwrap();
        let read = read(&path).unwrap();
        let read: Vec<_> = read.iter().map(|found| (found.feature.as_str(), found.ok)).collect();
        assert_eq!(read, [("watch", false), ("pages", true)]);
    }

    #[test]
    fn unknown_features_and_broken_lines_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results");
        for text in ["{\"feature\":\"wach\",\"ok\":true}", "watch", "{\"feature\":\"watch\"}"] {
            fs::write(&path, text).unwrap();
            assert!(read(&path).is_err(), "{text}");
        }
    }
}
