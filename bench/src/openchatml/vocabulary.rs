//! The vocabulary: how soon it is there, how fast it encodes and decodes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use logue_o200k::{SpecialSet, decode, encode, encode_with_specials};

use crate::measure::{Row, Times, alone, as_float, in_turn};
use crate::peer::Peers;

/// The first use of the vocabulary in this process.
pub(super) fn ready(peers: &Peers) -> Row {
    let started = Instant::now();
    black_box(encode(black_box("The first words.")));
    let took = started.elapsed();
    let row = Row::new("vocabulary ready, first words encoded", false)
        .ours(format!("{took:?}"))
        .goal("< 1 ms", Some(took < Duration::from_millis(1)));
    match peers.harmony.as_deref() {
        None => row,
        Some(peer) => {
            let ratio = peer.loading().as_secs_f64() / took.as_secs_f64();
            row.peer(format!("{} {:.0?}", peer.name(), peer.loading()))
                .ratio(format!("{ratio:.0}×"))
        }
    }
}

pub(super) fn rows(rows: &mut Vec<Row>, text: &str, peers: &Peers) {
    let ids = encode_with_specials(text, &SpecialSet::HARMONY);
    encoding(rows, text, peers);
    adversarial(rows, peers);

    let ours = || decode(black_box(&ids)).map_or(0, |bytes| bytes.len());
    let rate = |times: Times| format!("{:.0} MB/s", times.rate(text.len()));
    rows.push(match peers.harmony.as_deref() {
        None => Row::new("decode ids", false)
            .ours(rate(alone(ours)))
            .goal("≥ 2×", None),
        Some(peer) => {
            let (ours, theirs) = in_turn(ours, || peer.decode(black_box(&ids)));
            let ratio = theirs.least.as_secs_f64() / ours.least.as_secs_f64();
            Row::new("decode ids", false)
                .mean(ours)
                .ours(rate(ours))
                .peer(format!("{} {}", peer.name(), rate(theirs)))
                .ratio(format!("{ratio:.1}×"))
                .goal("≥ 2×", Some(ratio >= 2.0))
        }
    });
}

fn encoding(rows: &mut Vec<Row>, text: &str, peers: &Peers) {
    let ours = || encode(black_box(text)).len();
    let row = || Row::new("encode o200k", true);
    let rate = |times: Times| format!("{:.1} MB/s", times.rate(text.len()));
    if peers.encoders.is_empty() {
        rows.push(row().ours(rate(alone(ours))).goal("ahead of all", None));
    }
    for encoder in &peers.encoders {
        let expected = ours();
        let (ours, theirs) = in_turn(ours, || (encoder.encode)(black_box(text)));
        let ratio = theirs.least.as_secs_f64() / ours.least.as_secs_f64();
        let same = (encoder.encode)(text) == expected;
        let note = if same { "" } else { ", OTHER IDS" };
        rows.push(
            row()
                .mean(ours)
                .ours(rate(ours))
                .peer(format!("{} {}{note}", encoder.name, rate(theirs)))
                .ratio(format!("{ratio:.2}×"))
                .goal("ahead of all", Some(ratio > 1.0)),
        );
    }
}

/// Runs of one letter, which a careless encoder takes quadratic time for.
fn adversarial(rows: &mut Vec<Row>, peers: &Peers) {
    let short = "a".repeat(64 * 1024);
    let long = "a".repeat(1024 * 1024);
    let rate = |text: &str| alone(|| encode(black_box(text)).len()).rate(text.len());
    let (at_short, at_long) = (rate(&short), rate(&long));
    let mut peer = Vec::new();
    for encoder in &peers.encoders {
        let small = short.get(..8 * 1024).unwrap_or_default();
        let started = Instant::now();
        black_box((encoder.encode)(black_box(small)));
        let took = started.elapsed().as_secs_f64();
        peer.push(format!(
            "{} {:.2}",
            encoder.name,
            as_float(small.len()) / 1e6 / took
        ));
    }
    let row = Row::new("encode one letter, 64 KB, 1 MB", true)
        .ours(format!("{at_short:.1}, {at_long:.1} MB/s"))
        .ratio(format!("{:.2}", at_long / at_short))
        .goal("linear but for caches", Some(at_long / at_short > 0.4));
    rows.push(if peer.is_empty() {
        row
    } else {
        row.peer(format!("MB/s at 8 KB: {}", peer.join(", ")))
    });
}
