//! The table of ChatMD: reading transcripts, whole and hostile, and what reading takes of the heap.
//!
//! Everything runs on one core in one run, the fastest of several is shown. The baseline is a scan
//! for the two bytes that the lexer stops at.

use std::hint::black_box;

use chatmd::{Document, Tree, check, parse};

use crate::conversations;
use crate::measure::{Heap, Row, alone, as_float, in_turn, table};
use crate::transcripts::{self, HOSTILE};

/// Megabytes of text in a run that does not say otherwise.
const MEGABYTES: usize = 64;

/// The size that the arguments name: nothing, or a number of megabytes.
pub fn size(arguments: &[String]) -> Option<usize> {
    match arguments {
        [] => Some(MEGABYTES),
        [number] => number.parse().ok().filter(|size| *size > 0),
        _ => None,
    }
}

/// A transcript of about that many bytes.
pub fn session(bytes: usize) -> String {
    let frames = conversations::frames(bytes);
    let mut size = 0;
    let some = frames.iter().take_while(|frame| {
        let fits = size < bytes;
        size += frame.body.len() + 80;
        fits
    });
    transcripts::written(&some.cloned().collect::<Vec<_>>())
}

/// Measures everything and prints the table.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub fn run(megabytes: usize, heap: Heap) {
    let frames = conversations::frames(megabytes * 1_000_000);
    let written = transcripts::written(&frames);
    let typed = transcripts::typed(&frames);
    let mega = |text: &str| as_float(text.len()) / 1e6;
    println!(
        "{:.1} MB as the program writes it ({} elements), {:.1} MB as people type it; one core, \
         fastest of several in turn\n",
        mega(&written),
        parse(&written).elements().count(),
        mega(&typed),
    );
    let mut rows = Vec::new();
    reading(&mut rows, &written, &typed);
    memory(&mut rows, &written, heap);
    println!("{}", table(&rows));
    let mut rows = Vec::new();
    for hostile in &HOSTILE {
        repeated(&mut rows, hostile, heap);
    }
    println!("{}", table(&rows));
}

fn reading(rows: &mut Vec<Row>, written: &str, typed: &str) {
    let count = |tree: Tree<'_>| tree.elements().count();
    let mut scanned = |job: &str, goal: f64, text: &str, work: &dyn Fn(&str) -> usize| {
        let (ours, scan) = in_turn(
            || work(black_box(text)),
            || memchr::memchr2_iter(b'<', b'|', black_box(text.as_bytes())).count(),
        );
        let rate = ours.rate(text.len());
        let mut row = Row::new(job, false)
            .mean(ours)
            .ours(format!("{rate:.0} MB/s"))
            .peer(format!("scan {:.0} MB/s", scan.rate(text.len())))
            .ratio(format!("{:.3}", rate / scan.rate(text.len())));
        if goal > 0.0 {
            row = row.goal(format!("≥ {goal} MB/s"), Some(rate >= goal));
        }
        rows.push(row);
    };
    scanned("text → tree", 400.0, written, &|text| count(parse(text)));
    scanned("the same, typed by people", 400.0, typed, &|text| {
        count(parse(text))
    });
    scanned("text → tree → text", 250.0, written, &|text| {
        parse(text).print().len()
    });
    scanned("text → tree → typed view", 0.0, written, &|text| {
        Document::from_tree(&parse(text)).0.elements.len()
    });
    scanned("text → findings", 1000.0, written, &|text| {
        check(text).len()
    });
    scanned("text → tree → JSON", 0.0, written, &|text| {
        parse(text).to_json().len()
    });
}

fn memory(rows: &mut Vec<Row>, text: &str, heap: Heap) {
    let mut row = |job: &str, work: &dyn Fn() -> usize| {
        let used = heap(&mut || {
            black_box(work());
        });
        let ratio = as_float(used.peak) / as_float(text.len());
        rows.push(
            Row::new(job, false)
                .ours(format!(
                    "peak {ratio:.2} of the text, on top of it; {} allocations",
                    used.allocations
                ))
                .peer("")
                .goal("≤ 3", Some(ratio <= 3.0)),
        );
    };
    row("heap: tree", &|| parse(text).elements().count());
    row("heap: tree and typed view", &|| check(text).len());
    row("heap: tree and text", &|| parse(text).print().len());
}

/// One megabyte of a construct beside ten.
fn repeated(rows: &mut Vec<Row>, hostile: &transcripts::Hostile, heap: Heap) {
    let (small, large) = (hostile.text(1_000_000), hostile.text(10_000_000));
    let of = |text: &str| {
        let findings = alone(|| check(black_box(text)).len());
        let tree = alone(|| parse(black_box(text)).elements().count());
        (tree, findings)
    };
    let ((one, one_checked), (ten, ten_checked)) = (of(&small), of(&large));
    let growth = ten.least.as_secs_f64() / one.least.as_secs_f64();
    let checked = ten_checked.least.as_secs_f64() / one_checked.least.as_secs_f64();
    let used = heap(&mut || drop(black_box(parse(&large))));
    let rate = ten.rate(large.len());
    rows.push(
        Row::new(format!("10 MB of {}", hostile.name), false)
            .mean(ten)
            .ours(format!(
                "{rate:.0} MB/s, findings {:.0} MB/s, heap {:.1} of the text",
                ten_checked.rate(large.len()),
                as_float(used.peak) / as_float(large.len()),
            ))
            .peer(format!("1 MB {:.0} MB/s", one.rate(small.len())))
            .ratio(format!("{growth:.1}×, findings {checked:.1}×"))
            .goal("≤ 20×", Some(growth <= 20.0 && checked <= 20.0)),
    );
}
