//! The table of training data: `logue-bench data mask [MB]`.
//!
//! Everything runs on one core in one run, the fastest of several is shown.

use std::hint::black_box;

use logue_data::O200k;
use logue_data::mask::{Columns, MaskForm, MaskOptions, Masker, write_masked};
use logue_o200k::Encoder;
use openchatml::convert::ConvertOptions;
use openchatml::project::{self, JsonFormat};
use openchatml::{FrameBuf, FrameRole, Terminator, Transcript};

use crate::conversations;
use crate::measure::{Row, as_float, in_turn, table};

/// Megabytes of text in a run without an argument.
const MEGABYTES: usize = 32;
/// The least megabytes a second of masks for gpt-oss, on one core.
const GOAL: f64 = 40.0;

/// Returns the size that the arguments name: nothing, or a number of megabytes.
pub fn size(arguments: &[String]) -> Option<usize> {
    match arguments {
        [] => Some(MEGABYTES),
        [number] => number.parse().ok().filter(|size| *size > 0),
        _ => None,
    }
}

/// Measures masks of rows and prints the table.
#[expect(clippy::print_stdout, reason = "the purpose of the command")]
pub fn mask(megabytes: usize) {
    let rows = rows(megabytes * 1_000_000);
    let size = rows.iter().map(String::len).sum();
    println!(
        "{} rows, {:.1} MB of JSON lines; one core, fastest of several in turn\n",
        rows.len(),
        as_float(size) / 1e6
    );
    let options = MaskOptions::new(MaskForm::Harmony);
    let mut masker = Masker::new(options, Box::new(O200k::new()));
    let mut encoder = Encoder::new();
    let (mut refused, mut out, mut ids) = (0, Vec::new(), Vec::new());
    let (ours, encoded) = in_turn(
        || {
            refused = 0;
            for row in &rows {
                out.clear();
                match masker.mask(black_box(row.as_bytes())) {
                    Ok(masked) => write_masked(masked, Columns::default(), &mut out),
                    Err(_) => refused += 1,
                }
            }
        },
        || {
            for row in &rows {
                ids.clear();
                encoder.encode_into(black_box(row), &mut ids);
            }
        },
    );
    let rate = ours.rate(size);
    let row = Row::new("rows to ids and masks for gpt-oss", true)
        .mean(ours)
        .ours(format!("{rate:.0} MB/s"))
        .peer(format!(
            "ids of the rows as text {:.0} MB/s",
            encoded.rate(size)
        ))
        .ratio(format!("{:.2}", rate / encoded.rate(size)))
        .goal(format!("≥ {GOAL} MB/s"), Some(rate >= GOAL));
    println!("{}", table(&[row]));
    println!("{refused} of {} rows refused", rows.len());
}

/// Returns rows of messages of about that many bytes.
fn rows(bytes: usize) -> Vec<String> {
    let frames = conversations::frames(bytes);
    let is_system = |frame: &FrameBuf| frame.role == FrameRole::System;
    let mut rows = Vec::new();
    let mut start = 0;
    while let Some(rest) = frames.get(start..).filter(|rest| !rest.is_empty()) {
        let next = rest.iter().skip(1).position(is_system);
        let length = next.map_or(rest.len(), |next| next + 1);
        start += length;
        // A row ends with an answer.
        let is_answer = |frame: &FrameBuf| frame.terminator == Terminator::Return;
        let conversation = rest.get(..length).unwrap_or(rest);
        let end = conversation.iter().rposition(is_answer);
        let conversation = conversation.iter().take(end.map_or(length, |end| end + 1));
        let transcript = Transcript::new(conversation.cloned().collect());
        let options = ConvertOptions::default()
            .with_thinking(true)
            .with_line(true);
        if let Ok(written) = project::write(&transcript, JsonFormat::OpenAi, &options) {
            rows.push(written.text);
        }
    }
    rows
}
