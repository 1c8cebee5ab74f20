//! Conversations with planted near duplicates, whose Jaccard index is known.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Rows that a planted duplicate may be a copy of, the latest ones.
const RECENT: usize = 20_000;
/// Words of the vocabulary.
const WORDS: usize = 20_000;
/// Words of a shingle, as the program has by default.
const SHINGLE: usize = 5;

/// A planted duplicate, with the exact index of its shingles and those of its original.
pub(super) struct Planted {
    /// The line of the copy, from 1.
    pub(super) line: u64,
    /// The shingles that both have.
    pub(super) shared: usize,
    /// The shingles that at least one has.
    pub(super) united: usize,
}

/// Numbers out of a seed (xorshift with multiplication).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        usize::try_from(number).unwrap_or(0) % limit.max(1)
    }

    /// A word; a few are frequent.
    fn word(&mut self) -> u16 {
        let bound = 2_usize << self.below(15);
        u16::try_from(self.below(bound.min(WORDS))).unwrap_or(0)
    }
}

/// Writes `rows` conversations of about 2 KB. One of ten is a copy of an earlier one with a few other
/// words; all are returned.
pub(super) fn write(path: &Path, rows: usize) -> io::Result<Vec<Planted>> {
    let mut numbers = Numbers(0x5EED);
    let words: Vec<String> = (0..WORDS)
        .map(|number| {
            let length = 2 + numbers.below(9);
            let letter = |_| char::from(b'a' + u8::try_from(numbers.below(26)).unwrap_or(0));
            // The number makes every word a different one.
            (0..length).map(letter).collect::<String>() + &number.to_string()
        })
        .collect();
    let mut output = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut recent: Vec<Vec<Vec<u16>>> = Vec::new();
    let mut planted = Vec::new();
    for row in 0..rows {
        let turns = if row % 10 == 9 {
            let original = numbers.below(recent.len());
            let original = recent.get(original).cloned().unwrap_or_default();
            let copy = edited(&original, &mut numbers);
            let (one, two) = (shingles(&original), shingles(&copy));
            let shared = one.intersection(&two).count();
            planted.push(Planted {
                line: row as u64 + 1,
                shared,
                united: one.len() + two.len() - shared,
            });
            copy
        } else {
            let turns = 2 + 2 * numbers.below(3);
            let turn = |numbers: &mut Numbers| {
                let count = 10 + numbers.below(81);
                (0..count).map(|_| numbers.word()).collect()
            };
            (0..turns).map(|_| turn(&mut numbers)).collect()
        };
        write!(output, "{{\"id\":\"row-{row}\",\"messages\":[")?;
        for (number, turn) in turns.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let role = role(number);
            write!(output, "{comma}{{\"role\":\"{role}\",\"content\":\"")?;
            for (at, word) in turn.iter().enumerate() {
                let space = match at {
                    0 => "",
                    at if at % 17 == 0 => ".\\n",
                    _ => " ",
                };
                output.write_all(space.as_bytes())?;
                let word = words.get(usize::from(*word)).map_or("", String::as_str);
                output.write_all(word.as_bytes())?;
            }
            output.write_all(b"\"}")?;
        }
        output.write_all(b"]}\n")?;
        // A copy of a copy may have its own original among removed rows.
        if row % 10 == 9 {
            continue;
        }
        if recent.len() < RECENT {
            recent.push(turns);
        } else if let Some(place) = recent.get_mut(row % RECENT) {
            *place = turns;
        }
    }
    output.flush()?;
    Ok(planted)
}

/// A copy with up to eleven other words.
fn edited(turns: &[Vec<u16>], numbers: &mut Numbers) -> Vec<Vec<u16>> {
    let mut copy = turns.to_vec();
    for _ in 0..numbers.below(12) {
        let turn = numbers.below(copy.len());
        let Some(turn) = copy.get_mut(turn) else {
            continue;
        };
        let at = numbers.below(turn.len());
        if let Some(word) = turn.get_mut(at) {
            *word = numbers.word();
        }
    }
    copy
}

const fn role(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "user"
    } else {
        "assistant"
    }
}

/// The shingles of a conversation as sets of words, without any hash of the program.
fn shingles(turns: &[Vec<u16>]) -> HashSet<Vec<u32>> {
    let mut words = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        // Numbers above those of words are the roles.
        words.push(1 << 16 | u32::from(number % 2 == 0));
        words.extend(turn.iter().map(|word| u32::from(*word)));
    }
    words.windows(SHINGLE).map(<[u32]>::to_vec).collect()
}
