//! The table: OpenChatML, Harmony and their vocabulary, each job beside a baseline or a peer.
//!
//! Everything runs on one core in one run. A job and what it is compared with are measured in
//! turn, and the fastest of each is shown; `mean` says how much longer ours took on average.
//! `UTF-8` says whether the job checks that its text is UTF-8; a scan does not.

mod batch;
mod memory;
mod rendering;
mod streaming;
mod vocabulary;

use crate::conversations;
use crate::measure::{Heap, table};
use crate::peer::Peers;

/// Megabytes of text in a run that does not say otherwise.
const MEGABYTES: usize = 64;
/// Bytes for the jobs whose peers are slow.
const PART: usize = 2_000_000;

/// The size that the arguments name: nothing, or a number of megabytes.
pub fn size(arguments: &[String]) -> Option<usize> {
    match arguments {
        [] => Some(MEGABYTES),
        [number] => number.parse().ok().filter(|size| *size > 0),
        _ => None,
    }
}

/// Measures everything and prints the table.
#[expect(clippy::print_stdout, reason = "what the command is for")]
pub fn run(megabytes: usize, peers: &Peers, heap: Heap) {
    // First of all, while nothing has used the vocabulary yet.
    let ready = vocabulary::ready(peers);

    let bytes = megabytes * 1_000_000;
    let frames = conversations::frames(bytes);
    let (mut size, mut some) = (0, 0);
    while size < PART.min(bytes) {
        size += frames.get(some).map_or(PART, |frame| frame.body.len());
        some += 1;
    }
    let part = frames.get(..some).unwrap_or(&frames);
    let text = conversations::openchatml(&frames);
    println!(
        "{} frames, {:.1} MB of OpenChatML; {} frames, {:.1} MB where peers are slow; one core, \
         fastest of several in turn\n",
        frames.len(),
        crate::measure::as_float(text.len()) / 1e6,
        part.len(),
        crate::measure::as_float(size) / 1e6,
    );
    let mut rows = Vec::new();
    let noise = batch::rows(&mut rows, &text, &frames);
    let harmony = conversations::harmony(part);
    let envelope = conversations::openchatml(part);
    streaming::rows(&mut rows, &harmony, &envelope, peers);
    rendering::rows(&mut rows, part, peers);
    vocabulary::rows(&mut rows, &harmony, peers);
    rows.push(ready);
    streaming::parser(&mut rows, peers);
    memory::rows(&mut rows, &text, &harmony, heap);
    print!("{}", table(&rows));
    println!(
        "\nnoise: the mean of the scan was {:.0} % slower than its fastest run",
        noise * 100.0
    );
}
