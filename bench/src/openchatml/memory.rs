//! What reading takes of the heap.

use std::hint::black_box;

use logue_o200k::{SpecialSet, encode_with_specials};
use openchatml::harmony::{Event, Options, Stream};
use openchatml::parse;

use super::streaming::{stream_ids, stream_text};
use crate::measure::{Heap, HeapUse, Row, as_float};

/// Bytes of the body that is streamed.
const BODY: usize = 64_000_000;

pub(super) fn rows(rows: &mut Vec<Row>, text: &str, harmony: &str, heap: Heap) {
    let mut frames = 0;
    let borrowed = heap(&mut || frames = parse(black_box(text.as_bytes())).frames().len());
    let each = |used: HeapUse, of: usize| as_float(used.allocations) / as_float(of);
    rows.push(
        Row::new("heap: text → borrowed frames", false)
            .ours(format!(
                "{:.4} allocations a frame, peak {:.1} MB",
                each(borrowed, frames),
                as_float(borrowed.peak) / 1e6
            ))
            .peer(""),
    );
    let owned = heap(&mut || drop(black_box(parse(text.as_bytes()).to_owned_frames())));
    rows.push(
        Row::new("heap: text → owned frames", true)
            .ours(format!("{:.2} allocations a frame", each(owned, frames)))
            .peer(""),
    );
    let mut told = 0;
    let chunks = harmony.len().div_ceil(7);
    let streamed = heap(&mut || told = stream_text(harmony));
    let ids = encode_with_specials(harmony, &SpecialSet::HARMONY);
    let by_id = heap(&mut || told += stream_ids(&ids));
    black_box(told);
    rows.push(
        Row::new("heap: streaming conversations", true)
            .ours(format!(
                "{:.5} allocations a chunk, {:.5} a token, peak {} bytes",
                each(streamed, chunks),
                each(by_id, ids.len()),
                streamed.peak.max(by_id.peak),
            ))
            .peer(""),
    );
    let used = heap(&mut body_in_chunks);
    rows.push(
        Row::new("heap: streaming one body of 64 MB", true)
            .ours(format!(
                "{} allocations, peak {} bytes",
                used.allocations, used.peak
            ))
            .peer("")
            .goal("bounded", Some(used.peak < 128 * 1024)),
    );
}

fn body_in_chunks() {
    let mut told = 0;
    let mut sink = |event: Event<'_>| {
        if let Event::Delta(text) = event {
            told += black_box(text).len();
        }
    };
    let mut stream = Stream::new(Options::default());
    stream.push(b"<|start|>assistant<|channel|>final<|message|>", &mut sink);
    let line = "A line of an answer, na\u{EF}ve and of the usual kind: a < b.\n".as_bytes();
    let mut sent = 0;
    while sent < BODY {
        for chunk in line.chunks(7) {
            stream.push(chunk, &mut sink);
        }
        sent += line.len();
    }
    stream.push(b"<|return|>", &mut sink);
    stream.finish(&mut sink);
    black_box(told);
}
