//! Text and ids that arrive bit by bit, content read as it grows.

use std::hint::black_box;
use std::time::{Duration, Instant};

use logue_o200k::{SpecialSet, encode_with_specials, token_bytes};
use openchatml::harmony::{Event, HarmonyReadOptions, IdStream, Stream};
use openchatml::stream;

use crate::measure::{Row, Times, alone, in_turn};
use crate::peer::{HarmonyPeer, Peers, Reading};

/// Bytes of a chunk of text.
const CHUNK: usize = 7;
/// Runs in which single steps are timed.
const RUNS: usize = 5;

/// `envelope` is the same conversations as OpenChatML.
pub(super) fn rows(rows: &mut Vec<Row>, text: &str, envelope: &str, peers: &Peers) {
    let ids = encode_with_specials(text, &SpecialSet::HARMONY);
    let peer = peers.harmony.as_deref();
    let chunks = text.len().div_ceil(CHUNK);
    let per_byte = |times: Times| times.each(text.len());

    let ours_text = || stream_text(black_box(text));
    let ours_ids = || stream_ids(black_box(&ids));
    let Some(peer) = peer else {
        let (by_text, by_id) = in_turn(ours_text, ours_ids);
        rows.push(text_row(by_text, chunks));
        rows.push(envelope_row(envelope));
        rows.push(id_row(by_id, ids.len()));
        flat(rows, None);
        worst(rows, text, &ids, None);
        return;
    };
    let (by_text, theirs) = in_turn(ours_text, || peer.stream(&ids, Reading::Delta));
    if let Err(error) = peer.stream(&ids, Reading::Delta) {
        rows.push(Row::new(format!("{} stopped: {error}", peer.name()), true));
    }
    let faster = per_byte(theirs) / per_byte(by_text);
    let each = by_text.each(chunks);
    rows.push(
        text_row(by_text, chunks)
            .peer(format!(
                "{}, by token, deltas {:.1} ns a byte",
                peer.name(),
                per_byte(theirs)
            ))
            .ratio(format!("{faster:.0}× a byte"))
            .goal(
                "≤ 30 ns a chunk, ≥ 90×",
                Some(each <= 30.0 && faster >= 90.0),
            ),
    );
    rows.push(envelope_row(envelope));
    let (by_id, theirs) = in_turn(ours_ids, || peer.stream(&ids, Reading::Delta));
    let each = by_id.each(ids.len());
    rows.push(
        id_row(by_id, ids.len())
            .peer(format!(
                "{}, deltas {:.0} ns a token",
                peer.name(),
                theirs.each(ids.len())
            ))
            .ratio(format!("{:.0}×", theirs.each(ids.len()) / each)),
    );
    flat(rows, Some(peer));
    worst(rows, text, &ids, Some(peer));
}

fn text_row(times: Times, chunks: usize) -> Row {
    let each = times.each(chunks);
    Row::new(
        format!("stream Harmony, text chunks of {CHUNK} bytes"),
        true,
    )
    .mean(times)
    .ours(format!(
        "{each:.1} ns a chunk, {:.0} MB/s",
        times.rate(chunks * CHUNK)
    ))
    .goal("≤ 30 ns a chunk, ≥ 90×", (each > 30.0).then_some(false))
}

fn envelope_row(text: &str) -> Row {
    let times = alone(|| {
        let mut told = 0;
        let mut sink = |event: stream::Event<'_>| {
            if let stream::Event::Delta(text) = event {
                told += black_box(text).len();
            }
        };
        let mut stream = stream::Stream::new(stream::StreamOptions::default());
        for chunk in text.as_bytes().chunks(CHUNK) {
            stream.push(chunk, &mut sink);
        }
        stream.finish(&mut sink);
        told
    });
    let each = times.each(text.len().div_ceil(CHUNK));
    Row::new(
        format!("stream OpenChatML, text chunks of {CHUNK} bytes"),
        true,
    )
    .mean(times)
    .ours(format!(
        "{each:.1} ns a chunk, {:.0} MB/s",
        times.rate(text.len())
    ))
    .peer("")
    .goal("≤ 30 ns a chunk", Some(each <= 30.0))
}

fn id_row(times: Times, ids: usize) -> Row {
    let each = times.each(ids);
    Row::new("stream, token ids", true)
        .mean(times)
        .ours(format!("{each:.1} ns a token"))
        .goal("≤ 30 ns a token", Some(each <= 30.0))
}

/// One message of growing length: the cost of a chunk must not grow with it.
fn flat(rows: &mut Vec<Row>, peer: Option<&dyn HarmonyPeer>) {
    let message = |bytes: usize| {
        let body = "A line of an answer, of the usual kind.\n".repeat(bytes / 40);
        format!("<|start|>assistant<|channel|>final<|message|>{body}<|return|>")
    };
    let each = |bytes: usize| {
        let text = message(bytes);
        let times = alone(|| stream_text(black_box(&text)));
        times.each(text.len().div_ceil(CHUNK))
    };
    let (short, long) = (each(20_000), each(4_000_000));
    let mut row = Row::new("a chunk in a message of 20 KB, of 4 MB", true)
        .ours(format!("{short:.1} ns, {long:.1} ns"))
        .ratio(format!("{:.2}", long / short))
        .goal("flat", Some(long / short < 1.5));
    if let Some(peer) = peer {
        let each = |bytes: usize| {
            let text = message(bytes);
            let ids = encode_with_specials(&text, &SpecialSet::HARMONY);
            let times = alone(|| peer.stream(&ids, Reading::Whole));
            times.each(text.len().div_ceil(CHUNK))
        };
        row = row.peer(format!(
            "{}, whole text read, {CHUNK} bytes: {:.0} ns at 2 KB, {:.0} ns at 20 KB",
            peer.name(),
            each(2_000),
            each(20_000),
        ));
    }
    rows.push(row);
}

