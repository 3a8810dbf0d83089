//! From words to a tree.
//!
//! A descent with precedence climbing. Everything a text can make large is bounded: its length, how deep it nests and
//! how many nodes it has after macros were expanded (`optMap` repeats its target, so nested ones double).

use crate::ast::{ACCUMULATOR, Call, Entry, Expr, Field, Fold, Kind, Literal, operator};
use crate::lexer::{Token, Word, tokens};
use crate::macros;
use crate::source::{CompileErrors, Report};
use crate::unescape::{unescape_bytes, unescape_string};

/// A tree and the number of its nodes.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    pub(crate) nodes: u32,
}

/// Reads an expression.
pub(crate) fn parse(text: &str) -> Result<Parsed, CompileErrors> {
    let mut report = Report::new(text);
    let length = text.chars().count();
    if length > MAX_LENGTH {
        report.nowhere(format!(
            "expression code point size exceeds limit: size: {length}, limit {MAX_LENGTH}"
        ));
        return Err(report.into_errors());
    }
    let tokens = tokens(text, &mut report);
    let mut parser = Parser { tokens, next: 0, report, ids: 0, nesting: 0 };
    let root = parser.start();
    let (nodes, report) = (parser.ids, parser.report);
    match root {
        Ok(root) => report.finish().map(|()| Parsed { root, nodes }),
        Err(Stop) => Err(report.into_errors()),
    }
}

/// The rest of the text is not read: the reason was reported.
#[derive(Debug)]
pub(crate) struct Stop;

pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    pub(crate) report: Report<'a>,
    ids: u32,
    nesting: u16,
}

type Parse<T = Expr> = Result<T, Stop>;

impl<'a> Parser<'a> {
    fn start(&mut self) -> Parse {
        let expr = self.expr()?;
        if self.peek().kind == Word::End {
            return Ok(expr);
        }
        let how =
            if self.tokens[self.next + 1].kind == Word::End { "extraneous" } else { "mismatched" };
        Err(self.unexpected(how, "<EOF>"))
    }

