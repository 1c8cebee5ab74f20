//! Reading each dialect into a transcript.

use logue_source::{Diagnostic, DiagnosticCode};
use memchr::memmem;

use super::result::ReadResult;
use super::{assign_ids, harmony};
use crate::detect::detect;
use crate::dialect::Dialect;
use crate::document::Document;
use crate::loss::{Loss, LossKind, LossTarget};
use crate::read::batch::parse_fragment_as;
use crate::syntax::rules::Rules;
use crate::syntax::token::ControlToken;
use crate::v0_1;

pub(super) fn read(bytes: &[u8], from: Option<Dialect>) -> ReadResult {
    let detected = from.is_none().then(|| detect(bytes)).flatten();
    let dialect = from.or(detected.map(|found| found.dialect));
    let certain = from.is_some() || detected.is_some_and(|found| found.certain);
    match dialect.unwrap_or(Dialect::V2_2) {
        Dialect::V2_0 => from_2_x(bytes, Rules::V2_0, certain),
        Dialect::V2_2 => from_2_x(bytes, Rules::V2_2, certain),
        Dialect::Harmony => harmony::read(bytes, certain),
        dialect @ (Dialect::V0_1 | Dialect::ChatMl) => from_1_x(bytes, dialect, certain),
    }
}

fn from_1_x(bytes: &[u8], dialect: Dialect, certain: bool) -> ReadResult {
    let options = match dialect {
        Dialect::ChatMl => v0_1::LegacyReadOptions::plain(),
        _ => v0_1::LegacyReadOptions::default(),
    };
    let document = v0_1::parse(bytes, &options);
    let (transcript, losses) = v0_1::to_transcript(&document);
    ReadResult {
        transcript,
        dialect,
        certain,
        diagnostics: document.diagnostics().to_vec(),
        losses,
    }
}

fn from_2_x(bytes: &[u8], fragment: Rules, certain: bool) -> ReadResult {
    let document = parse_fragment_as(bytes, fragment);
    let mut transcript = document.to_transcript();
    let mut losses = replaced_bytes(&document);
    losses.extend(unreadable_header(&document));
    let dialect = match document.rules() {
        Rules::V2_0 => Dialect::V2_0,
        Rules::V2_2 => Dialect::V2_2,
    };
    if dialect == Dialect::V2_0 {
        losses.extend(assign_ids(&mut transcript.frames));
    }
    ReadResult {
        transcript,
        dialect,
        certain,
        diagnostics: document.diagnostics().to_vec(),
        losses,
    }
}

/// The losses of a document header: keys that cannot be read, or all of it with frames on its lines.
fn unreadable_header(document: &Document<'_>) -> Vec<Loss> {
    let Some(span) = document.header_span() else {
        return Vec::new();
    };
    let loss = |kind, text: &str| Loss::new(LossTarget::Transcript, kind, text);
    if document.header().is_some() {
        // An open fence is at the beginning and loses nothing.
        let is_value = |found: &&Diagnostic| {
            found.code == DiagnosticCode::ParseHeader
                && found.is_error()
                && (span.start + 1..span.end).contains(&found.primary.start)
        };
        let values = document.diagnostics().iter().filter(is_value);
        let text = "a value of the document header that cannot be read dropped";
        return values
            .map(|_| loss(LossKind::HeaderDropped, text))
            .collect();
    }
    let start = ControlToken::Start.as_str().as_bytes();
    vec![
        if memmem::find(span.bytes(document.source()), start).is_some() {
            let text = "the text with frames that is read as a document header dropped";
            loss(LossKind::TextDropped, text)
        } else {
            let text = "the unreadable document header dropped";
            loss(LossKind::HeaderDropped, text)
        },
    ]
}

/// The frames with bytes that are not text, which a transcript cannot hold.
fn replaced_bytes(document: &Document<'_>) -> Vec<Loss> {
    let source = document.source();
    if std::str::from_utf8(source).is_ok() {
        return Vec::new();
    }
    let frames = document.frames().iter().enumerate();
    frames
        .filter(|(_, frame)| std::str::from_utf8(frame.span().bytes(source)).is_err())
        .map(|(index, _)| {
            Loss::new(
                LossTarget::Frame(index),
                LossKind::BytesReplaced,
                "bytes that are not UTF-8 replaced",
            )
        })
        .collect()
}
