//! `cargo xtask codegen o200k`: the table that `crates/o200k` reads.
//!
//! It is made of the published vocabulary, one line `BASE64 RANK` a token, whose digest is checked,
//! and of the Unicode classes of `regex-syntax`, which are those that other encoders of this
//! vocabulary match with. The layout is described, and the hash defined, in `crates/o200k/src`; the
//! files with the constants are compiled here too.

#[expect(dead_code, reason = "the crate reads what is written here")]
#[path = "../../crates/o200k/src/class.rs"]
mod class;
#[path = "../../crates/o200k/src/hash.rs"]
mod hash;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex_syntax::hir::{Class, HirKind};
use serde_json::Value;
use sha2::{Digest, Sha256};

use class::{BLOCK, CASELESS, DISTINCT, LINE_END, LOWER, MARK, NUMBER, OTHER, SPACE, UPPER};
use hash::{EMPTY, ID_BITS, MIDDLE_LINES, MIDDLE_ROOM, SHORT_LINES, SHORT_ROOM, SLOTS};

/// The digest of `o200k_base.tiktoken`.
const DIGEST: &str = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d";
/// Ordinary tokens; the first special has this id.
const ORDINARY: usize = 199_998;
/// Ordinary tokens and specials.
const VOCABULARY: usize = 201_089;
/// Bytes of the longest token, as the crate has it.
const LONGEST: usize = 128;

/// The specials of `o200k_harmony` that have a name; the others are `<|reserved_ID|>`.
const NAMED: &[(usize, &str)] = &[
    (199_998, "<|startoftext|>"),
    (199_999, "<|endoftext|>"),
    (200_002, "<|return|>"),
    (200_003, "<|constrain|>"),
    (200_005, "<|channel|>"),
    (200_006, "<|start|>"),
    (200_007, "<|end|>"),
    (200_008, "<|message|>"),
    (200_012, "<|call|>"),
];

pub(crate) fn codegen(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (check, asset) = match arguments {
        [] => (false, None),
        ["--check"] => (true, None),
        ["--check", asset] => (true, Some(PathBuf::from(asset))),
        [asset] => (false, Some(PathBuf::from(asset))),
        _ => return Err("usage: cargo xtask codegen o200k [--check] [ASSET]".to_owned()),
    };
    let asset = asset.map_or_else(|| find_asset(root), Ok)?;
    let tokens = read(&asset)?;
    let made = table(&tokens)?;
    let path = root.join("crates/o200k/data/o200k.bin");
    if check {
        let there = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if there != made {
            return Err(format!(
                "{} is not what `cargo xtask codegen o200k` makes of {}",
                path.display(),
                asset.display()
            ));
        }
        println!("codegen: {} is up to date", path.display());
    } else {
        std::fs::write(&path, &made).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("codegen: {}, {} bytes", path.display(), made.len());
    }
    Ok(())
}

/// The asset in the sources of `tiktoken-rs`, which the tests of the crate compare with.
pub(crate) fn find_asset(root: &Path) -> Result<PathBuf, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    packages
        .iter()
        .find(|package| package["name"].as_str() == Some("tiktoken-rs"))
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|manifest| Path::new(manifest).parent())
        .map(|folder| folder.join("assets/o200k_base.tiktoken"))
        .ok_or_else(|| "the package tiktoken-rs is not there; name the asset's path".to_owned())
}

/// The tokens in the order of ids, specials last.
fn read(asset: &Path) -> Result<Vec<Vec<u8>>, String> {
    let text = std::fs::read(asset).map_err(|error| format!("{}: {error}", asset.display()))?;
    let digest = Sha256::digest(&text);
    let digest = format!("{digest:x}");
    if digest != DIGEST {
        return Err(format!(
            "{}: sha256 is {digest}, not {DIGEST}",
            asset.display()
        ));
    }
    let text = String::from_utf8_lossy(&text);
    let mut tokens = Vec::with_capacity(VOCABULARY);
    for (number, line) in text.lines().enumerate() {
        let wrong = || format!("{}:{}: not `BASE64 RANK`", asset.display(), number + 1);
        let (bytes, rank) = line.split_once(' ').ok_or_else(wrong)?;
        if rank.parse() != Ok(tokens.len()) {
            return Err(wrong());
        }
        tokens.push(STANDARD.decode(bytes).map_err(|_| wrong())?);
    }
    if tokens.len() != ORDINARY {
        return Err(format!("{} tokens, not {ORDINARY}", tokens.len()));
    }
    for id in ORDINARY..VOCABULARY {
        let name = NAMED.iter().find(|&&(named, _)| named == id);
        let name = name.map_or_else(
            || format!("<|reserved_{id}|>"),
            |&(_, name)| name.to_owned(),
        );
        tokens.push(name.into_bytes());
    }
    Ok(tokens)
}

