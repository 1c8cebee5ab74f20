//! Whole files, against a scan of the same bytes and against the JSON parser on the same bodies.

use std::hint::black_box;

use openchatml::{FrameBuf, FrameRole, OwnedDocument, check, check_structure, parse, parse_owned};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::conversations;
use crate::measure::{Row, Times, in_turn};

/// Adds the rows; gives the noise of the scan.
pub(super) fn rows(rows: &mut Vec<Row>, text: &str, frames: &[FrameBuf]) -> f64 {
    let mut noise = 0.0_f64;
    let finder = memchr::memmem::Finder::new(b"<|");
    let mut scanned =
        |job: &str, utf8: bool, goal: f64, text: &str, work: &dyn Fn(&[u8]) -> usize| {
            let bytes = text.as_bytes();
            let (ours, scan) = in_turn(
                || work(black_box(bytes)),
                || finder.find_iter(black_box(bytes)).count(),
            );
            noise = noise.max(scan.noise());
            let ratio = scan.least.as_secs_f64() / ours.least.as_secs_f64();
            rows.push(
                Row::new(job, utf8)
                    .mean(ours)
                    .ours(format!("{:.2} GB/s", ours.rate(bytes.len()) / 1e3))
                    .peer(format!(
                        "scan for `<|` {:.2} GB/s",
                        scan.rate(bytes.len()) / 1e3
                    ))
                    .ratio(format!("{ratio:.3}"))
                    .goal(format!("≥ {goal} of the scan"), Some(ratio >= goal)),
            );
        };
    scanned(
        "text → borrowed frames, diagnostics",
        false,
        0.5,
        text,
        &|bytes| parse(bytes).frames().len(),
    );
    scanned(
        "text → frames each with its own text, structural checks",
        true,
        0.15,
        text,
        &|bytes| {
            let document = parse(bytes);
            document.to_owned_frames().len() + check_structure(&document).len()
        },
    );
    owned(rows, text, frames);
    json(rows, frames);
    noise
}

/// Documents that own their source: one copy of the text, shared, with frames as places in it.
///
/// Each job looks whether the text is UTF-8, reads, checks the structure and frees what it made.
/// The first is handed its bytes, as whoever read a file has them. The others copy the text; where
/// that is one document, most of the time goes to memory that is fresh from the system, which the
/// last row shows beside the copy alone.
fn owned(rows: &mut Vec<Row>, text: &str, frames: &[FrameBuf]) {
    const GOAL: f64 = 0.15;
    let finder = memchr::memmem::Finder::new(b"<|");
    let scan = |text: &str| finder.find_iter(black_box(text.as_bytes())).count();
    let checked = |document: &OwnedDocument| {
        document.frames().len() + check_structure(&document.document()).len()
    };
    let mut row = |job: &str, bytes: usize, (ours, theirs): (Times, Times), peer: &str| {
        let ratio = theirs.least.as_secs_f64() / ours.least.as_secs_f64();
        let row = Row::new(job, true)
            .mean(ours)
            .ours(format!("{:.2} GB/s", ours.rate(bytes) / 1e3))
            .peer(format!("{peer} {:.2} GB/s", theirs.rate(bytes) / 1e3))
            .ratio(format!("{ratio:.3}"));
        rows.push(if peer.starts_with("scan") {
            row.goal(format!("≥ {GOAL} of the scan"), Some(ratio >= GOAL))
        } else {
            row
        });
    };

    let mut bytes = text.as_bytes().to_vec();
    let handed_over = || {
        let document = parse_owned(std::mem::take(black_box(&mut bytes)));
        let found = checked(&document);
        bytes = document.into_source().into_bytes();
        found
    };
    row(
        "bytes handed over → owned document (shared source), structural checks",
        text.len(),
        in_turn(handed_over, || scan(text)),
        "scan for `<|`",
    );

    let documents = documents_of_a_megabyte(frames);
    let copied = || -> usize {
        let documents = documents.iter();
        documents
            .map(|text| checked(&parse_owned(black_box(text.as_bytes()))))
            .sum()
    };
    row(
        "text copied → the same, documents of 1 MB",
        documents.iter().map(String::len).sum(),
        in_turn(copied, || {
            documents.iter().map(|text| scan(text)).sum::<usize>()
        }),
        "scan for `<|`",
    );

    let copied = || checked(&parse_owned(black_box(text.as_bytes())));
    row(
        "text copied → the same, one document",
        text.len(),
        in_turn(copied, || scan(text)),
        "scan for `<|`",
    );
    row(
        "text copied → the same, one document",
        text.len(),
        in_turn(copied, || black_box(black_box(text).to_owned()).len()),
        "the copy alone",
    );
}

/// The frames as documents of about a megabyte each.
fn documents_of_a_megabyte(frames: &[FrameBuf]) -> Vec<String> {
    let mut documents = Vec::new();
    let (mut from, mut size) = (0, 0);
    for (at, frame) in frames.iter().enumerate() {
        size += frame.body.len();
        if size >= 1_000_000 || at + 1 == frames.len() {
            let part = frames.get(from..=at).unwrap_or_default();
            documents.push(conversations::openchatml(part));
            (from, size) = (at + 1, 0);
        }
    }
    documents
}

/// Calls only, behind what declares their tools, so that nearly every byte is in a body that is
/// JSON and every call is checked.
fn json(rows: &mut Vec<Row>, frames: &[FrameBuf]) {
    let calls: Vec<FrameBuf> = frames
        .iter()
        .filter(|frame| frame.is_call())
        .cloned()
        .collect();
    let declaring = frames
        .iter()
        .find(|frame| frame.role == FrameRole::Developer);
    let document: Vec<FrameBuf> = declaring.into_iter().chain(&calls).cloned().collect();
    let text = conversations::openchatml(&document);
    let bytes: usize = calls.iter().map(|call| call.body.len()).sum();
    let ours = || {
        let document = parse(black_box(text.as_bytes()));
        document.to_owned_frames().len() + check(&document).len()
    };
    let built = || {
        let bodies = calls.iter();
        bodies
            .filter(|call| serde_json::from_str::<Value>(&call.body).is_ok())
            .count()
    };
    let skipped = || {
        let bodies = calls.iter();
        bodies
            .filter(|call| serde_json::from_str::<IgnoredAny>(&call.body).is_ok())
            .count()
    };
    for (peer, job) in [
        ("serde_json to values", &built as &dyn Fn() -> usize),
        ("serde_json, nothing kept", &skipped),
    ] {
        let (ours, theirs) = in_turn(ours, job);
        let ratio = theirs.least.as_secs_f64() / ours.least.as_secs_f64();
        let kept = peer.ends_with("values");
        rows.push(
            Row::new("the same, JSON parsed, calls checked (calls only)", true)
                .mean(ours)
                .ours(format!("{:.0} MB/s of bodies", ours.rate(bytes)))
                .peer(format!("{peer} {:.0} MB/s", theirs.rate(bytes)))
                .ratio(format!("{ratio:.2}"))
                .goal(
                    if kept { "≥ 0.7" } else { "" },
                    kept.then_some(ratio >= 0.7),
                ),
        );
    }
}
