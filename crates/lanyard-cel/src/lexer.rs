//! Words of an expression.
//!
//! What cannot be a word is reported and skipped, so that one stray character gives one error and not a stop.

use crate::source::Report;

/// A word and where it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Word,
    /// The word as it is in the text; `<EOF>` at the end.
    pub(crate) text: &'a str,
    /// The code point at which it begins.
    pub(crate) at: u32,
}

/// The kinds of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// An operator, bracket or one of the words `in`, `true`, `false`, `null`: told apart by its text.
    Symbol,
    Ident,
    /// An identifier in backticks.
    Escaped,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

/// Splits a text into words. The last is always `End`.
pub(crate) fn tokens<'a>(text: &'a str, report: &mut Report<'_>) -> Vec<Token<'a>> {
    let mut lexer = Lexer { text, byte: 0, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank();
        let (byte, at) = (lexer.byte, lexer.at);
        let Some(first) = lexer.peek() else {
            tokens.push(Token { kind: Word::End, text: "<EOF>", at });
            return tokens;
        };
        match lexer.word(first) {
            Some(kind) => tokens.push(Token { kind, text: &text[byte..lexer.byte], at }),
            None => {
                lexer.advance();
                let wrong = &text[byte..lexer.byte];
                report.at(at, format!("Syntax error: token recognition error at: '{wrong}'"));
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    byte: usize,
    at: u32,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.byte..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.byte += c.len_utf8();
        self.at += 1;
        Some(c)
    }

    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.advance();
        }
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) -> usize {
        let before = self.byte;
        while self.peek().is_some_and(&wanted) {
            self.advance();
        }
        self.byte - before
    }

    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            if !self.rest().starts_with("//") {
                return;
            }
            self.skip_while(|c| c != '\n');
        }
    }

    /// Reads a word. On `None` the position is at the character that does not fit.
    fn word(&mut self, first: char) -> Option<Word> {
        if let Some(quoted) = self.quoted() {
            return quoted;
        }
        match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let start = self.byte;
                self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_');
                let word = &self.text[start..self.byte];
                let symbol = matches!(word, "in" | "true" | "false" | "null");
                Some(if symbol { Word::Symbol } else { Word::Ident })
            }
            '0'..='9' => Some(self.number()),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.advance();
                self.digits();
                self.exponent();
                Some(Word::Float)
            }
            '`' => self.escaped(),
            _ => {
                let symbol = SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol))?;
                self.skip(symbol.len());
                Some(Word::Symbol)
            }
        }
    }

    fn digits(&mut self) {
        self.skip_while(|c| c.is_ascii_digit());
    }

    fn exponent(&mut self) -> bool {
        let mut rest = self.rest().chars();
        if !rest.next().is_some_and(|c| matches!(c, 'e' | 'E')) {
            return false;
        }
        let (sign, digit) = match rest.next() {
            Some('+' | '-') => (1, rest.next()),
            other => (0, other),
        };
        if !digit.is_some_and(|c| c.is_ascii_digit()) {
            return false;
        }
        self.skip(1 + sign);
        self.digits();
        true
    }

    fn number(&mut self) -> Word {
        let hexadecimal = self.rest().starts_with("0x")
            && self.rest()[2..].starts_with(|c: char| c.is_ascii_hexdigit());
        if hexadecimal {
            self.skip(2);
            self.skip_while(|c| c.is_ascii_hexdigit());
        } else {
            self.digits();
            let fraction = self.rest().starts_with('.')
                && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit());
            if fraction {
                self.advance();
                self.digits();
            }
            if self.exponent() || fraction {
                return Word::Float;
            }
        }
        if self.peek().is_some_and(|c| matches!(c, 'u' | 'U')) {
            self.advance();
            return Word::Uint;
        }
        Word::Int
    }

    fn escaped(&mut self) -> Option<Word> {
        self.advance();
        let inside =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        if self.skip_while(inside) == 0 || self.peek() != Some('`') {
            return None;
        }
        self.advance();
        Some(Word::Escaped)
    }

    /// Reads a string or bytes. `None` if none begins here, `Some(None)` if one begins and does not end.
    fn quoted(&mut self) -> Option<Option<Word>> {
        let rest = self.rest();
        let bytes = rest.starts_with(['b', 'B']);
        let after = if bytes { &rest[1..] } else { rest };
        let raw = after.starts_with(['r', 'R']);
        let after = if raw { &after[1..] } else { after };
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let triple = after.chars().take(3).filter(|c| *c == quote).count() == 3;
        self.skip(usize::from(bytes) + usize::from(raw) + if triple { 3 } else { 1 });
        let kind = if bytes { Word::Bytes } else { Word::String };
        let before = (self.byte, self.at);
        if self.quoted_end(quote, raw, triple) {
            return Some(Some(kind));
        }
        if triple {
            // Three quotation marks that open nothing are an empty string and one mark more.
            (self.byte, self.at) = (before.0 - 1, before.1 - 1);
            return Some(Some(kind));
        }
        Some(None)
    }

    fn quoted_end(&mut self, quote: char, raw: bool, triple: bool) -> bool {
        loop {
            let Some(c) = self.peek() else { return false };
            let ends = c == quote
                && (!triple || self.rest().chars().take(3).filter(|c| *c == quote).count() == 3);
            if ends {
                self.skip(if triple { 3 } else { 1 });
                return true;
            }
            if !triple && matches!(c, '\n' | '\r') {
                return false;
            }
            self.advance();
            if c == '\\' && !raw && !self.escape() {
                return false;
            }
        }
    }

    /// Reads what follows a backslash; what it stands for is found later.
    fn escape(&mut self) -> bool {
        let Some(c) = self.peek() else { return false };
        let (count, digit): (usize, fn(char) -> bool) = match c {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => {
                (0, |_| true)
            }
            'x' | 'X' => (2, |c| c.is_ascii_hexdigit()),
            'u' => (4, |c| c.is_ascii_hexdigit()),
            'U' => (8, |c| c.is_ascii_hexdigit()),
            '0'..='3' => (2, |c| matches!(c, '0'..='7')),
            _ => return false,
        };
        self.advance();
        for _ in 0..count {
            if !self.peek().is_some_and(digit) {
                return false;
            }
            self.advance();
        }
        true
    }
}

/// Longer ones first.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut report = Report::new(text);
        let tokens = tokens(text, &mut report);
        let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
        assert_eq!(words, expected);
        assert!(report.is_empty());
    }

    #[test]
    fn words_are_told_apart() {
        check("a.b && 1u<=0x1F", &["a", ".", "b", "&&", "1u", "<=", "0x1F", "<EOF>"]);
        check("1.5e3 .5 1e9 // done", &["1.5e3", ".5", "1e9", "<EOF>"]);
        check("b'x' r\"\\\" '''a'b'''", &["b'x'", "r\"\\\"", "'''a'b'''", "<EOF>"]);
        check("br'x' + 1.size()", &["br'x'", "+", "1", ".", "size", "(", ")", "<EOF>"]);
        check("5 % 2", &["5", "%", "2", "<EOF>"]);
    }

    #[test]
    fn what_is_no_word_is_named() {
        let mut report = Report::new("a # 'b");
        tokens("a # 'b", &mut report);
        let text = report.finish().unwrap_err();
        let messages: Vec<_> = text.issues().iter().map(|issue| issue.message.as_str()).collect();
        let expected = [
            "Syntax error: token recognition error at: '#'",
            "Syntax error: token recognition error at: ''b'",
        ];
        assert_eq!(messages, expected);
    }
}
