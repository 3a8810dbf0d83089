//! PEM as Go's `encoding/pem` reads it: which bytes count as a block decides what is trusted, and two
//! readers that disagree about that are a hole.
//!
//! Text around blocks is skipped, and so is what only looks like one.

use crate::schema::decode_bytes_leniently;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// What it says to be, e.g. `CERTIFICATE`.
    pub(crate) label: String,
    /// Whether there are headers before the data.
    pub(crate) headers: bool,
    /// The data.
    pub(crate) bytes: Vec<u8>,
}

/// All blocks, in order.
pub(crate) fn blocks(text: &[u8]) -> impl Iterator<Item = Block> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (block, after) = next_block(rest)?;
        rest = after;
        Some(block)
    })
}

/// The first block, and what comes after it.
fn next_block(mut text: &[u8]) -> Option<(Block, &[u8])> {
    loop {
        let end = find(text, END)?;
        // Of several beginnings before one end only the last can be the right one.
        let begin = rfind(&text[..end], BEGIN).filter(|at| *at == 0 || text[at - 1] == b'\n');
        if let Some(found) = begin.and_then(|begin| block_between(text, begin, end)) {
            return Some(found);
        }
        text = &text[end + END.len()..];
    }
}

fn block_between(text: &[u8], begin: usize, end: usize) -> Option<(Block, &[u8])> {
    let (label, mut data) = line(text, begin + BEGIN.len());
    let label = label.strip_suffix(DASHES)?;
    let mut headers = false;
    loop {
        let (content, next) = line(text, data);
        if !content.contains(&b':') {
            break;
        }
        headers = true;
        data = next;
    }
    if headers && data > end {
        return None;
    }
    let closing = end + END.len();
    let after = text[closing..].strip_prefix(label)?.strip_prefix(DASHES)?;
    let (left, rest) = line(after, 0);
    if !left.is_empty() {
        return None;
    }
    let bytes = if data < end { decode(&text[data..end])? } else { Vec::new() };
    let label = String::from_utf8_lossy(label).into_owned();
    Some((Block { label, headers, bytes }, &after[rest..]))
}

fn decode(data: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    if text.contains([' ', '\t']) {
        return decode_bytes_leniently(&text.replace([' ', '\t'], ""));
    }
    decode_bytes_leniently(text)
}

/// The line that begins at `from`, without the white space at its end, and where the next one begins.
fn line(text: &[u8], from: usize) -> (&[u8], usize) {
    let rest = &text[from..];
    let (mut content, next) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(at) => (rest[..at].strip_suffix(b"\r").unwrap_or(&rest[..at]), from + at + 1),
        None => (rest, text.len()),
    };
    while let Some(shorter) = content.strip_suffix(b" ").or_else(|| content.strip_suffix(b"\t")) {
        content = shorter;
    }
    (content, next)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn rfind(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).rposition(|window| window == part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The blocks as `label:bytes`, with an `h` in front for headers.
    fn check(text: &str, expected: &[&str]) {
        let shown = |block: Block| {
            let headers = if block.headers { "h " } else { "" };
            format!("{headers}{}:{}", block.label, String::from_utf8_lossy(&block.bytes))
        };
        let found: Vec<String> = blocks(text.as_bytes()).map(shown).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn blocks_are_found_where_go_finds_them() {
        check("", &[]);
        check("-----BEGIN A-----\neA==\n-----END A-----\n", &["A:x"]);
        check("-----BEGIN A-----\neA==\n-----END A-----", &["A:x"]);
        check("words\n-----BEGIN A-----\r\neA==\r\n-----END A-----\r\nmore", &["A:x"]);
        check("words -----BEGIN A-----\neA==\n-----END A-----\n", &[]);
        check("-----BEGIN A-----\neA==\n-----END A----- more\n", &[]);
        check("-----BEGIN A-----\neA==\n-----END B-----\n", &[]);
        check("-----BEGIN A-----\neA==-----END A-----\n", &[]);
        check("-----BEGIN A-----\n e A = =\n-----END A-----\n", &["A:x"]);
        check(
            "-----BEGIN A-----\n!\n-----END A-----\n-----BEGIN B-----\neQ==\n-----END B-----",
            &["B:y"],
        );
        check("-----BEGIN A-----\n-----BEGIN B-----\neQ==\n-----END B-----\n", &["B:y"]);
        check("-----BEGIN A-----\n-----END A-----\n", &["A:"]);
        check("-----BEGIN A-----\nk: v\n\neA==\n-----END A-----\n", &["h A:x"]);
        check("-----BEGIN A-----\nk: v\n-----END A-----\n", &[]);
        check("-----BEGIN A-----\nk: v\n\n-----END A-----\n", &["h A:"]);
        check("-----BEGIN A-----  \neA==\n-----END A-----\t\n", &["A:x"]);
        let twice = "-----BEGIN A-----\neA==\n-----END A-----\n".repeat(2);
        check(&twice, &["A:x", "A:x"]);
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_read(parts in prop::collection::vec(prop_oneof![
            Just("-----BEGIN "), Just("-----END "), Just("-----"), Just("\n"), Just("A"), Just(":"),
            Just("eA=="), Just(" "), Just("\r"),
        ], 0..40)) {
            let text = parts.concat();
            prop_assert!(blocks(text.as_bytes()).count() <= parts.len());
        }
    }
}