/// The slowest steps, timed one by one. Each counts as long as it took in the fastest of several
/// runs, so that what interrupts a run is not taken for its own.
fn worst(rows: &mut Vec<Row>, text: &str, ids: &[u32], peer: Option<&dyn HarmonyPeer>) {
    let mut by_text = Steps::default();
    let mut by_id = Steps::default();
    let mut theirs = Steps::default();
    let mut refused = None;
    let mut told = 0;
    for _ in 0..RUNS {
        let mut sink = |event: Event<'_>| told += length(&event);
        let mut stream = Stream::new(HarmonyReadOptions::default());
        by_text.begin();
        for chunk in text.as_bytes().chunks(CHUNK) {
            stream.push(chunk, &mut sink);
            by_text.step();
        }
        let mut stream = IdStream::new(HarmonyReadOptions::default());
        by_id.begin();
        for id in ids {
            stream.push(*id, token_bytes, &mut sink);
            by_id.step();
        }
        theirs.begin();
        let ran = peer.map(|peer| peer.stream_in_steps(ids, &mut || theirs.step()));
        refused = ran.and_then(Result::err);
    }
    black_box(told);
    for (what, steps) in [("chunk", by_text), ("token", by_id)] {
        let (summary, most) = steps.summary();
        let row = Row::new(format!("slowest {what} while streaming"), true)
            .ours(summary)
            .goal("p99.9 < 1 µs", Some(most < Duration::from_micros(1)));
        rows.push(match (peer, &refused) {
            (Some(peer), None) => row.peer(format!("{} {}", peer.name(), theirs.summary().0)),
            (Some(peer), Some(why)) => row.peer(format!("{}: {why}", peer.name())),
            (None, _) => row,
        });
    }
}

/// The times from one call to the next, each the least of several runs.
#[derive(Default)]
struct Steps {
    took: Vec<Duration>,
    at: usize,
    last: Option<Instant>,
}

impl Steps {
    fn begin(&mut self) {
        self.at = 0;
        self.last = Some(Instant::now());
    }

    fn step(&mut self) {
        let now = Instant::now();
        let took = self.last.map_or(Duration::ZERO, |last| now - last);
        match self.took.get_mut(self.at) {
            Some(least) => *least = took.min(*least),
            None => self.took.push(took),
        }
        self.at += 1;
        self.last = Some(Instant::now());
    }

    /// The time that one in a thousand is over, and the longest.
    fn summary(&self) -> (String, Duration) {
        let mut took = self.took.clone();
        took.sort_unstable();
        let most = took.get(took.len() - took.len().div_ceil(1000)..);
        let most = most
            .and_then(<[Duration]>::first)
            .copied()
            .unwrap_or_default();
        let all = took.last().copied().unwrap_or_default();
        (format!("p99.9 {most:?}, slowest {all:?}"), most)
    }
}

/// A parser made and dropped.
pub(super) fn parser(rows: &mut Vec<Row>, peers: &Peers) {
    const MANY: usize = 10_000;
    let times = alone(|| {
        for _ in 0..MANY {
            drop(black_box(Stream::new(HarmonyReadOptions::default())));
            drop(black_box(IdStream::new(HarmonyReadOptions::default())));
        }
    });
    let each = times.each(2 * MANY);
    let mut row = Row::new("parser created", false)
        .mean(times)
        .ours(format!("{each:.0} ns"))
        .goal("< 1 µs", Some(each < 1000.0));
    if let Some(peer) = peers.harmony.as_deref() {
        let theirs = alone(|| {
            for _ in 0..100 {
                peer.create();
            }
        });
        row = row
            .peer(format!("{} {:.0} ns", peer.name(), theirs.each(100)))
            .ratio(format!("{:.0}×", theirs.each(100) / each));
    }
    rows.push(row);
}

pub(super) fn stream_text(text: &str) -> usize {
    let mut told = 0;
    let mut sink = |event: Event<'_>| told += length(&event);
    let mut stream = Stream::new(HarmonyReadOptions::default());
    for chunk in text.as_bytes().chunks(CHUNK) {
        stream.push(chunk, &mut sink);
    }
    stream.finish(&mut sink);
    told
}

pub(super) fn stream_ids(ids: &[u32]) -> usize {
    let mut told = 0;
    let mut sink = |event: Event<'_>| told += length(&event);
    let mut stream = IdStream::new(HarmonyReadOptions::default());
    for id in ids {
        stream.push(*id, token_bytes, &mut sink);
    }
    stream.finish(&mut sink);
    told
}

/// What is done with each event: the text is looked at.
fn length(event: &Event<'_>) -> usize {
    match event {
        Event::Delta(text) => black_box(*text).len(),
        _ => 0,
    }
}
