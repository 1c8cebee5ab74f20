//! Shapes of JSON as data sets have them: `conformance/shapes/*.md`, each with its reading.
//!
//! The line under a heading is the detected form, or `refused`. The first block is the row, the second
//! has each conversation in 2.2 and its losses, with their severity.

use std::fmt::Write as _;

use logue_source::Span;
use openchatml::convert::{self, ConvertOptions};
use openchatml::project::{self, JsonFormat};
use openchatml::{Dialect, LossSeverity};

#[test]
fn messages() {
    run(
        "messages",
        include_str!("../../../../conformance/shapes/messages.md"),
        15,
    );
}

#[test]
fn sharegpt() {
    run(
        "sharegpt",
        include_str!("../../../../conformance/shapes/sharegpt.md"),
        3,
    );
}

#[test]
fn providers() {
    run(
        "providers",
        include_str!("../../../../conformance/shapes/providers.md"),
        8,
    );
}

#[test]
fn rows() {
    run(
        "rows",
        include_str!("../../../../conformance/shapes/rows.md"),
        22,
    );
}

#[test]
fn frames() {
    run(
        "frames",
        include_str!("../../../../conformance/shapes/frames.md"),
        3,
    );
}

#[test]
fn unknown() {
    run(
        "unknown",
        include_str!("../../../../conformance/shapes/unknown.md"),
        9,
    );
}

fn run(name: &str, suite: &str, at_least: usize) {
    let mut failed = String::new();
    let mut count = 0;
    for case in suite.split("\n## ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let mut parts = rest.split("```");
        let form = parts.next().unwrap().trim();
        let row = parts.next().unwrap().strip_prefix("json\n").unwrap();
        let expected = parts.nth(1).unwrap().strip_prefix("text\n").unwrap();
        let (found_form, found) = read(row.trim_end());
        if (found_form, found.trim_end()) != (form, expected.trim_end()) {
            let row = row.trim_end();
            write!(
                failed,
                "\n## {title}\n{found_form}\n\n```json\n{row}\n```\n\n```text\n{found}```\n"
            )
            .unwrap();
        }
        count += 1;
    }
    assert!(failed.is_empty(), "{name}.md, found:\n{failed}");
    assert!(count >= at_least, "only {count} cases were found");
}

fn read(row: &str) -> (&'static str, String) {
    let mut text = String::new();
    let format = match project::recognize(row.as_bytes()) {
        Ok(format) => format,
        Err(error) => return ("refused", format!("{error}\n")),
    };
    let options = ConvertOptions::default().with_thinking(true);
    let part = Span::new(0, row.len());
    for read in project::read_all(row.as_bytes(), part, format, &options) {
        assert_eq!(read.diagnostics, [], "{row}");
        let written = convert::write(&read.transcript, Dialect::V2_2, &options).unwrap();
        text.push_str(&written.text);
        for loss in [read.losses, written.losses].concat() {
            let severity = loss.severity().map_or("note", LossSeverity::as_str);
            writeln!(text, "{severity} {}: {loss}", loss.kind).unwrap();
        }
    }
    (format.as_str(), text)
}

#[test]
fn forms_that_are_only_read_are_not_written() {
    let options = ConvertOptions::default();
    let read = project::read(b"[]", JsonFormat::OpenAi, &options);
    for form in JsonFormat::READ_ONLY {
        assert!(project::write(&read.transcript, form, &options).is_err());
        assert_eq!(JsonFormat::parse(form.as_str()), Some(form));
    }
}