    /// `a ? b : c`, or what binds closer.
    fn expr(&mut self) -> Parse {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.too_deep());
        }
        let condition = self.logical(0)?;
        let result = match self.accept("?") {
            None => condition,
            Some(at) => {
                let yes = self.logical(0)?;
                self.expect(":")?;
                let no = self.expr()?;
                self.call(at, operator::CONDITIONAL, None, vec![condition, yes, no])?
            }
        };
        self.nesting -= 1;
        Ok(result)
    }

    /// `||` at level 0 and `&&` at level 1. Many terms become one call, so that long chains are not deep.
    fn logical(&mut self, level: usize) -> Parse {
        let (symbol, function) = [("||", operator::OR), ("&&", operator::AND)][level];
        let mut terms = vec![if level == 0 { self.logical(1)? } else { self.binary(0)? }];
        let mut first = None;
        while let Some(at) = self.accept(symbol) {
            first.get_or_insert(at);
            terms.push(if level == 0 { self.logical(1)? } else { self.binary(0)? });
        }
        match first {
            None => Ok(terms.remove(0)),
            Some(at) => self.call(at, function, None, terms),
        }
    }

    /// Relations, sums and products: left to right, those with a higher level bind closer.
    fn binary(&mut self, level: u8) -> Parse {
        let mut left = self.unary()?;
        loop {
            let token = self.peek();
            let found = BINARY
                .iter()
                .find(|(symbol, ..)| token.kind == Word::Symbol && token.text == *symbol);
            let Some((_, function, binds)) = found.filter(|(.., binds)| *binds >= level) else {
                return Ok(left);
            };
            let at = token.at;
            self.next += 1;
            let right = self.binary(binds + 1)?;
            left = self.call(at, function, None, vec![left, right])?;
        }
    }

    fn unary(&mut self) -> Parse {
        let at = self.peek().at;
        for (symbol, function) in [("!", operator::NOT), ("-", operator::NEGATE)] {
            // A minus before a number belongs to the number.
            let number = matches!(
                self.tokens.get(self.next + 1).map(|t| t.kind),
                Some(Word::Int | Word::Float)
            );
            if self.is(symbol) && !(symbol == "-" && number) {
                let mut count = 0;
                while self.accept(symbol).is_some() {
                    count += 1;
                }
                let operand = self.member()?;
                return match count % 2 {
                    0 => Ok(operand),
                    _ => self.call(at, function, None, vec![operand]),
                };
            }
        }
        self.member()
    }

    /// A primary with what is selected from it, called on it or indexed.
    fn member(&mut self) -> Parse {
        let mut expr = self.primary()?;
        loop {
            if let Some(at) = self.accept(".") {
                expr = self.select(expr, at)?;
            } else if let Some(at) = self.accept("[") {
                let function =
                    if self.accept("?").is_some() { operator::OPT_INDEX } else { operator::INDEX };
                let index = self.expr()?;
                self.expect("]")?;
                expr = self.call(at, function, None, vec![expr, index])?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn select(&mut self, operand: Expr, at: u32) -> Parse {
        let optional = self.accept("?").is_some();
        let token = self.peek().clone();
        let field = match token.kind {
            Word::Ident => token.text.to_owned(),
            Word::Escaped => {
                self.report.at(token.at, "unsupported syntax: '`'");
                return Err(Stop);
            }
            _ => {
                let read = if token.kind == Word::End { "." } else { token.text };
                let message = match read {
                    "true" | "false" | "null" => {
                        format!("mismatched input '{read}' expecting IDENTIFIER")
                    }
                    "." if token.kind == Word::End => {
                        "no viable alternative at input '.'".to_owned()
                    }
                    other => format!("no viable alternative at input '.{other}'"),
                };
                self.report.at(token.at, format!("Syntax error: {message}"));
                return Err(Stop);
            }
        };
        self.next += 1;
        if !optional && let Some(open) = self.accept("(") {
            let args = self.arguments()?;
            return self.call_or_macro(open, &field, Some(operand), args);
        }
        if optional {
            let name = self.node(token.at, Kind::Literal(Literal::String(field)))?;
            return self.call(at, operator::OPT_SELECT, None, vec![operand, name]);
        }
        self.node(at, Kind::Select { operand: Box::new(operand), field, test: false })
    }

    fn primary(&mut self) -> Parse {
        let token = self.peek().clone();
        match (token.kind, token.text) {
            (Word::Symbol, "(") => {
                self.next += 1;
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            (Word::Symbol, "[") => self.list(token.at),
            (Word::Symbol, "{") => self.map(token.at),
            (Word::Symbol, ".") | (Word::Ident, _) => self.named(),
            _ => self.constant(&token),
        }
    }

    fn constant(&mut self, token: &Token<'a>) -> Parse {
        self.next += 1;
        let minus = token.text == "-" && token.kind == Word::Symbol;
        let (sign, word) = if minus { ("-", self.take()) } else { ("", token.clone()) };
        let literal = match (word.kind, word.text) {
            (Word::Symbol, "true") => Ok(Literal::Bool(true)),
            (Word::Symbol, "false") => Ok(Literal::Bool(false)),
            (Word::Symbol, "null") => Ok(Literal::Null),
            (Word::Int, text) => integer(sign, text).map(Literal::Int).ok_or("invalid int literal"),
            (Word::Uint, text) => unsigned(text).map(Literal::Uint).ok_or("invalid uint literal"),
            (Word::Float, text) => {
                double(sign, text).map(Literal::Double).ok_or("invalid double literal")
            }
            (Word::String, text) => unescape_string(text).map(Literal::String),
            (Word::Bytes, text) => unescape_bytes(&text[1..]).map(Literal::Bytes),
            _ => {
                self.next -= 1;
                return Err(self.unexpected("mismatched", EXPRESSION));
            }
        };
        match literal {
            Ok(literal) => self.node(token.at, Kind::Literal(literal)),
            Err(message) => {
                self.report.at(token.at, message);
                Err(Stop)
            }
        }
    }

    /// A variable, a global call or a message: `a`, `.a`, `f(x)`, `a.B{c: 1}`.
    fn named(&mut self) -> Parse {
        let start = self.peek().at;
        let dot = if self.accept(".").is_some() { "." } else { "" };
        let token = self.peek().clone();
        if token.kind != Word::Ident {
            return Err(self.unexpected("mismatched", "IDENTIFIER"));
        }
        if let Some(message) = self.message(dot)? {
            return Ok(message);
        }
        self.next += 1;
        if RESERVED.contains(&token.text) {
            self.report.at(start, format!("reserved identifier: {}", token.text));
            return Err(Stop);
        }
        let name = format!("{dot}{}", token.text);
        match self.accept("(") {
            None => self.node(token.at, Kind::Ident(name)),
            Some(open) => {
                let args = self.arguments()?;
                self.call_or_macro(open, &name, None, args)
            }
        }
    }

    /// A message literal, if the names that follow end in an opening brace.
    fn message(&mut self, dot: &str) -> Parse<Option<Expr>> {
        let mut end = self.next + 1;
        let text = |at: usize| self.tokens.get(at).map(|token| (token.kind, token.text));
        while text(end) == Some((Word::Symbol, "."))
            && matches!(text(end + 1), Some((Word::Ident, _)))
        {
            end += 2;
        }
        if text(end) != Some((Word::Symbol, "{")) {
            return Ok(None);
        }
        let names: String = self.tokens[self.next..end].iter().map(|token| token.text).collect();
        let at = self.tokens[end].at;
        self.next = end + 1;
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?").is_some();
            let name = self.take();
            if name.kind != Word::Ident {
                self.next -= 1;
                return Err(self.unexpected("mismatched", "IDENTIFIER"));
            }
            let at = self.expect(":")?;
            fields.push(Field { at, name: name.text.to_owned(), value: self.expr()?, optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        let name = if dot.is_empty() { names } else { format!(".{names}") };
        self.node(at, Kind::Struct { name, fields }).map(Some)
    }

    /// The end of a list that may go on.
    fn expect_end(&mut self, symbol: &str) -> Parse<u32> {
        match self.accept(symbol) {
            Some(at) => Ok(at),
            None => {
                let how = if self.follows(symbol) { "extraneous" } else { "mismatched" };
                Err(self.unexpected(how, &format!("{{'{symbol}', ','}}")))
            }
        }
    }

    fn list(&mut self, at: u32) -> Parse {
        self.next += 1;
        if self.is(",") && self.follows("]") {
            self.next += 1;
        }
        let mut elements = Vec::new();
        while !self.is("]") {
            let optional = self.accept("?").is_some();
            elements.push((self.expr()?, optional));
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect_end("]")?;
        self.node(at, Kind::List(elements))
    }

    fn map(&mut self, at: u32) -> Parse {
        self.next += 1;
        if self.is(",") && self.follows("}") {
            self.next += 1;
        }
        let mut entries = Vec::new();
        while !self.is("}") {
            let optional = self.accept("?").is_some();
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.expr()?, optional });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect_end("}")?;
        self.node(at, Kind::Map(entries))
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    fn call_or_macro(
        &mut self,
        at: u32,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Parse {
        match macros::expand(self, at, function, target, args)? {
            macros::Expansion::Done(expr) => Ok(expr),
            macros::Expansion::NoMacro(target, args) => self.call(at, function, target, args),
        }
    }

    // Making nodes; macros use these too.

    /// A node with a fresh number, if the limits allow one more.
    pub(crate) fn node(&mut self, at: u32, kind: Kind) -> Parse {
        let depth = 1 + deepest(&kind);
        if depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let id = self.ids;
        self.ids += 1;
        if self.ids > MAX_NODES {
            self.report.nowhere(format!("expression node count exceeds limit: {MAX_NODES}"));
            return Err(Stop);
        }
        Ok(Expr { id, at, depth, kind })
    }

    pub(crate) fn call(
        &mut self,
        at: u32,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Parse {
        let target = target.map(Box::new);
        self.node(at, Kind::Call(Call { function: function.to_owned(), target, args }))
    }

    pub(crate) fn ident(&mut self, at: u32, name: &str) -> Parse {
        self.node(at, Kind::Ident(name.to_owned()))
    }

    pub(crate) fn accumulator(&mut self, at: u32) -> Parse {
        self.ident(at, ACCUMULATOR)
    }

    pub(crate) fn literal(&mut self, at: u32, literal: Literal) -> Parse {
        self.node(at, Kind::Literal(literal))
    }

    pub(crate) fn fold(&mut self, at: u32, fold: Fold) -> Parse {
        self.node(at, Kind::Fold(Box::new(fold)))
    }

    /// The same tree with numbers of its own.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Parse {
        let kind = match &expr.kind {
            Kind::Literal(literal) => Kind::Literal(literal.clone()),
            Kind::Ident(name) => Kind::Ident(name.clone()),
            Kind::Select { operand, field, test } => Kind::Select {
                operand: Box::new(self.copy(operand)?),
                field: field.clone(),
                test: *test,
            },
            Kind::Call(call) => {
                let target = call.target.as_ref().map(|target| self.copy(target)).transpose()?;
                let args = call.args.iter().map(|arg| self.copy(arg)).collect::<Parse<_>>()?;
                Kind::Call(Call {
                    function: call.function.clone(),
                    target: target.map(Box::new),
                    args,
                })
            }
            Kind::List(elements) => Kind::List(
                elements
                    .iter()
                    .map(|(element, opt)| Ok((self.copy(element)?, *opt)))
                    .collect::<Parse<_>>()?,
            ),
            Kind::Map(entries) => {
                let copied = entries.iter().map(|entry| {
                    let (key, value) = (self.copy(&entry.key)?, self.copy(&entry.value)?);
                    Ok(Entry { key, value, optional: entry.optional })
                });
                Kind::Map(copied.collect::<Parse<_>>()?)
            }
            Kind::Struct { name, fields } => {
                let copied = fields.iter().map(|field| {
                    let value = self.copy(&field.value)?;
                    Ok(Field {
                        at: field.at,
                        name: field.name.clone(),
                        value,
                        optional: field.optional,
                    })
                });
                Kind::Struct { name: name.clone(), fields: copied.collect::<Parse<_>>()? }
            }
            Kind::Fold(fold) => Kind::Fold(Box::new(Fold {
                range: self.copy(&fold.range)?,
                var: fold.var.clone(),
                var2: fold.var2.clone(),
                accumulator: fold.accumulator.clone(),
                init: self.copy(&fold.init)?,
                condition: self.copy(&fold.condition)?,
                step: self.copy(&fold.step)?,
                result: self.copy(&fold.result)?,
            })),
        };
        self.node(expr.at, kind)
    }

    // Words.

    fn peek(&self) -> &Token<'a> {
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn is(&self, symbol: &str) -> bool {
        let token = self.peek();
        token.kind == Word::Symbol && token.text == symbol
    }

    fn accept(&mut self, symbol: &str) -> Option<u32> {
        let at = self.is(symbol).then(|| self.peek().at)?;
        self.next += 1;
        Some(at)
    }

    fn expect(&mut self, symbol: &str) -> Parse<u32> {
        if let Some(at) = self.accept(symbol) {
            return Ok(at);
        }
        let token = self.peek().clone();
        if token.kind == Word::End && symbol != ":" {
            self.report.at(token.at, format!("Syntax error: missing '{symbol}' at '<EOF>'"));
            return Err(Stop);
        }
        if symbol == ":" && !matches!(token.kind, Word::Symbol | Word::End) {
            self.report.at(token.at, format!("Syntax error: missing ':' at '{}'", token.text));
            return Err(Stop);
        }
        let how = if self.follows(symbol) { "extraneous" } else { "mismatched" };
        Err(self.unexpected(how, &format!("'{symbol}'")))
    }

    /// Whether the word after the next is a symbol: then the next one is too much.
    fn follows(&self, symbol: &str) -> bool {
        let after = self.tokens.get(self.next + 1);
        after.is_some_and(|token| token.kind == Word::Symbol && token.text == symbol)
    }

    fn unexpected(&mut self, how: &str, expected: &str) -> Stop {
        let token = self.peek().clone();
        self.report.at(
            token.at,
            format!("Syntax error: {how} input '{}' expecting {expected}", token.text),
        );
        Stop
    }

    fn too_deep(&mut self) -> Stop {
        self.report.nowhere(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
        Stop
    }
}

fn deepest(kind: &Kind) -> u16 {
    let depths =
        |exprs: &mut dyn Iterator<Item = &Expr>| exprs.map(|expr| expr.depth).max().unwrap_or(0);
    match kind {
        Kind::Literal(_) | Kind::Ident(_) => 0,
        Kind::Select { operand, .. } => operand.depth,
        Kind::Call(call) => depths(&mut call.args.iter().chain(call.target.as_deref())),
        Kind::List(elements) => depths(&mut elements.iter().map(|(element, _)| element)),
        Kind::Map(entries) => {
            depths(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
        }
        Kind::Struct { fields, .. } => depths(&mut fields.iter().map(|field| &field.value)),
        Kind::Fold(fold) => depths(&mut fold.parts().into_iter()),
    }
}

fn integer(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(&format!("{sign}{digits}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

fn unsigned(text: &str) -> Option<u64> {
    let text = &text[..text.len() - 1];
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn double(sign: &str, text: &str) -> Option<f64> {
    format!("{sign}{text}").parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Symbol, function and how close it binds.
const BINARY: [(&str, &str, u8); 12] = [
    ("<", "_<_", 0),
    ("<=", "_<=_", 0),
    (">", "_>_", 0),
    (">=", "_>=_", 0),
    ("==", operator::EQUALS, 0),
    ("!=", operator::NOT_EQUALS, 0),
    ("in", operator::IN, 0),
    ("+", operator::ADD, 1),
    ("-", "_-_", 1),
    ("*", "_*_", 2),
    ("/", "_/_", 2),
    ("%", "_%_", 2),
];

/// Words that no variable may be called.
pub(crate) const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// What an expression may begin with, as upstream's parser lists it.
const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                          STRING, BYTES, IDENTIFIER}";

/// Upstream's limit, in code points.
const MAX_LENGTH: usize = 100_000;

/// Upstream's limit for each rule of the grammar; here also for the tree, so that no walk over it runs out of stack.
pub(crate) const MAX_DEPTH: u16 = 250;

/// How deep parentheses, lists and arguments nest. Less than upstream's, so that an unoptimised build with a stack of
/// two megabytes can read it; the error is the same.
const MAX_NESTING: u16 = 120;

/// More than any text of [`MAX_LENGTH`] has without macros that repeat their target.
const MAX_NODES: u32 = 200_000;
