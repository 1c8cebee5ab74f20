//! What reading takes of the heap.

use std::hint::black_box;

use logue_o200k::{SpecialSet, encode_with_specials};
use openchatml::harmony::{Event, HarmonyReadOptions, Stream};
use openchatml::{parse, parse_owned, stream};

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
        Row::new("heap: text → frames each with its own text", true)
            .ours(format!(
                "{:.2} allocations a frame, peak {:.1} MB",
                each(owned, frames),
                as_float(owned.peak) / 1e6
            ))
            .peer(""),
    );
    let shared = heap(&mut || drop(black_box(parse_owned(black_box(text)))));
    rows.push(
        Row::new("heap: text copied → owned document (shared source)", true)
            .ours(format!(
                "{:.4} allocations a frame, peak {:.1} MB",
                each(shared, frames),
                as_float(shared.peak) / 1e6
            ))
            .peer(format!("the copy {:.1} MB", as_float(text.len()) / 1e6)),
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
    let jobs: [(&str, &mut dyn FnMut()); 2] = [
        ("Harmony", &mut harmony_in_chunks),
        ("OpenChatML", &mut openchatml_in_chunks),
    ];
    for (language, job) in jobs {
        let used = heap(job);
        rows.push(
            Row::new(
                format!("heap: streaming one body of 64 MB, {language}"),
                true,
            )
            .ours(format!(
                "{} allocations, peak {} bytes",
                used.allocations, used.peak
            ))
            .peer("")
            .goal("bounded", Some(used.peak < 128 * 1024)),
        );
    }
}

fn harmony_in_chunks() {
    let mut told = 0;
    let mut sink = |event: Event<'_>| {
        if let Event::Delta(text) = event {
            told += black_box(text).len();
        }
    };
    let mut stream = Stream::new(HarmonyReadOptions::default());
    body_in_chunks(&mut |chunk| stream.push(chunk, &mut sink));
    stream.finish(&mut sink);
    assert!(told > BODY, "the body was not told");
}

fn openchatml_in_chunks() {
    let mut told = 0;
    let mut sink = |event: stream::Event<'_>| {
        if let stream::Event::Delta(text) = event {
            told += black_box(text).len();
        }
    };
    let mut stream = stream::Stream::new(stream::StreamOptions::default());
    body_in_chunks(&mut |chunk| stream.push(chunk, &mut sink));
    stream.finish(&mut sink);
    assert!(told > BODY, "the body was not told");
}

/// A frame with one long body, piece by piece.
fn body_in_chunks(push: &mut dyn FnMut(&[u8])) {
    push(b"<|start|>assistant<|channel|>final<|message|>");
    let line = "A line of an answer, na\u{EF}ve and of the usual kind: a < b.\n".as_bytes();
    let mut sent = 0;
    while sent <= BODY {
        for chunk in line.chunks(7) {
            push(chunk);
        }
        sent += line.len();
    }
    push(b"<|return|>");
}
