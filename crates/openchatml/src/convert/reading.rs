//! Reading each dialect into a transcript.

use super::{Read, assign_ids, harmony};
use crate::detect::detect;
use crate::dialect::Dialect;
use crate::document::Document;
use crate::header::Rules;
use crate::loss::{Loss, Subject};
use crate::owned::Transcript;
use crate::reader::parse_fragment_as;
use logue_source::{Code, Diagnostic, Span};

pub(super) fn read(bytes: &[u8], from: Option<Dialect>) -> Read {
    let detected = from.is_none().then(|| detect(bytes)).flatten();
    let dialect = from.or(detected.map(|found| found.dialect));
    let certain = from.is_some() || detected.is_some_and(|found| found.certain);
    match dialect.unwrap_or(Dialect::V2_2) {
        Dialect::V2_0 => from_2_x(bytes, Rules::V2_0, certain),
        Dialect::V2_2 => from_2_x(bytes, Rules::V2_2, certain),
        Dialect::Harmony => harmony::read(bytes, certain),
        other => unread(other, certain),
    }
}

/// A dialect that is known but not read.
fn unread(dialect: Dialect, certain: bool) -> Read {
    let found = Diagnostic::error(
        Code::ParseVersion,
        format!("{dialect} is not read"),
        Span::empty(0),
    )
    .with_expected("`2.2` or `2.0`")
    .with_help("nothing was read; name another dialect if it is in one");
    Read {
        transcript: Transcript::default(),
        dialect,
        certain,
        diagnostics: vec![found],
        losses: Vec::new(),
    }
}

fn from_2_x(bytes: &[u8], fragment: Rules, certain: bool) -> Read {
    let document = parse_fragment_as(bytes, fragment);
    let mut transcript = document.to_transcript();
    let mut losses = replaced_bytes(&document);
    let dialect = match document.rules {
        Rules::V2_0 => Dialect::V2_0,
        Rules::V2_2 => Dialect::V2_2,
    };
    if dialect == Dialect::V2_0 {
        losses.extend(assign_ids(&mut transcript.frames));
    }
    Read {
        transcript,
        dialect,
        certain,
        diagnostics: document.diagnostics().to_vec(),
        losses,
    }
}

/// The frames with bytes that are no text, which a transcript cannot hold.
fn replaced_bytes(document: &Document<'_>) -> Vec<Loss> {
    let source = document.source();
    if std::str::from_utf8(source).is_ok() {
        return Vec::new();
    }
    let frames = document.frames().iter().enumerate();
    frames
        .filter(|(_, frame)| std::str::from_utf8(frame.span().bytes(source)).is_err())
        .map(|(index, _)| Loss {
            subject: Subject::Frame(index),
            text: "bytes that are not UTF-8 replaced".to_owned(),
        })
        .collect()
}
