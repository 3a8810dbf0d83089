//! The matrix of `docs/compatibility.md`: features down, clients across, made from the results of a run. It holds
//! versions and outcomes but no times, so a run that finds the same writes the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::features;
use crate::results::{Client, Record};

/// Replaces the text between the markers of a document.
pub(crate) fn write(records: &[Record], document: &Path) -> Result<()> {
    let text = fs::read_to_string(document).with_context(|| document.display().to_string())?;
    let table = table(records)?;
    let text = replaced(&text, &table).with_context(|| document.display().to_string())?;
    fs::write(document, text).with_context(|| document.display().to_string())
}

fn table(records: &[Record]) -> Result<String> {
    let mut clients: BTreeMap<&Client, BTreeMap<&str, bool>> = BTreeMap::new();
    for record in records {
        clients.entry(&record.client).or_default().insert(&record.feature, record.ok);
    }
    let mut text = String::from("|");
    for client in clients.keys() {
        write!(text, " | {client}")?;
    }
    text.push_str(" |\n|---");
    text.push_str(&"|---".repeat(clients.len()));
    text.push_str("|\n");
    for feature in features::ALL {
        if !clients.values().any(|found| found.contains_key(feature)) {
            continue;
        }
        write!(text, "| {feature}")?;
        for found in clients.values() {
            match found.get(feature) {
                Some(true) => text.push_str(" | yes"),
                Some(false) => text.push_str(" | **no**"),
                None => text.push_str(" |"),
            }
        }
        text.push_str(" |\n");
    }
    Ok(text)
}

fn replaced(document: &str, table: &str) -> Result<String> {
    let (before, rest) = document.split_once(BEGIN).with_context(|| format!("no {BEGIN:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no {END:?} after it"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

const BEGIN: &str = "<!-- made by ./dev peers -->";
const END: &str = "<!-- until here -->";

#[cfg(test)]
mod tests {
    use super::*;

    fn record(client: &str, feature: &str, ok: bool) -> Record {
        let client = Client { client: client.to_owned(), version: "1".to_owned() };
        Record { client, feature: feature.to_owned(), ok }
    }

    #[test]
    fn rows_are_features_and_columns_are_clients() {
        let records = [
            record("mop", "watch", true),
            record("mop", "discovery", true),
            record("broom", "watch", false),
        ];
        let expected = "\
| | broom 1 | mop 1 |
|---|---|---|
| discovery | | yes |
| watch | **no** | yes |
";
        assert_eq!(table(&records).unwrap(), expected);
    }

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&document, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replaced("a", "new").is_err());
    }
}