fn table(tokens: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if tokens.iter().take(256).any(|token| token.len() != 1) {
        return Err("the first 256 tokens are not the single bytes".to_owned());
    }
    let longest = tokens.iter().map(Vec::len).max().unwrap_or_default();
    if longest != LONGEST {
        return Err(format!(
            "the longest token has {longest} bytes, not {LONGEST}"
        ));
    }
    let (blocks, classes) = classes()?;
    let distinct = classes.len() / BLOCK;
    if distinct != DISTINCT {
        return Err(format!("{distinct} different blocks, not {DISTINCT}"));
    }
    let mut table = Vec::new();
    table.extend(lines(tokens, 8, SHORT_LINES, SHORT_ROOM)?);
    table.extend(lines(tokens, 16, MIDDLE_LINES, MIDDLE_ROOM)?);
    for slot in slots(tokens)? {
        table.extend_from_slice(&slot.to_le_bytes());
    }
    let mut pairs = vec![EMPTY; 1 << 16];
    for (id, token) in (0..).zip(tokens) {
        if let &[first, second] = token.as_slice() {
            pairs[usize::from(u16::from_be_bytes([first, second]))] = id;
        }
    }
    for id in pairs {
        table.extend_from_slice(&id.to_le_bytes());
    }
    let mut offset = 0;
    table.extend_from_slice(&0_u32.to_le_bytes());
    for token in tokens {
        offset += token.len();
        let offset = u32::try_from(offset).map_err(|error| error.to_string())?;
        table.extend_from_slice(&offset.to_le_bytes());
    }
    table.extend_from_slice(&blocks);
    table.extend_from_slice(&classes);
    table.extend(tokens.iter().flatten());
    Ok(table)
}

/// Bytes of a line of an index.
const LINE: usize = 64;

/// Returns `count` index lines of the ordinary tokens of up to `longest` bytes.
///
/// Frequent tokens come first. Each line has the words of `room` tokens, their entries, and the bits
/// of tokens that did not fit.
fn lines(tokens: &[Vec<u8>], longest: usize, count: usize, room: usize) -> Result<Vec<u8>, String> {
    let mut lines = vec![[0_u8; LINE]; count];
    let mut used = vec![0; count];
    let lengths = longest - 7..=longest;
    for (id, token) in (0..).zip(tokens).take(ORDINARY) {
        if !lengths.contains(&token.len()) {
            continue;
        }
        let length = u32::try_from(token.len()).map_err(|error| error.to_string())?;
        let entry = (length << ID_BITS | checked(id)?).to_le_bytes();
        let state = hash::hash(token, 0, token.len());
        let mut at = hash::place(state, count);
        let mut tried = 0;
        while used[at] == room {
            let [.., a, b, c, d] = &mut lines[at];
            let passed = u32::from_le_bytes([*a, *b, *c, *d]) | hash::passed(state);
            [*a, *b, *c, *d] = passed.to_le_bytes();
            at = (at + 1) % count;
            tried += 1;
            if tried == count {
                return Err(format!("no room for the tokens of up to {longest} bytes"));
            }
        }
        let bytes = used[at] * longest;
        let mut padded = token.clone();
        padded.resize(longest, 0);
        // A look-up takes the first of the same words, and then asks for its length.
        let mut others = lines[at][..bytes].chunks(longest);
        if others.any(|other| other == padded) {
            return Err(format!(
                "token {id} differs from another in zeros at its end only"
            ));
        }
        lines[at][bytes..bytes + longest].copy_from_slice(&padded);
        let entries = room * longest + used[at] * entry.len();
        lines[at][entries..entries + entry.len()].copy_from_slice(&entry);
        used[at] += 1;
    }
    Ok(lines.concat())
}

/// The slots of the ordinary tokens of more than sixteen bytes.
fn slots(tokens: &[Vec<u8>]) -> Result<Vec<u32>, String> {
    let mut slots = vec![EMPTY; SLOTS];
    for (id, token) in (0..).zip(tokens).take(ORDINARY) {
        if token.len() <= 16 {
            continue;
        }
        let state = hash::hash(token, 0, token.len());
        let mut at = hash::place(state, SLOTS);
        while slots[at] != EMPTY {
            at = (at + 1) % SLOTS;
        }
        slots[at] = hash::tag(state) | checked(id)?;
    }
    Ok(slots)
}

/// The id, if it leaves the other bits of its entry free.
fn checked(id: u32) -> Result<u32, String> {
    if id >> ID_BITS == 0 {
        Ok(id)
    } else {
        Err(format!("id {id} has more than {ID_BITS} bits"))
    }
}

/// The two stages of the table of classes.
fn classes() -> Result<(Vec<u8>, Vec<u8>), String> {
    let mut classes = vec![OTHER; 0x11_0000];
    let sets: [(&str, u8); 7] = [
        (r"[\p{Lu}\p{Lt}]", UPPER),
        (r"\p{Ll}", LOWER),
        (r"[\p{Lm}\p{Lo}]", CASELESS),
        (r"\p{M}", MARK),
        (r"\p{N}", NUMBER),
        (r"\s", SPACE),
        (r"[\r\n]", LINE_END),
    ];
    for (pattern, class) in sets {
        let hir = regex_syntax::parse(pattern).map_err(|error| error.to_string())?;
        let HirKind::Class(Class::Unicode(set)) = hir.kind() else {
            return Err(format!("{pattern} is not a class of characters"));
        };
        for range in set.ranges() {
            classes[range.start() as usize..=range.end() as usize].fill(class);
        }
    }
    let mut known: HashMap<&[u8], u8> = HashMap::new();
    let mut blocks = Vec::new();
    let mut stage = Vec::new();
    for block in classes.chunks(BLOCK) {
        let next = known.len();
        let number = if let Some(&number) = known.get(block) {
            number
        } else {
            let number = u8::try_from(next).map_err(|_| "more than 256 different blocks")?;
            stage.extend_from_slice(block);
            known.insert(block, number);
            number
        };
        blocks.push(number);
    }
    Ok((blocks, stage))
}
