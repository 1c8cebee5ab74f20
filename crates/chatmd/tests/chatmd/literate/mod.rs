//! Cases as Markdown documents in `conformance/chatmd/`.
//!
//! Each heading has a text and its expectations. The first code block of a heading is the text
//! without its last newline. With the word `escaped` after its fence, it may contain escapes of Rust
//! string literals. Each of the other blocks is an expectation:
//!
//! - `tree`: the raw tree in the form of `Tree::outline`.
//! - `findings`: the findings of `check` with severity, code, position and text, then expectation and
//!   help. Without such a block, only findings about unknown attributes and tools are accepted,
//!   because most names in cases are invented.
//! - `view`: the typed view, one line per element (see `view.rs`).
//! - `file NAME`: not an expectation, but a file that the text may refer to. With one, imports are
//!   expanded for all expectations except the tree, and findings name their file.
//! - `sent`: the messages of the evaluation as JSON.

mod cases;
mod view;

use std::fmt::Write as _;

use chatmd::{Document, MemoryWorld, check, evaluate, load, parse};
use logue_source::{Diagnostic, DiagnosticCode, SourceMap, Span};

use cases::{Case, cases};

#[test]
fn elements() {
    run(
        include_str!("../../../../../conformance/chatmd/elements.md"),
        20,
    );
}

#[test]
fn attributes() {
    run(
        include_str!("../../../../../conformance/chatmd/attributes.md"),
        30,
    );
}

#[test]
fn raw_blocks() {
    run(include_str!("../../../../../conformance/chatmd/raw.md"), 20);
}

#[test]
fn comments() {
    run(
        include_str!("../../../../../conformance/chatmd/comments.md"),
        10,
    );
}

#[test]
fn unknown_markup() {
    run(
        include_str!("../../../../../conformance/chatmd/unknown-markup.md"),
        20,
    );
}

#[test]
fn malformed() {
    run(
        include_str!("../../../../../conformance/chatmd/malformed.md"),
        25,
    );
}

#[test]
fn messages() {
    run(
        include_str!("../../../../../conformance/chatmd/messages.md"),
        15,
    );
}

#[test]
fn imports() {
    run(
        include_str!("../../../../../conformance/chatmd/imports.md"),
        15,
    );
}

#[test]
fn config() {
    run(
        include_str!("../../../../../conformance/chatmd/config.md"),
        12,
    );
}

#[test]
fn tools() {
    run(
        include_str!("../../../../../conformance/chatmd/tools.md"),
        20,
    );
}

#[test]
fn calls_and_reasoning() {
    run(
        include_str!("../../../../../conformance/chatmd/calls.md"),
        20,
    );
}

fn run(suite: &str, at_least: usize) {
    let mut failed = String::new();
    let all = cases(suite);
    for case in &all {
        let found = dump(case);
        let kinds = case.blocks.iter().map(|block| block.0.as_str());
        let agrees = kinds.filter(|kind| kind.starts_with("file ")).count() + found.len()
            == case.blocks.len()
            && found.iter().all(|block| case.blocks.contains(block));
        if !agrees {
            writeln!(failed, "## {}", case.title).unwrap();
            for (kind, text) in &found {
                writeln!(failed, "```{kind}\n{text}\n```").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "found instead:\n{failed}");
    assert!(all.len() >= at_least, "only {} cases were found", all.len());
}

/// Returns the actual results of the kinds that a case expects.
fn dump(case: &Case) -> Vec<(String, String)> {
    let text = case.text.as_str();
    let tree = parse(text);
    assert_eq!(tree.print(), text, "{}", case.title);
    let mut world = MemoryWorld::new();
    let mut has_files = false;
    for (kind, text) in &case.blocks {
        if let Some(name) = kind.strip_prefix("file ") {
            world.insert(name, text.as_str());
            has_files = true;
        }
    }
    let asks = case.blocks.iter().any(|block| block.0 == "findings");
    let (document, findings) = if has_files {
        let loaded = load("case.md", text, &mut world);
        let findings = told(
            &of_interest(loaded.diagnostics(), asks),
            &loaded.source_map(),
        );
        (loaded.document().clone(), findings)
    } else {
        let map = SourceMap::single("case.md", text.as_bytes());
        let findings = told(&of_interest(&check(text), asks), &map);
        (Document::from_tree(&tree).0, findings)
    };
    let wants = |kind: &str| case.blocks.iter().any(|block| block.0 == kind);
    let mut found = Vec::new();
    let mut add = |kind: &str, text: &str| {
        found.push((kind.to_owned(), text.trim_end_matches('\n').to_owned()));
    };
    if wants("tree") {
        add("tree", &tree.outline());
    }
    if wants("findings") || !findings.is_empty() {
        add("findings", &findings);
    }
    if wants("view") {
        add("view", &view::dump(&document));
    }
    if wants("sent") {
        let mut sent = String::new();
        for message in evaluate(&document, &mut world).messages {
            writeln!(sent, "{}", message.to_json()).unwrap();
        }
        add("sent", &sent);
    }
    found
}

/// Returns all findings, or without an expectation those about known names.
fn of_interest(findings: &[Diagnostic], asks: bool) -> Vec<Diagnostic> {
    let made_up = |finding: &Diagnostic| {
        matches!(
            finding.code,
            DiagnosticCode::UnknownAttribute | DiagnosticCode::UndeclaredTool
        )
    };
    let findings = findings.iter();
    findings
        .filter(|finding| asks || !made_up(finding))
        .cloned()
        .collect()
}

/// Places are named with their file where it is not the case's own.
fn told(findings: &[Diagnostic], map: &SourceMap<'_>) -> String {
    let mut out = String::new();
    for finding in findings {
        let span = finding.primary;
        let (source, start) = map.locate(span.start).unwrap();
        let shown = Span::new(start, start + span.end - span.start).bytes(source.text());
        let place = map.place(span.start);
        let place = place.strip_prefix("case.md:").unwrap_or(&place);
        tell(
            finding,
            place,
            std::str::from_utf8(shown).unwrap(),
            &mut out,
        );
    }
    out
}

/// Every finding says what is wrong, where, and what to do.
fn tell(finding: &Diagnostic, place: &str, shown: &str, out: &mut String) {
    assert!(!finding.message.is_empty() && !finding.message.ends_with('.'));
    assert!(!finding.help.is_empty(), "{finding:?}");
    let (severity, code) = (finding.severity.as_str(), finding.code);
    writeln!(out, "{severity} {code} {place} {shown:?}").unwrap();
    if let Some(expected) = &finding.expected {
        writeln!(out, "  expected: {expected}").unwrap();
    }
    for help in &finding.help {
        writeln!(out, "  help: {help}").unwrap();
    }
}
