//! Reading each dialect into a transcript.

use super::{Read, assign_ids, harmony};
use crate::detect::detect;
use crate::dialect::Dialect;
use crate::document::Document;
use crate::header::Rules;
use crate::legacy;
use crate::loss::{Loss, Subject};
use crate::reader::parse_fragment_as;

pub(super) fn read(bytes: &[u8], from: Option<Dialect>) -> Read {
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

fn from_1_x(bytes: &[u8], dialect: Dialect, certain: bool) -> Read {
    let options = match dialect {
        Dialect::ChatMl => legacy::Options::plain(),
        _ => legacy::Options::default(),
    };
    let document = legacy::parse(bytes, &options);
    let (transcript, losses) = legacy::to_transcript(&document);
    Read {
        transcript,
        dialect,
        certain,
        diagnostics: document.diagnostics().to_vec(),
        losses,
    }
}

fn from_2_x(bytes: &[u8], fragment: Rules, certain: bool) -> Read {
    let document = parse_fragment_as(bytes, fragment);
    let mut transcript = document.to_transcript();
    let mut losses = replaced_bytes(&document);
    let dialect = match document.rules() {
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
