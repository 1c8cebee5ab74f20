//! The table of `cargo xtask bench openchatml` with every peer: `openchatml [MB]`.
//!
//! The reference implementation wants its vocabulary as a file in the folder that
//! `TIKTOKEN_ENCODINGS_BASE` names; the others have it built in.
#![deny(unsafe_code)]

#[path = "../../../src/counting.rs"]
mod counting;
#[path = "../harmony.rs"]
mod harmony;

use std::process::ExitCode;

use logue_bench::{Encoder, HarmonyPeer, Peers};
use splintr::pretrained::{PretrainedVocab, from_vocab};

#[global_allocator]
static HEAP: counting::Counting = counting::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(megabytes) = logue_bench::openchatml::size(&arguments) else {
        eprintln!("usage: openchatml [MB]");
        return ExitCode::from(2);
    };
    let mut peers = Peers::default();
    match harmony::Harmony::load() {
        Ok(harmony) => {
            let encoder = harmony.clone();
            peers.encoders.push(Encoder {
                name: "openai-harmony",
                encode: Box::new(move |text| encoder.encode_ordinary(text)),
            });
            peers.harmony = Some(Box::new(harmony) as Box<dyn HarmonyPeer>);
        }
        Err(error) => eprintln!("openai-harmony: {error}"),
    }
    peers.encoders.extend(encoders());
    logue_bench::openchatml::run(megabytes, &peers, counting::count);
    ExitCode::SUCCESS
}

fn encoders() -> Vec<Encoder> {
    let splintr = from_vocab(PretrainedVocab::O200kBase).expect("a vocabulary that is compiled in");
    let tiktoken = tiktoken::get_encoding("o200k_base").expect("a vocabulary that is compiled in");
    let bpe = bpe_openai::o200k_base();
    vec![
        Encoder {
            name: "splintr",
            encode: Box::new(move |text| splintr.encode_raw(text).len()),
        },
        Encoder {
            name: "tiktoken 4.1",
            encode: Box::new(move |text| tiktoken.encode(text).len()),
        },
        Encoder {
            name: "bpe-openai",
            encode: Box::new(move |text| bpe.encode(text).len()),
        },
    ]
}
