//! Bodies constrained to JSON: what is an error, and where.

use logue_source::DiagnosticCode;
use openchatml::{FrameBuf, check, parse, write_frame};
use proptest::prelude::*;

/// Where `check` says that `body` is no JSON, as an offset in the body, and its message.
fn violation(body: &str) -> Option<(usize, String)> {
    let frame = FrameBuf::user(body).with_constrain("json");
    let mut source = String::from("version: 2.2\n");
    write_frame(&mut source, &frame).unwrap();
    let document = parse(source.as_bytes());
    let found = check(&document);
    let found = found
        .iter()
        .find(|found| found.code == DiagnosticCode::BodyConstraintViolation)?;
    let read = &document.frames()[0];
    let offset = (0..=body.len())
        .find(|offset| document.body_place(read, *offset) == found.primary.start)
        .unwrap();
    Some((offset, found.message.clone()))
}

#[test]
fn what_json_allows_is_no_violation() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let texts = [
        "1e999",
        "-0.0E+99999",
        "123456789012345678901234567890",
        r#""\ud800""#,
        r#"{"a":1,"a":2}"#,
        " \n\t\r{}\n",
        deep.as_str(),
    ];
    for text in texts {
        assert_eq!(violation(text), None);
    }
}

#[test]
fn a_violation_stands_at_the_byte_that_breaks_it() {
    let cases = [
        ("", 0),
        ("{\"a\":", 5),
        ("[1", 2),
        ("{\"x\":}", 5),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("tru!", 3),
        ("{} {}", 3),
        ("01", 1),
        ("\"a\\q\"", 2),
        ("\"\\u12g4\"", 1),
        ("\"a\tb\"", 2),
        ("\"a\nb\"", 2),
        ("{\n \"a\n", 5),
        ("{\n \"a\": \"b\u{1}", 10),
        ("\"\n\"", 1),
        ("\u{b}1", 0),
        ("[\n\n x]", 4),
        ("[1,\n]", 4),
        ("{\"a\"\n1}", 5),
        ("1.\n", 2),
        ("[-\n]", 2),
        ("tr\nue", 2),
        ("\"\\\n\"", 1),
    ];
    let mut wrong = Vec::new();
    for (body, expected) in cases {
        let found = violation(body);
        if found.as_ref().map(|(offset, _)| *offset) != Some(expected) {
            wrong.push(format!("{body:?}: {expected} expected, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_message_counts_lines_and_columns_in_the_body() {
    let (_, message) = violation("{\n \"a\": \"b\u{1}\"}").unwrap();
    assert!(message.ends_with(" at line 2 column 9"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 40_000)))]

    /// A body that is cut at the reported byte could still have become JSON, so what is reported
    /// of it is its end, or the byte there.
    #[test]
    fn nothing_before_the_reported_byte_is_wrong(body in r#"[\[\]{}:,"\\0-9.eE+tru \n\ta-]{0,12}"#) {
        if let Some((offset, _)) = violation(&body)
            && let Some((earlier, _)) = violation(&body[..offset])
        {
            prop_assert!(earlier + 1 >= offset, "{body:?}");
        }
    }
}
