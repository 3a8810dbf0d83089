//! Lists as indented JSON or as YAML, item by item: a list may be far larger than what memory should
//! hold of it as a tree and as text.

use super::finish;
use crate::negotiate::Encoding;

/// The text of a list around its items.
pub(super) struct Layout {
    encoding: Encoding,
    /// What stands before the first item.
    pub(super) before: String,
    /// What stands between two items.
    pub(super) between: String,
    /// What stands after the last item.
    pub(super) after: String,
    /// What the further lines of an item begin with.
    indent: String,
}

impl Layout {
    /// The layout of a list whose compact JSON begins with `head`, up to its first item.
    pub(super) fn new(head: &[u8], encoding: Encoding) -> Option<Self> {
        let sample = [head, b"\"", ITEM.as_bytes(), b"\"]}"].concat();
        let sample = finish(sample.into(), encoding, true);
        let sample = str::from_utf8(&sample).ok()?;
        let quotes = format!("\"{ITEM}\"");
        let item = if sample.contains(&quotes) { quotes.as_str() } else { ITEM };
        let (before, after) = sample.split_once(item)?;
        let line = before.rsplit('\n').next()?;
        let comma = if encoding == Encoding::Json { "," } else { "" };
        Some(Self {
            encoding,
            between: format!("{comma}\n{line}"),
            indent: format!("\n{}", " ".repeat(line.len())),
            before: before.to_owned(),
            after: after.to_owned(),
        })
    }

    /// One item, from its compact JSON.
    pub(super) fn item(&self, json: &[u8]) -> String {
        let text = finish(json.to_vec().into(), self.encoding, true);
        let text = String::from_utf8_lossy(&text);
        // Only the last line break belongs to the layout; YAML text may end in some of its own.
        text.strip_suffix('\n').unwrap_or(&text).replace('\n', &self.indent)
    }
}

/// Stands for the items in a sample; no list says this by itself.
const ITEM: &str = "the-items-of-the-list-go-here";

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    const HEAD: &str =
        r#"{"kind":"XList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":["#;

    fn laid_out(items: &[Value], encoding: Encoding) -> String {
        let layout = Layout::new(HEAD.as_bytes(), encoding).unwrap();
        let items: Vec<_> = items.iter().map(|i| layout.item(i.to_string().as_bytes())).collect();
        format!("{}{}{}", layout.before, items.join(&layout.between), layout.after)
    }

    fn whole(items: &[Value]) -> Value {
        json!({
            "kind": "XList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
            "items": items,
        })
    }

    #[test]
    fn indented_lists_read_as_if_written_at_once() {
        let items = [json!({"a": {"b": [1, {"c": "x\ny"}]}}), json!({}), json!([])];
        let expected = serde_json::to_string_pretty(&whole(&items)).unwrap() + "\n";
        assert_eq!(laid_out(&items, Encoding::Json), expected);
    }

    fn any_item() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[ -~\n]{0,12}", "(a|\n| |:|-|#|\t|'|\"){0,9}", any::<String>()];
        (text.clone(), text.clone(), text).prop_map(|(a, b, c)| {
            json!({"metadata": {"name": a}, "data": {"k": b, "l": [c, {}, []]}, "n": null})
        })
    }

    proptest! {
        #[test]
        fn fuzz_lists_written_in_pieces_mean_the_same(items in vec(any_item(), 1..4)) {
            let json: Value = serde_json::from_str(&laid_out(&items, Encoding::Json)).unwrap();
            prop_assert_eq!(json, whole(&items));
            let text = laid_out(&items, Encoding::Yaml);
            let yaml = serde_saphyr::from_str::<Value>(&text).ok();
            prop_assert_eq!(yaml, Some(whole(&items)), "{}", text);
        }
    }
}
