//! What is known not to work, from `peers/gaps`: one `client | feature | why` per line. A gap that is none any more
//! is as much an error as one that nobody knew of, so the list cannot grow old.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::features;
use crate::results::{Client, Finding, Record};

/// The known gaps of all clients.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    all: Vec<Gap>,
}

#[derive(Debug)]
struct Gap {
    client: String,
    feature: String,
}

impl Gaps {
    pub(crate) fn read(path: &Path) -> Result<Gaps> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Gaps::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Gaps> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let all = lines.map(|line| match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            [client, feature, why]
                if !client.is_empty() && !why.is_empty() && features::place(feature).is_some() =>
            {
                Ok(Gap { client: client.to_owned(), feature: feature.to_owned() })
            }
            _ => bail!("this is no `client | feature | why`: {line}"),
        });
        Ok(Gaps { all: all.collect::<Result<_>>()? })
    }

    /// Fails unless exactly the known gaps do not work.
    pub(crate) fn judge(&self, client: &Client, findings: &[Finding]) -> Result<()> {
        let gaps = || self.all.iter().filter(|gap| gap.client == client.client);
        let mut wrong = Vec::new();
        for finding in findings {
            match (gaps().any(|gap| gap.feature == finding.feature), finding.ok) {
                (false, false) => wrong.push(format!("{}: {}", finding.feature, finding.error)),
                (true, true) => {
                    wrong.push(format!("{} works; it is no gap any more", finding.feature));
                }
                _ => {}
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => bail!("{client} does not work as it should:\n  {}", wrong.join("\n  ")),
        }
    }

    /// Fails if there is a gap that no client tried, once all of them have run.
    pub(crate) fn all_tried(&self, records: &[Record]) -> Result<()> {
        for Gap { client, feature } in &self.all {
            let tries =
                |record: &Record| record.client.client == *client && record.feature == *feature;
            ensure!(records.iter().any(tries), "{client} | {feature} is a gap that nothing tries");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gaps: &str, found: &[(&str, bool)], expected: Option<&str>) {
        let client = Client { client: "mop".to_owned(), version: "1".to_owned() };
        let finding = |(feature, ok): &(&str, bool)| Finding {
            feature: (*feature).to_owned(),
            ok: *ok,
            error: String::new(),
        };
        let findings: Vec<_> = found.iter().map(finding).collect();
        let judged = Gaps::parse(gaps).and_then(|gaps| gaps.judge(&client, &findings));
        match (judged, expected) {
            (Ok(()), None) => {}
            (Err(error), Some(text)) if format!("{error:#}").contains(text) => {}
            (judged, _) => panic!("{gaps:?} {found:?}: {judged:?}"),
        }
    }

    #[test]
    fn only_what_is_known_may_fail_and_must() {
        let known = "# a comment\n\nmop | watch | not written\nbroom | pages | not written\n";
        check("", &[("watch", true)], None);
        check("", &[("watch", false)], Some("watch: "));
        check(known, &[("watch", false), ("pages", true)], None);
        check(known, &[("watch", true)], Some("watch works; it is no gap any more"));
        check(known, &[("watch", false), ("pages", false)], Some("pages: "));
    }

    #[test]
    fn a_gap_that_nothing_tries_is_noticed() {
        let gaps = Gaps::parse("mop | watch | not written").unwrap();
        let record = |client: &str, feature: &str| Record {
            client: Client { client: client.to_owned(), version: "1".to_owned() },
            feature: feature.to_owned(),
            ok: false,
        };
        assert!(gaps.all_tried(&[record("mop", "pages"), record("broom", "watch")]).is_err());
        assert!(gaps.all_tried(&[record("mop", "pages"), record("mop", "watch")]).is_ok());
    }

    #[test]
    fn a_gap_says_whose_what_and_why() {
        for line in
            ["mop | watch", "mop | wach | why", "mop | watch |", " | watch | why", "a|b|c|d"]
        {
            check(line, &[], Some("this is no"));
        }
    }
}
