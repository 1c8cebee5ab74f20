//! Cases as documents: in `conformance/openchatml/envelope/` and `checks/`, each heading has a
//! transcript and what is expected of it.
//!
//! The first code block under a heading is the transcript without its last newline. The second
//! has one line for each frame,
//!
//! ```text
//! + assistant to=f call_id=1 [commentary] |json "body" call
//! ```
//!
//! with `+` for visible and `-` for hidden, the channel in force with `*` where it is not named,
//! and how the frame ends (`cut` without a terminator); then one for each finding of `check`: its
//! severity, code, place, and the text that it underlines.

use std::fmt::Write as _;

use logue_source::{Diagnostic, Source};
use openchatml::{Channel, Document, Frame, Terminator, check, parse};

#[test]
fn the_examples_of_the_specification() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/examples.md"),
        4,
    );
}

#[test]
fn the_fixtures_of_the_specification() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/fixtures.md"),
        8,
    );
}

#[test]
fn frame_headers() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/frame-headers.md"),
        20,
    );
}

#[test]
fn bodies_and_ends() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/bodies.md"),
        20,
    );
}

#[test]
fn channels() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/channels.md"),
        6,
    );
}

#[test]
fn document_headers() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/document-headers.md"),
        18,
    );
}

#[test]
fn version_2_0() {
    run(
        include_str!("../../../../conformance/openchatml/envelope/version-2.0.md"),
        20,
    );
}

#[test]
fn tools_in_typescript() {
    run(
        include_str!("../../../../conformance/openchatml/checks/typescript.md"),
        30,
    );
}

#[test]
fn tools_in_json() {
    run(
        include_str!("../../../../conformance/openchatml/checks/json-schema.md"),
        20,
    );
}

#[test]
fn calls_and_replies() {
    run(
        include_str!("../../../../conformance/openchatml/checks/replies.md"),
        11,
    );
}

#[test]
fn profiles_and_capabilities() {
    run(
        include_str!("../../../../conformance/openchatml/checks/profiles.md"),
        20,
    );
}

fn run(suite: &str, at_least: usize) {
    let mut failed = String::new();
    let mut count = 0;
    for case in suite.split("\n## ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let mut blocks = rest.split("\n```");
        let mut block = || {
            let (_info, text) = blocks.nth(1)?.split_once('\n').unwrap_or_default();
            Some(text.to_owned())
        };
        let source = block().unwrap_or_else(|| panic!("{title}: no transcript"));
        let expected = block().unwrap_or_else(|| panic!("{title}: nothing expected"));
        let found = dump(source.as_bytes());
        if found.trim_end() != expected.trim_end() {
            writeln!(failed, "## {title}\nexpected:\n{expected}\nfound:\n{found}").unwrap();
        }
        count += 1;
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(count >= at_least, "only {count} cases were found");
}

fn dump(source: &[u8]) -> String {
    let document = parse(source);
    let mut out = String::new();
    for frame in document.frames() {
        writeln!(out, "{}", line(&document, frame)).unwrap();
    }
    let reports = Source::new("case", source);
    for finding in check(&document) {
        assert_is_helpful(&finding);
        let at = reports.line_column(finding.primary.start);
        let text = String::from_utf8_lossy(finding.primary.bytes(source)).into_owned();
        let (severity, code) = (finding.severity.as_str(), finding.code);
        writeln!(out, "{severity} {code} {}:{} {text:?}", at.line, at.column).unwrap();
    }
    out
}

/// Every finding says what is wrong, what was expected and what to do.
fn assert_is_helpful(finding: &Diagnostic) {
    assert!(!finding.message.is_empty() && !finding.message.ends_with('.'));
    assert!(finding.expected.is_some(), "{finding:?}");
    assert!(!finding.help.is_empty(), "{finding:?}");
    assert!(finding.primary.start <= finding.primary.end);
}

fn line(document: &Document<'_>, frame: &Frame) -> String {
    let mut out = String::new();
    let shown = if frame.visibility().is_visible() {
        '+'
    } else {
        '-'
    };
    let role = if frame.is_stray() {
        "STRAY".to_owned()
    } else {
        frame.role().as_str().unwrap_or("OTHER").to_owned()
    };
    write!(out, "{shown} {role}").unwrap();
    let parts = [
        ("to", document.to(frame)),
        ("call_id", document.call_id(frame)),
        ("name", document.name(frame)),
        ("intent", document.intent(frame)),
        ("content_type", document.content_type(frame)),
    ];
    for (key, value) in parts {
        if let Some(value) = value {
            write!(out, " {key}={value}").unwrap();
        }
    }
    for attribute in frame.attributes() {
        write!(out, " ?{}", document.text(attribute.key)).unwrap();
        if let Some(value) = attribute.value {
            write!(out, "={}", document.text(value)).unwrap();
        }
    }
    let channel = match frame.channel() {
        Channel::Unknown => "unknown",
        channel => channel.as_str().unwrap(),
    };
    let implied = if frame.has_channel() { "" } else { "*" };
    write!(out, " [{channel}{implied}]").unwrap();
    if let Some(constrain) = document.constrain(frame) {
        write!(out, " |{constrain}").unwrap();
    }
    let end = match frame.terminator() {
        Terminator::End => "end",
        Terminator::Call => "call",
        Terminator::Return => "return",
        Terminator::None => "cut",
    };
    write!(out, " {:?} {end}", document.body_text(frame)).unwrap();
    out
}
