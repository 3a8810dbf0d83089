//! Bytes in base64, read as leniently as Go reads them and written in one canonical form.

use base64::{Engine, engine::general_purpose::STANDARD};

/// The bytes of a canonical base64 text; nothing when it is not one.
pub fn decode_bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The bytes of a base64 text with line breaks; nothing when it is not one.
pub(crate) fn decode_bytes_leniently(text: &str) -> Option<Vec<u8>> {
    decode_leniently(text.as_bytes()).ok()
}

/// The number of bytes that a canonical base64 text stands for.
pub fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|&byte| byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Bytes as canonical base64.
pub fn encode_bytes(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// Rewrites a base64 text in its canonical form.
///
/// Line breaks are allowed anywhere, and so are unused bits that are not zero in the last digit.
/// The error is the place of the first byte that Go would complain about.
pub(super) fn canonicalise(text: &mut String) -> Result<(), usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(());
    }
    let decoded = decode_leniently(text.as_bytes())?;
    *text = encode_bytes(decoded);
    Ok(())
}

fn is_canonical(text: &[u8]) -> bool {
    if !text.len().is_multiple_of(4) {
        return false;
    }
    let digits = match text {
        [rest @ .., b'=', b'='] => rest,
        [rest @ .., b'='] => rest,
        all => all,
    };
    let unused = match digits.len() % 4 {
        2 => 0x0f,
        3 => 0x03,
        _ => 0,
    };
    digits.iter().all(|&byte| digit(byte).is_some())
        && digits.last().and_then(|&byte| digit(byte)).is_none_or(|last| last & unused == 0)
}

fn decode_leniently(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut input = text.iter().copied().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n'));
    loop {
        let mut quantum = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            match input.next() {
                None if filled == 0 => return Ok(out),
                None => return Err(text.len() - filled),
                Some((at, b'=')) => {
                    return match (filled, input.next(), input.next()) {
                        (0 | 1, ..) => Err(at),
                        (2, Some((_, b'=')), None) | (3, None, None) => {
                            push(&mut out, quantum, filled);
                            Ok(out)
                        }
                        (2, None, _) => Err(text.len()),
                        (2, Some((_, b'=')), Some((after, _))) => Err(after),
                        (2, Some((after, _)), _) => Err(after - 1),
                        (_, Some((after, _)), _) => Err(after),
                        (_, None, _) => Err(text.len()),
                    };
                }
                Some((at, byte)) => {
                    quantum[filled] = digit(byte).ok_or(at)?;
                    filled += 1;
                }
            }
        }
        push(&mut out, quantum, filled);
    }
}

/// Appends the bytes that `filled` digits stand for.
fn push(out: &mut Vec<u8>, [a, b, c, d]: [u8; 4], filled: usize) {
    let bytes = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
    out.extend_from_slice(&bytes[..filled - 1]);
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        let check = |input: &str, expected: Result<&str, usize>| {
            let mut text = input.to_owned();
            let result = canonicalise(&mut text).map(|()| text.as_str());
            assert_eq!(result, expected, "{input:?}");
        };
        check("", Ok(""));
        check("aGVsbG8=", Ok("aGVsbG8="));
        check("aGVs\nbG8=\n", Ok("aGVsbG8="));
        check("aGVsbG9=", Ok("aGVsbG8="));
        check("not base64!", Err(3));
        check("aGVsbG8", Err(4));
        check("aGVsbG8=x", Err(8));
        check("a", Err(0));
        check("=", Err(0));
        check("aG=", Err(3));
        check("aG=x", Err(2));
        check("aG==x", Err(4));
        check("aGV=x", Err(4));
        check("aG\n=x", Err(3));
        check("aGVs\nbG", Err(5));
    }

    #[test]
    fn the_length_of_the_bytes_is_known_without_decoding() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"abcd"] {
            assert_eq!(decoded_len(&encode_bytes(bytes)), bytes.len());
        }
    }
}
