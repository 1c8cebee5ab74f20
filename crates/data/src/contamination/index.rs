//! The runs of words of benchmarks.

use super::SHORTEST_ROW;
use crate::hash::{joined, mixed};
use crate::words::each_word;

/// Places of one run that are kept; further places have the same words.
const MOST_PLACES: usize = 16;

/// The place of a row of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BenchmarkRow {
    /// The number of its file in the list of benchmarks, from 0.
    pub file: u32,
    /// The line, from 1.
    pub line: u64,
}

/// A text of a benchmark.
#[derive(Clone, Debug)]
pub(super) struct BenchmarkText {
    pub(super) row: BenchmarkRow,
    /// Its words in [`BenchmarkIndex::words`].
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A run of words in a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    hash: u64,
    text: u32,
    /// The first word in [`BenchmarkIndex::words`].
    word: u32,
}

/// The runs of words of all benchmarks.
#[derive(Clone, Debug)]
pub struct BenchmarkIndex {
    run: usize,
    pub(super) texts: Vec<BenchmarkText>,
    /// The hashes of the words of all texts.
    pub(super) words: Vec<u64>,
    runs: Vec<Run>,
    /// The lengths of runs: that of all longer texts, and those of shorter ones.
    lengths: Vec<usize>,
    /// A bit for each hash, so that most words of a row need no search.
    filter: Vec<u64>,
    /// The first run of each interval of hashes.
    starts: Vec<u32>,
    too_short: u64,
}

impl BenchmarkIndex {
    /// Creates an index of no texts, with the words of a run.
    pub fn new(run: usize) -> Self {
        Self {
            run: run.max(1),
            texts: Vec::new(),
            words: Vec::new(),
            runs: Vec::new(),
            lengths: Vec::new(),
            filter: Vec::new(),
            starts: Vec::new(),
            too_short: 0,
        }
    }

    /// Adds the texts of a row. A text with too few words is counted only.
    pub fn add(&mut self, row: BenchmarkRow, texts: &[String]) {
        for text in texts {
            let start = self.words.len();
            each_word(text, |word| self.words.push(word.hash));
            let end = self.words.len();
            let shortest = SHORTEST_ROW.min(self.run);
            if end - start < shortest || u32::try_from(end).is_err() {
                self.too_short += u64::from(end > start);
                self.words.truncate(start);
                continue;
            }
            self.texts.push(BenchmarkText { row, start, end });
        }
    }

    /// Prepares the search after the last row.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.lengths.clear();
        self.runs.clear();
        for (number, text) in (0_u32..).zip(&self.texts) {
            let length = self.run.min(text.end - text.start);
            if !self.lengths.contains(&length) {
                self.lengths.push(length);
            }
            let words = self.words.get(text.start..text.end).unwrap_or_default();
            let runs = words.windows(length).zip(text.start..);
            self.runs.extend(runs.map(|(words, word)| Run {
                hash: hash(words),
                text: number,
                // Checked by `add`.
                word: u32::try_from(word).unwrap_or(u32::MAX),
            }));
        }
        self.lengths.sort_unstable();
        self.runs.sort_unstable();
        let mut kept = 0;
        let mut last = None;
        self.runs.retain(|run| {
            kept = if last == Some(run.hash) { kept + 1 } else { 0 };
            last = Some(run.hash);
            kept < MOST_PLACES
        });
        // 16 bits for each run: one of sixteen other words needs a search.
        let bits = (self.runs.len() * 16).next_power_of_two().max(64);
        self.filter = vec![0; bits / 64];
        for run in &self.runs {
            let (word, bit) = filter_place(run.hash, self.filter.len());
            if let Some(place) = self.filter.get_mut(word) {
                *place |= bit;
            }
        }
        let intervals = self.runs.len().next_power_of_two();
        self.starts = vec![0; intervals + 1];
        for run in &self.runs {
            if let Some(count) = self.starts.get_mut(interval(run.hash, intervals) + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self
    }

    /// Returns the texts that have too few words to be found.
    pub fn too_short(&self) -> u64 {
        self.too_short
    }

    /// Returns the number of texts that can be found.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns the lengths of runs, ascending.
    pub(super) fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns the texts that have the run, each with the place of its first word.
    pub(super) fn places<'i>(&'i self, run: &'i [u64]) -> impl Iterator<Item = (u32, usize)> + 'i {
        let hash = hash(run);
        let (word, bit) = filter_place(hash, self.filter.len());
        let may_occur = self.filter.get(word).is_some_and(|bits| bits & bit != 0);
        let runs = if may_occur { self.with_hash(hash) } else { &[] };
        // Hashes of different words may be equal, so the words are compared.
        let is_equal = move |found: &&Run| {
            let start = found.word as usize;
            self.words.get(start..start + run.len()) == Some(run)
        };
        runs.iter()
            .filter(is_equal)
            .map(|run| (run.text, run.word as usize))
    }

    fn with_hash(&self, hash: u64) -> &[Run] {
        let interval = interval(hash, self.starts.len() - 1);
        let bound = |at: usize| self.starts.get(at).map_or(0, |start| *start as usize);
        let runs = self.runs.get(bound(interval)..bound(interval + 1));
        let runs = runs.unwrap_or_default();
        let start = runs.partition_point(|run| run.hash < hash);
        let end = runs.partition_point(|run| run.hash <= hash);
        runs.get(start..end).unwrap_or_default()
    }
}

/// Returns the hash of a run of words, which depends on its length.
fn hash(words: &[u64]) -> u64 {
    let start = words.len() as u64;
    mixed(words.iter().fold(start, |hash, word| joined(hash, *word)))
}

/// Returns the word and the bit of a hash in a filter.
///
/// `words` is the length of the filter, a power of two.
fn filter_place(hash: u64, words: usize) -> (usize, u64) {
    let word = (hash >> 6) as usize & words.wrapping_sub(1);
    (word, 1 << (hash & 63))
}

/// Returns the interval of a hash, in the order of hashes.
fn interval(hash: u64, intervals: usize) -> usize {
    usize::try_from((u128::from(hash) * intervals as u128) >> 64).unwrap_or(0)
}
