//! Whatever the text, compiling and evaluating end soon, in bounded memory, without a panic.

use lanyard_cel::{Budget, Declared, Environment, ListKind, Variables};
use proptest::prelude::*;
use serde_json::json;

fn environment() -> Environment {
    let words = Declared::list(Declared::string(None, None), None, ListKind::Set);
    let fields = [
        ("words", false, words),
        ("count", true, Declared::int()),
        ("any", false, Declared::any()),
    ];
    Environment::new()
        .variable("self", Declared::object(fields).named("selfType"))
        .variable("dynamic", Declared::any())
}

/// Compiles and, if that works, evaluates.
fn run(text: &str) {
    let Ok(program) = environment().compile(text) else { return };
    let value = json!({"words": ["a", "b", "ccc"], "count": 3, "any": {"x": [1, 2.5, null, "é"]}});
    let mut variables = Variables::new();
    variables.json("self", &value).json("dynamic", &value);
    let mut budget = Budget::new(Budget::PER_OBJECT);
    let before = budget.remaining();
    let outcome = program.evaluate(&variables, &mut budget);
    // One step at most beyond the limit: the most expensive one is a pair of lists.
    let used = before - budget.remaining();
    assert!(used <= 1_000_000 || outcome.is_err(), "{used}");
    if let Ok(value) = outcome {
        let _ = value.to_json();
    }
}

proptest! {
    #[test]
    fn fuzz_any_text_compiles_or_not(text in ".{0,200}") {
        run(&text);
    }

    #[test]
    fn fuzz_words_in_any_order(words in proptest::collection::vec(0..WORDS.len(), 0..40)) {
        let text: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
        run(&text.join(" "));
        run(&text.concat());
    }

    #[test]
    fn fuzz_expressions_that_parse(text in expression()) {
        run(&text);
    }
}

/// Expressions that are well formed, whether or not their types fit.
fn expression() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(LEAVES).prop_map(str::to_owned);
    leaf.prop_recursive(5, 60, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (pair.clone(), proptest::sample::select(OPERATORS))
                .prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (pair.clone(), proptest::sample::select(METHODS))
                .prop_map(|((a, b), name)| format!("{a}.{name}({b})")),
            (inner.clone(), proptest::sample::select(NULLARY))
                .prop_map(|(a, name)| format!("{a}.{name}()")),
            (pair.clone(), proptest::sample::select(MACROS))
                .prop_map(|((a, b), name)| format!("{a}.{name}(x, {b})")),
            pair.clone().prop_map(|(a, b)| format!("[{a}, {b}]")),
            pair.clone().prop_map(|(a, b)| format!("{{'k': {a}, 'l': {b}}}")),
            pair.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), pair).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            inner.prop_map(|a| format!("dyn({a})")),
        ]
    })
}

#[test]
fn deep_text_is_refused_or_evaluated() {
    let cases = [
        ("(".repeat(5000), String::new(), ")".repeat(5000)),
        ("(".repeat(119), "1".to_owned(), ")".repeat(119)),
        ("[".repeat(119), "1".to_owned(), "]".repeat(119)),
        ("-(".repeat(120), "1".to_owned(), ")".repeat(120)),
        ("!".repeat(50_000), "true".to_owned(), String::new()),
        ("true ? 1 : ".repeat(119), "1".to_owned(), String::new()),
        (String::new(), "1".to_owned(), " + 1".repeat(240)),
        (String::new(), "1".to_owned(), " + 1".repeat(20_000)),
        (String::new(), "true".to_owned(), " && true".repeat(10_000)),
        (String::new(), "dynamic".to_owned(), ".a".repeat(240)),
        (String::new(), "dynamic".to_owned(), ".a".repeat(40_000)),
        ("[1].map(x, ".repeat(60), "1".to_owned(), ")".repeat(60)),
        ("[1].map(x, ".repeat(1000), "1".to_owned(), ")".repeat(1000)),
        ("{'a': ".repeat(200), "1".to_owned(), "}".repeat(200)),
        ("dyn(".repeat(200), "1".to_owned(), ")".repeat(200)),
        (String::new(), "optional.of(1)".to_owned(), ".optMap(x, x)".repeat(100)),
    ];
    for (before, middle, after) in cases {
        run(&format!("{before}{middle}{after}"));
    }
}

