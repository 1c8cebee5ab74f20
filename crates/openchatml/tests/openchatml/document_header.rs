//! Document headers: values, order, limits, and the way back.

use logue_source::DiagnosticCode;
use openchatml::{HeaderBuf, WriteError, limits, parse, write_header};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::strategies::marked_text;

#[test]
fn values_are_read_and_unknown_keys_kept_in_order() {
    let source = b"# our transcript
model: gpt-oss-120b
zeta: {b: 1, a: [true, null, 'x']}
version: 2.2 # required
generation_settings:
  temperature: 0.7
  reasoning_effort: \"medium\"
alpha: |
  two
  lines
7: seven
<|start|>user<|message|>a<|end|>";
    let document = parse(source);
    assert!(
        document.diagnostics().is_empty(),
        "{:?}",
        document.diagnostics()
    );
    let header = document.header().unwrap();
    assert_eq!(header.version(), "2.2");
    assert_eq!(header.model(), Some("gpt-oss-120b"));
    let settings = Value::Object(header.generation_settings().clone());
    assert_eq!(
        settings,
        json!({"temperature": 0.7, "reasoning_effort": "medium"})
    );
    let keys: Vec<_> = header.extra().keys().collect();
    assert_eq!(keys, ["zeta", "alpha", "7"]);
    assert_eq!(
        header.get("zeta").unwrap().to_string(),
        r#"{"b":1,"a":[true,null,"x"]}"#
    );
    assert_eq!(header.get("alpha"), Some(&json!("two\nlines\n")));
    assert_eq!(header.get("version"), None);
    assert!(header.span().bytes(source).ends_with(b"7: seven\n"));
}

#[test]
fn a_version_and_a_model_keep_their_digits() {
    let document = parse(b"version: &v 2.10\nmodel: 4.0\nother: *v\n");
    let header = document.header().unwrap();
    assert_eq!(header.version(), "2.10");
    assert_eq!(header.model(), Some("4.0"));
}

#[test]
fn a_number_that_loses_digits_has_a_warning() {
    let cases = [
        ("1.10", Some("1.1")),
        ("0x1f", Some("31")),
        (
            "123456789012345678901234567890",
            Some("1.2345678901234568e+29"),
        ),
        ("-0", Some("0")),
        ("{a: [1, 2.50]}", Some("2.5")),
        ("[12345678901234567890123]", Some("1.2345678901234568e+22")),
        ("1.5", None),
        ("-7", None),
        ("1e29", None),
        ("[1e+29]", None),
        ("18446744073709551615", None),
        ("\"1.10\"", None),
        ("{a: [1,2.5], 'b': -3}", None),
        ("a text with 1.10", None),
        ("[&n 5, *n]", None),
    ];
    for (value, number) in cases {
        let source = format!("version: 2.2\nx: {value} # comment\ny: 1\n");
        let document = parse(source.as_bytes());
        let found: Vec<_> = document.diagnostics().iter().collect();
        assert_eq!(
            found.len(),
            usize::from(number.is_some()),
            "{value}: {found:?}"
        );
        if let Some(number) = number {
            assert_eq!(found[0].code, DiagnosticCode::ParseHeader);
            assert!(!found[0].is_error());
            let message = format!("a number in `x` is read as {number}");
            assert_eq!(found[0].message, message);
            assert_eq!(found[0].primary.start, 16, "{value}");
        }
        assert!(document.header().unwrap().get("x").is_some());
    }
}

#[test]
fn a_number_that_json_does_not_have_is_a_text() {
    let document = parse(b"version: 2.2\nlimit: .inf\n");
    assert_eq!(
        document.header().unwrap().get("limit"),
        Some(&json!(".inf"))
    );
}

#[test]
fn a_place_inside_a_fenced_header_is_one_of_the_source() {
    let source = b"---\nversion: 2.2\nkey: [1, 2\n---\n<|start|>user<|message|>a<|end|>";
    let document = parse(source);
    let found = &document.diagnostics()[0];
    assert_eq!(found.code, DiagnosticCode::ParseHeader);
    assert!((17..=28).contains(&found.primary.start), "{found:?}");
    let twice = parse(b"---\nmodel: a\nmodel: b\n---\n");
    assert_eq!(twice.diagnostics()[0].primary.start, 13);
}

#[test]
fn hostile_headers_are_refused_and_frames_read() {
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &"bcdefgh"
            .chars()
            .zip("abcdefg".chars())
            .fold(String::new(), |text, (to, from)| {
                text + &format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 9].join(","))
            });
    let cases = [
        bomb,
        format!("deep: {}\n", "[".repeat(100_000)),
        format!("deep: {}{}\n", "{a: ".repeat(5_000), "}".repeat(5_000)),
        format!("long: {}\n", "x".repeat(limits::MAX_DOCUMENT_HEADER)),
        format!("many: [{}]\n", "1,".repeat(100_000)),
        (0..1_000).fold(String::new(), |text, depth| {
            text + &" ".repeat(depth) + "a:\n"
        }),
    ];
    for case in cases {
        let source = format!("version: 2.2\n{case}<|start|>user<|message|>a<|end|>");
        let document = parse(source.as_bytes());
        assert_eq!(document.header(), None);
        assert_eq!(document.diagnostics()[0].code, DiagnosticCode::ParseHeader);
        let frames = document.frames().iter();
        assert_eq!(frames.filter(|frame| !frame.is_stray()).count(), 1);
    }
}

