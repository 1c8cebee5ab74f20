//! Whole files, against a scan of the same bytes and against the JSON parser on the same bodies.

use std::hint::black_box;

use openchatml::{FrameBuf, Role, check, check_structure, parse};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::conversations;
use crate::measure::{Row, in_turn};

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
        "text → owned frames, structural checks",
        true,
        0.15,
        text,
        &|bytes| {
            let document = parse(bytes);
            document.to_owned_frames().len() + check_structure(&document).len()
        },
    );
    json(rows, frames);
    noise
}

/// Calls only, behind what declares their tools, so that nearly every byte is in a body that is
/// JSON and every call is checked.
fn json(rows: &mut Vec<Row>, frames: &[FrameBuf]) {
    let calls: Vec<FrameBuf> = frames
        .iter()
        .filter(|frame| frame.is_call())
        .cloned()
        .collect();
    let declaring = frames.iter().find(|frame| frame.role == Role::Developer);
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
