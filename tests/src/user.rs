//! Somebody at a terminal: kubectl commands written as they would be typed, with one identity.

use anyhow::{Context, Result, ensure};
use lanyard_testkit::{Kubectl, Output, Process};
use serde_json::Value;

/// Somebody with a kubeconfig.
#[derive(Debug)]
pub struct User {
    kubectl: Kubectl,
}

impl User {
    /// Whoever this kubectl is.
    pub fn new(kubectl: Kubectl) -> User {
        User { kubectl }
    }

    /// Runs a command line without its `kubectl`; single quotes keep words together.
    pub fn run(&self, line: &str) -> Result<Output> {
        self.run_with(line, "")
    }

    /// As [`User::run`], with standard input for `-f -`.
    pub fn run_with(&self, line: &str, input: &str) -> Result<Output> {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.kubectl.run_with_input(&words, input)
    }

    /// The output of a command that succeeds.
    pub fn ok(&self, line: &str) -> Result<String> {
        self.run(line)?.success()
    }

    /// What a command that fails complains about.
    pub fn fails(&self, line: &str) -> Result<String> {
        self.run(line)?.failure()
    }

    /// Runs a command and compares what it prints, line by line, without regard to the width of columns.
    pub fn prints(&self, line: &str, expected: &str) -> Result<()> {
        let printed = self.ok(line)?;
        let same = squeezed(&printed) == squeezed(expected);
        ensure!(same, "`{line}` printed:\n{printed}\nbut this was expected:\n{expected}");
        Ok(())
    }

    /// The output of a command with `-o json`.
    pub fn json(&self, line: &str) -> Result<Value> {
        let output = self.ok(&format!("{line} -o json"))?;
        serde_json::from_str(&output)
            .with_context(|| format!("`{line}` printed no JSON:\n{output}"))
    }

    /// Creates what a manifest (YAML or JSON) describes, in the namespace it names or in `default`.
    pub fn create(&self, manifest: &str) -> Result<String> {
        self.run_with("create -f -", manifest)?.success()
    }

    /// Why a manifest is refused.
    pub fn cannot_create(&self, manifest: &str) -> Result<String> {
        self.run_with("create -f -", manifest)?.failure()
    }

    /// Starts a command that runs until it is dropped.
    pub fn start(&self, name: &str, line: &str) -> Result<Process> {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        self.kubectl.start(name, &words)
    }
}

/// Splits at spaces, except between single quotes, as a shell does.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.last_mut().into_iter().for_each(|word| word.push_str(part));
            continue;
        }
        for (at, piece) in part.split(' ').enumerate() {
            match words.last_mut() {
                Some(word) if at == 0 => word.push_str(piece),
                _ => words.push(piece.to_owned()),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn squeezed(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect());
    lines.filter(|line: &Vec<&str>| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        let check = |line: &str, expected: &[&str]| assert_eq!(words(line), expected);
        check("patch cm a  -p '{\"a\": 1}'", &["patch", "cm", "a", "-p", "{\"a\": 1}"]);
        check("annotate cm a note='two words'", &["annotate", "cm", "a", "note=two words"]);
    }
}