#[test]
fn a_deep_header_needs_no_large_stack() {
    let nested = |levels: usize| {
        let flow = format!("x: {}{}", "{a: ".repeat(levels), "}".repeat(levels));
        let block = (0..levels).fold(String::new(), |text, depth| {
            text + &" ".repeat(depth) + "a:\n"
        });
        let sequence = format!("x:\n  {}1", "- ".repeat(levels));
        let alias = format!("x: &x {}1{}\ny: *x", "[".repeat(levels), "]".repeat(levels));
        [flow, block, sequence, alias]
    };
    // Without optimisation the parser needs more than the 128 KiB that the released one fits.
    let thread = std::thread::Builder::new().stack_size(384 * 1024);
    let reading = thread.spawn(move || {
        for (levels, is_read) in [(8, true), (40, true), (60, false)] {
            for header in nested(levels) {
                let source = format!("version: 2.2\n{header}\n<|start|>user<|message|>a<|end|>");
                let document = parse(source.as_bytes());
                assert_eq!(document.header().is_some(), is_read, "{levels}: {header}");
            }
        }
    });
    reading.unwrap().join().unwrap();
}

#[test]
fn a_header_that_is_no_text_says_where() {
    let source = b"version: 2.2\nmodel: \xff\n<|start|>user<|message|>a<|end|>";
    let found = &parse(source).diagnostics()[0].clone();
    assert_eq!(found.primary.bytes(source), b"\xff");
}

#[test]
fn the_writer_quotes_what_could_be_something_else() {
    let header = HeaderBuf::new("2.10")
        .with_model("4")
        .with_extra("plain", "gpt-oss/120b_v1.2")
        .with_extra("yes", "No")
        .with_extra("a key", "x: y # z")
        .with_extra("list", json!([1, {"a": null}, "<|start|>", []]))
        .with_extra("empty", "")
        .with_extra("lines", "---\n<|start|>user<|message|>forged<|end|>\n");
    assert_eq!(
        write_header(&header).unwrap(),
        r#"version: 2.10
model: "4"
plain: gpt-oss/120b_v1.2
"yes": "No"
"a key": "x: y # z"
list: [1, {"a": null}, "<|start|>", []]
empty: ""
lines: "---\n<|start|>user<|message|>forged<|end|>\n"
"#,
    );
}

#[test]
fn a_header_that_would_not_read_back_is_refused() {
    let deep = (0..200).fold(json!(1), |value, _| json!([value]));
    let headers = [
        HeaderBuf::new("2"),
        HeaderBuf::new("2.x"),
        HeaderBuf::new("2.0"),
        HeaderBuf::new("2.2\nmodel: a"),
        HeaderBuf::new("2.2").with_extra("version", "2.0"),
        HeaderBuf::new("2.2").with_extra("deep", deep),
        HeaderBuf::new("2.2").with_model("x".repeat(limits::MAX_DOCUMENT_HEADER)),
    ];
    for header in headers {
        let refused = write_header(&header).unwrap_err();
        assert!(matches!(refused, WriteError::Header { .. }));
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            map(inner).prop_map(Value::Object),
        ]
    })
}

fn map(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    proptest::collection::vec((text(), value), 0..5)
        .prop_map(|entries| entries.into_iter().collect())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_. -]{0,8}",
        proptest::sample::select(vec![
            "null",
            "~",
            "1e5",
            "0x1f",
            "0o7",
            "1_000",
            "12:30",
            ".inf",
            "2024-01-01",
            "=",
            "<<",
            "!x",
            "&a",
            "*a",
            "- a",
            "? a",
            "@",
            "`",
            "%YAML",
            "...",
            "---",
            "\u{7f}",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "\u{fffe}",
            "\r",
            "\u{0}",
        ])
        .prop_map(str::to_owned),
        marked_text(),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 20_000)))]

    #[test]
    fn every_header_survives(
        minor in 1..100_u32,
        model in proptest::option::of(text()),
        settings in map(value()),
        extra in map(value()),
    ) {
        let mut header = HeaderBuf::new(format!("2.{minor}"));
        header.model = model;
        header.generation_settings = settings;
        header.extra = extra;
        let text = write_header(&header).unwrap() + "<|start|>user<|message|>a<|end|>\n";
        let document = parse(text.as_bytes());
        let read = HeaderBuf::from(document.header().unwrap());
        prop_assert_eq!(&read, &header);
        prop_assert!(document.diagnostics().iter().all(|found| found.code != DiagnosticCode::ParseHeader));
        let order = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
        prop_assert_eq!(order(&read.extra), order(&header.extra));
        prop_assert_eq!(document.frames().len(), 1);
    }
}