#[test]
fn what_is_expensive_is_cut_short() {
    let ten = "[0,1,2,3,4,5,6,7,8,9]";
    let mut doubled = "optional.of(dyn('0123456789'))".to_owned();
    for name in [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t",
    ] {
        doubled = format!("{doubled}.optMap({name}, dyn({name}) + dyn({name}))");
    }
    let mut nested = "v9 + v9".to_owned();
    for at in (0..40).rev() {
        let before = if at == 0 {
            "dyn('xxxxxxxxxxxxxxxx')".to_owned()
        } else {
            format!("v{} + v{}", at - 1, at - 1)
        };
        nested = format!("[{before}].map(v{at}, {nested})[0]");
    }
    let mut pairs = "x".to_owned();
    for _ in 0..60 {
        pairs = format!("[{{x: x}}].map(x, {pairs})");
    }
    let cases = [
        format!("{ten}.map(a, {ten}.map(b, {ten}.map(c, {ten}.map(d, {ten}.map(e, {ten}.map(f, a + b + c + d + e + f))))))"),
        "lists.range(9223372036854775807).size()".to_owned(),
        "lists.range(900000).distinct().size()".to_owned(),
        "lists.range(900000).map(x, x).sortBy(x, -x).size()".to_owned(),
        "lists.range(10000).map(x, 'a'.replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')).join('x').size()".to_owned(),
        "lists.range(1000).map(x, 'a'.matches('(a{1,1000}){1,1000}' + string(x)))".to_owned(),
        "lists.range(2000).all(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*' + string(x) + '$') || true)".to_owned(),
        "lists.range(1000000).flatten(9223372036854775807)".to_owned(),
        doubled,
        nested,
        format!("[1].map(x, {pairs})"),
    ];
    for case in cases {
        let start = std::time::Instant::now();
        run(&case);
        // Far more than it takes, as this runs unoptimised beside other tests.
        assert!(start.elapsed().as_secs() < 60, "{case}");
    }
}

const WORDS: &[&str] = &[
    "self", "dynamic", ".", "words", "count", "any", "(", ")", "[", "]", "{", "}", ",", ":", "?",
    "+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||", "!", "1", "2u", "3.5", "'a'",
    "b'x'", "true", "null", "has", "all", "exists", "map", "x", "filter", "size", "optional", "of",
    "optMap", "sortBy", "duration", "'1h'", "format", "0x", "\"", "'''", "r'", "\\", "é", "//",
];
const LEAVES: &[&str] = &[
    "self",
    "self.words",
    "self.count",
    "self.any",
    "dynamic",
    "dynamic.any.x",
    "1",
    "-1",
    "2u",
    "1.5",
    "'a'",
    "'%s'",
    "b'a'",
    "true",
    "null",
    "[]",
    "{}",
    "x",
    "int",
    "optional.none()",
    "duration('1h')",
    "timestamp(0)",
    "quantity('1')",
    "9223372036854775807",
];
const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"];
const METHODS: &[&str] = &[
    "contains",
    "startsWith",
    "matches",
    "split",
    "join",
    "indexOf",
    "lastIndexOf",
    "substring",
    "charAt",
    "format",
    "find",
    "findAll",
    "orValue",
    "or",
    "flatten",
    "add",
    "compareTo",
    "getHours",
    "slice",
];
const NULLARY: &[&str] = &[
    "size",
    "value",
    "hasValue",
    "sort",
    "distinct",
    "reverse",
    "first",
    "last",
    "sum",
    "min",
    "max",
    "isSorted",
    "trim",
    "join",
    "upperAscii",
    "flatten",
    "unwrapOpt",
    "asInteger",
    "getHours",
    "x",
];
const MACROS: &[&str] =
    &["all", "exists", "exists_one", "map", "filter", "sortBy", "optMap", "optFlatMap"];
