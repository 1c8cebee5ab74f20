//! The crates of this workspace beside others that do the same.
//!
//! `logue-bench-peers check [TEXTS]` compares the tokens of random and hard texts, and of every
//! character there is, with those of three other encoders. `logue-bench-peers bench FILE…` measures
//! them over the files, each in turn in the same run. It is a workspace of its own so that the main
//! one need not build the others.
#![forbid(unsafe_code)]

#[path = "../../../crates/o200k/tests/o200k/texts.rs"]
mod texts;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use logue_o200k::{SpecialSet, encode};
use splintr::AnyTokenizer;
use splintr::pretrained::{PretrainedVocab, from_vocab};
use texts::Random;

/// Times that each job is measured; the fastest is shown.
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((job, [])) if job == "check" => check(1_000_000),
        Some((job, [texts])) if job == "check" => match texts.parse() {
            Ok(texts) => check(texts),
            Err(_) => return usage(),
        },
        Some((job, files)) if job == "bench" && !files.is_empty() => {
            for file in files {
                match std::fs::read(file) {
                    Ok(bytes) => bench(file, &String::from_utf8_lossy(&bytes)),
                    Err(error) => {
                        eprintln!("{file}: {error}");
                        return ExitCode::FAILURE;
                    }
                }
            }
            hard();
        }
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: logue-bench-peers check [TEXTS] | bench FILE…");
    ExitCode::from(2)
}

fn splintr() -> AnyTokenizer {
    from_vocab(PretrainedVocab::O200kBase).expect("a vocabulary that is compiled in")
}

fn check(count: usize) {
    let (tiktoken, bpe) = (
        tiktoken_rs::o200k_harmony_singleton(),
        bpe_openai::o200k_base(),
    );
    let compare = |text: &str| {
        let ids = encode(text);
        assert_eq!(ids, bpe.encode(text), "bpe-openai, {text:?}");
        assert_eq!(ids, tiktoken.encode_ordinary(text), "tiktoken-rs, {text:?}");
        let back = logue_o200k::decode_text(&ids);
        assert_eq!(back.as_deref(), Ok(text));
        assert_eq!(logue_o200k::count(text), ids.len());
        let ids = logue_o200k::encode_with_specials(text, &SpecialSet::ALL);
        assert_eq!(
            ids,
            tiktoken.encode_with_special_tokens(text),
            "specials, {text:?}"
        );
    };
    let mut random = Random::new(3);
    for _ in 0..count {
        compare(&texts::random(&mut random, 10));
    }
    println!("{count} random texts: equal");
    for c in '\0'..=char::MAX {
        compare(&format!("{c}a{c}B{c}{c} {c}1{c}\n{c}!{c}'s{c}"));
    }
    println!("every character in context: equal");
    for (_, text) in texts::hard(100_000) {
        compare(&text);
    }
    println!("hard texts: equal");
}

fn bench(file: &str, text: &str) {
    let started = Instant::now();
    black_box(encode(black_box("a")));
    println!(
        "{file}: {} bytes; first call {:?}",
        text.len(),
        started.elapsed()
    );
    let ids = encode(text);
    println!(
        "  {} tokens, {:.2} bytes each",
        ids.len(),
        text.len() as f64 / ids.len() as f64
    );

    let (tiktoken, bpe, splintr) = (
        tiktoken_rs::o200k_base_singleton(),
        bpe_openai::o200k_base(),
        splintr(),
    );
    let mut jobs: Vec<(&str, Box<dyn Fn() -> usize>)> = vec![
        ("encode", Box::new(|| encode(black_box(text)).len())),
        ("count", Box::new(|| logue_o200k::count(black_box(text)))),
        (
            "encode, splintr",
            Box::new(|| splintr.encode_raw(black_box(text)).len()),
        ),
        (
            "encode, bpe-openai",
            Box::new(|| bpe.encode(black_box(text)).len()),
        ),
    ];
    jobs.push((
        "encode, tiktoken-rs",
        Box::new(|| tiktoken.encode_ordinary(black_box(text)).len()),
    ));
    jobs.push((
        "decode",
        Box::new(|| logue_o200k::decode(black_box(&ids)).map_or(0, |b| b.len())),
    ));
    jobs.push((
        "decode_text",
        Box::new(|| logue_o200k::decode_text(black_box(&ids)).map_or(0, |b| b.len())),
    ));
    jobs.push((
        "decode_lossy",
        Box::new(|| logue_o200k::decode_lossy(black_box(&ids)).len()),
    ));
    jobs.push((
        "decode, splintr",
        Box::new(|| splintr.decode(black_box(&ids)).map_or(0, |b| b.len())),
    ));
    jobs.push((
        "decode, tiktoken-rs",
        Box::new(|| {
            tiktoken
                .decode_bytes(black_box(&ids))
                .map_or(0, |b| b.len())
        }),
    ));
    let mut fastest = vec![Duration::MAX; jobs.len()];
    let mut result = vec![0; jobs.len()];
    for round in 0..ROUNDS {
        for (at, (name, job)) in jobs.iter().enumerate() {
            if round > 1 && (name.ends_with("tiktoken-rs") || name.ends_with("bpe-openai")) {
                continue;
            }
            let started = Instant::now();
            result[at] = black_box(job());
            fastest[at] = fastest[at].min(started.elapsed());
        }
    }
    for (((name, _), time), result) in jobs.iter().zip(fastest).zip(result) {
        println!(
            "  {name:24} {:8.1} MB/s  ({result})",
            text.len() as f64 / 1e6 / time.as_secs_f64()
        );
    }
}

fn hard() {
    println!("hard texts, MB/s at 25 KB, 100 KB and 1 MB");
    let sizes = [25_000, 100_000, 1_000_000].map(texts::hard);
    for at in 0..sizes[0].len() {
        print!("  {:36}", sizes[0][at].0);
        for texts in &sizes {
            let text = &texts[at].1;
            let started = Instant::now();
            black_box(encode(black_box(text)));
            print!(
                " {:8.1}",
                text.len() as f64 / 1e6 / started.elapsed().as_secs_f64()
            );
        }
        println!();
    }
}
