//! Parser throughput over generated text.
//!
//! The text is generated from a seed, so every run measures the same: conversations with
//! instructions, reasoning, tool calls, results of code and JSON, and answers, short and long. Each
//! figure stands beside that of a scan for the language's lead byte over the same text in the same
//! run, so that a slow or busy machine changes both.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::generate;
use openchatml::harmony::{Conversation, Form, Reasoning, RenderOptions, Renderer};

/// Times that each job is measured; the median is shown.
const ROUNDS: usize = 7;

/// Prints the table for `bytes` of each language.
pub(crate) fn table(bytes: usize) {
    let chatmd = generate::chatmd(bytes);
    let openchatml = generate::openchatml(bytes);
    println!("parsing, one core, median of {ROUNDS} (baseline: scan for `<` in turn with it)");
    row("ChatMD parse", &chatmd, |text| {
        chatmd::parse(text).children().count()
    });
    row("ChatMD parse and typed view", &chatmd, |text| {
        chatmd::Document::from_tree(&chatmd::parse(text))
            .0
            .elements
            .len()
    });
    row("OpenChatML parse", &openchatml, |text| {
        openchatml::parse(text.as_bytes()).frames().len()
    });
    row("OpenChatML parse and check", &openchatml, |text| {
        openchatml::check(&openchatml::parse(text.as_bytes())).len()
    });
    harmony(&openchatml);
}

/// Renders the same conversation as Harmony; rates are of the text that comes out.
fn harmony(openchatml: &str) {
    let transcript = openchatml::parse(openchatml.as_bytes()).to_transcript();
    let (conversation, _) = Conversation::from_transcript(&transcript);
    let options = RenderOptions::default()
        .with_reasoning(Reasoning::Keep)
        .with_escape(true);
    let render = || conversation.to_text(Form::Conversation, &options);
    let Ok(text) = render() else {
        eprintln!("the generated conversation cannot be rendered");
        return;
    };
    row("Harmony render to text", &text, |_| {
        render().map_or(0, |text| text.len())
    });
    let renderer = RefCell::new((Renderer::new(), Vec::new()));
    row("Harmony render to ids", &text, |_| {
        let (renderer, ids) = &mut *renderer.borrow_mut();
        ids.clear();
        let rendered = renderer.append(&conversation, Form::Conversation, &options, ids);
        rendered.map_or(0, |()| ids.len())
    });
}

fn row(name: &str, text: &str, job: impl Fn(&str) -> usize) {
    let mut own = Vec::with_capacity(ROUNDS);
    let mut scan = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        own.push(time(|| job(black_box(text))));
        scan.push(time(|| {
            memchr::memchr_iter(b'<', black_box(text.as_bytes())).count()
        }));
    }
    let (own, scan) = (rate(text, &mut own), rate(text, &mut scan));
    println!(
        "  {name:28} {own:8.0} MB/s   {:.3} of the scan ({scan:.0} MB/s)",
        own / scan
    );
}

fn time(job: impl Fn() -> usize) -> Duration {
    let started = Instant::now();
    black_box(job());
    started.elapsed()
}

#[expect(clippy::cast_precision_loss, reason = "a rate to three digits")]
fn rate(text: &str, times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(Duration::MAX);
    text.len() as f64 / 1e6 / median.as_secs_f64()
}
