//! Cases as documents: in `conformance/openchatml/convert/*.md`, each heading has a conversion and
//! what is expected of it.
//!
//! The first line under a heading names both forms, `ocml2.2 -> json`, with `auto` for a form that
//! is to be found out, and options after them: `strict`
//! (no loss of any severity), `thinking`, `line`. The first code block is
//! the input without its last newline. The second is the output, or `refused:` and why. The third,
//! where there is one, has the findings of reading and then the losses, one a line.

use std::fmt::Write as _;

use logue_source::Source;
use openchatml::convert::{self, ConvertOptions};
use openchatml::project::{self, JsonFormat};
use openchatml::{Dialect, LossSeverity, Transcript};

#[test]
fn from_2_2() {
    run(
        include_str!("../../../../conformance/openchatml/convert/from-2.2.md"),
        20,
    );
}

#[test]
fn from_2_0() {
    run(
        include_str!("../../../../conformance/openchatml/convert/from-2.0.md"),
        10,
    );
}

#[test]
fn json() {
    run(
        include_str!("../../../../conformance/openchatml/convert/json.md"),
        22,
    );
}

#[test]
fn openai() {
    run(
        include_str!("../../../../conformance/openchatml/convert/openai.md"),
        12,
    );
}

#[test]
fn sharegpt() {
    run(
        include_str!("../../../../conformance/openchatml/convert/sharegpt.md"),
        10,
    );
}

#[test]
fn providers() {
    run(
        include_str!("../../../../conformance/openchatml/convert/providers.md"),
        6,
    );
}

#[test]
fn harmony() {
    run(
        include_str!("../../../../conformance/openchatml/convert/harmony.md"),
        9,
    );
}

fn run(suite: &str, at_least: usize) {
    let mut failed = String::new();
    let mut count = 0;
    for case in suite.split("\n## ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let mut parts = rest.split("\n```");
        let forms = parts.next().unwrap().trim();
        let mut block = || {
            let part = parts.next()?;
            parts.next();
            part.split_once('\n').map(|(_, text)| text.to_owned())
        };
        let source = block().unwrap_or_else(|| panic!("{title}: no input"));
        let expected = block().unwrap_or_default();
        let notes = block().unwrap_or_default();
        let (found, found_notes) = convert(forms, &source);
        if found.trim_end() != expected.trim_end() || found_notes.trim_end() != notes.trim_end() {
            writeln!(
                failed,
                "\n## {title}\n{forms}\n\n```text\n{source}\n```\n\n```text\n{}\n```\n\n```text\n{}\n```",
                found.trim_end(),
                found_notes.trim_end()
            )
            .unwrap();
        }
        count += 1;
    }
    assert!(failed.is_empty(), "found:\n{failed}");
    assert!(count >= at_least, "only {count} cases were found");
}

fn convert(forms: &str, source: &str) -> (String, String) {
    let mut words = forms.split_whitespace();
    let from = words.next().unwrap();
    assert_eq!(words.next(), Some("->"), "{forms}");
    let to = words.next().unwrap();
    let mut options = ConvertOptions::default();
    for word in words {
        match word {
            "strict" => options.strict = Some(LossSeverity::Identity),
            "thinking" => options.thinking = true,
            "line" => options.line = true,
            other => panic!("{other} is no option"),
        }
    }
    let bytes = source.as_bytes();
    let mut notes = String::new();
    let projection = match from {
        "auto" => project::detect(bytes),
        name => JsonFormat::parse(name),
    };
    let (transcript, diagnostics, losses) = if let Some(projection) = projection {
        let read = project::read(bytes, projection, &options);
        if from == "auto" {
            writeln!(notes, "found {projection}").unwrap();
        }
        (read.transcript, read.diagnostics, read.losses)
    } else {
        let told = (from != "auto").then(|| Dialect::parse(from).unwrap());
        let read = convert::read(bytes, told, &options);
        if from == "auto" {
            let sure = if read.certain { "" } else { ", uncertain" };
            writeln!(notes, "found {}{sure}", read.dialect).unwrap();
        }
        (read.transcript, read.diagnostics, read.losses)
    };
    let lines = Source::new("case", bytes);
    for found in diagnostics {
        assert!(
            found.expected.is_some() && !found.help.is_empty(),
            "{found:?}"
        );
        let at = lines.line_column(found.primary.start);
        let (severity, code, text) = (found.severity.as_str(), found.code, found.message);
        writeln!(notes, "{severity} {code} {}:{} {text}", at.line, at.column).unwrap();
    }
    let told: Vec<_> = losses.iter().map(ToString::to_string).collect();
    let written = if options.refuses(&losses) {
        Err(convert::ConvertError::Losses(losses))
    } else {
        write(&transcript, to, &options)
    };
    for loss in told {
        writeln!(notes, "read: {loss}").unwrap();
    }
    match written {
        Ok(written) => {
            for loss in written.losses {
                writeln!(notes, "write: {loss}").unwrap();
            }
            (written.text, notes)
        }
        Err(error) => (format!("refused: {error}"), notes),
    }
}

fn write(
    transcript: &Transcript,
    to: &str,
    options: &ConvertOptions,
) -> Result<convert::WriteResult, convert::ConvertError> {
    match JsonFormat::parse(to) {
        Some(projection) => project::write(transcript, projection, options),
        None => convert::write(transcript, Dialect::parse(to).unwrap(), options),
    }
}
