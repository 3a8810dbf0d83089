//! What a quoted string or bytes literal stands for.

/// The text of a string literal with its quotes and prefix.
pub(crate) fn unescape_string(literal: &str) -> Result<String, &'static str> {
    let bytes = unescape(literal, false)?;
    String::from_utf8(bytes).map_err(|_| INVALID)
}

/// The bytes of a bytes literal, without its `b`.
pub(crate) fn unescape_bytes(literal: &str) -> Result<Vec<u8>, &'static str> {
    unescape(literal, true)
}

fn unescape(literal: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let raw = literal.starts_with(['r', 'R']);
    let quoted = if raw { &literal[1..] } else { &literal[..] };
    let marks = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""))
    {
        3
    } else {
        1
    };
    let inner = quoted.get(marks..quoted.len().saturating_sub(marks)).ok_or(INVALID)?;
    if raw {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, bytes, &mut out)?,
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(out)
}

fn escape(
    rest: &mut std::str::Chars<'_>,
    bytes: bool,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let simple =
        match rest.next().ok_or("unable to unescape string, found '\\' as last character")? {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            c @ ('\\' | '\'' | '"' | '`' | '?') => c as u8,
            'x' | 'X' => return code(rest, 2, 16, bytes, 0, out),
            'u' if !bytes => return code(rest, 4, 16, bytes, 0, out),
            'U' if !bytes => return code(rest, 8, 16, bytes, 0, out),
            c @ '0'..='3' => return code(rest, 2, 8, bytes, c as u32 - '0' as u32, out),
            _ => return Err(INVALID),
        };
    out.push(simple);
    Ok(())
}

/// A code point, or a byte, by its digits.
fn code(
    rest: &mut std::str::Chars<'_>,
    digits: usize,
    radix: u32,
    bytes: bool,
    first: u32,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let mut value = first;
    for _ in 0..digits {
        let digit = rest.next().and_then(|c| c.to_digit(radix)).ok_or(INVALID)?;
        value = value.wrapping_mul(radix).wrapping_add(digit);
    }
    if bytes {
        out.push(u8::try_from(value).map_err(|_| INVALID)?);
        return Ok(());
    }
    let c = char::from_u32(value).ok_or("invalid unicode code point")?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

const INVALID: &str = "unable to unescape string";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read() {
        let cases = [
            (r"'a\nb'", "a\nb"),
            (r#""\x41\101\u00e9\U0001F600""#, "AAé😀"),
            (r"r'\n'", "\\n"),
            ("'''it's'''", "it's"),
            ("''", ""),
        ];
        for (literal, expected) in cases {
            assert_eq!(unescape_string(literal).unwrap(), expected, "{literal}");
        }
        assert_eq!(unescape_bytes(r"'\xff\377é'").unwrap(), [0xff, 0xff, 0xc3, 0xa9]);
        assert!(unescape_string(r"'\ud800'").is_err());
        assert!(unescape_bytes(r"'\u0041'").is_err());
    }
}
