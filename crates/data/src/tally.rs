//! Counts of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::row::Place;

/// The counts of rows, and of what was found in them.
///
/// Two tallies are added in the order of their rows, so that the first places are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The rows that were read.
    pub rows: u64,
    /// The rows that were written; two for a pair of preference.
    pub written: u64,
    /// The rows that were refused, by code.
    pub refused: BTreeMap<String, Count>,
    /// The losses and findings in the rows that were written, by name.
    pub found: BTreeMap<String, Count>,
}

/// A number of findings in a number of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The findings.
    pub times: u64,
    /// The rows with at least one.
    pub rows: u64,
    /// The place and text of the first one.
    pub first: Option<(Place, String)>,
}

impl Tally {
    /// Counts findings of one kind in a row.
    pub fn find(&mut self, name: &str, times: u64, place: Place, text: impl FnOnce() -> String) {
        add(&mut self.found, name, times, place, text);
    }

    /// Counts a refused row.
    pub fn refuse(&mut self, code: &str, place: Place, text: impl FnOnce() -> String) {
        add(&mut self.refused, code, 1, place, text);
    }

    /// Returns the number of refused rows.
    pub fn refusals(&self) -> u64 {
        self.refused.values().map(|count| count.rows).sum()
    }

    /// Adds the counts of later rows.
    pub fn add(&mut self, later: Self) {
        self.rows += later.rows;
        self.written += later.written;
        merge(&mut self.refused, later.refused);
        merge(&mut self.found, later.found);
    }
}

fn add(
    counts: &mut BTreeMap<String, Count>,
    name: &str,
    times: u64,
    place: Place,
    text: impl FnOnce() -> String,
) {
    if !counts.contains_key(name) {
        counts.insert(name.to_owned(), Count::default());
    }
    if let Some(count) = counts.get_mut(name) {
        count.times += times;
        count.rows += 1;
        count.first.get_or_insert_with(|| (place, text()));
    }
}

fn merge(counts: &mut BTreeMap<String, Count>, later: BTreeMap<String, Count>) {
    for (name, count) in later {
        let sum = counts.entry(name).or_default();
        sum.times += count.times;
        sum.rows += count.rows;
        if sum.first.is_none() {
            sum.first = count.first;
        }
    }
}
