//! Times in turn, rows of a table, and the heap.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Times that each job is measured.
const ROUNDS: usize = 7;
/// After this long a job is measured no more.
const PATIENCE: Duration = Duration::from_secs(6);

/// What a job did to the heap.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapUse {
    /// Allocations, reallocations included.
    pub allocations: usize,
    /// Bytes held at the same time, beyond those held before.
    pub peak: usize,
}

/// Counts what a job does to the heap; the program that has the counting allocator gives it.
pub type Heap = fn(&mut dyn FnMut()) -> HeapUse;

/// The times of one job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) least: Duration,
    pub(crate) mean: Duration,
}

impl Times {
    fn of(all: &[Duration]) -> Self {
        let count = u32::try_from(all.len()).unwrap_or(1).max(1);
        Self {
            least: all.iter().min().copied().unwrap_or_default(),
            mean: all.iter().sum::<Duration>() / count,
        }
    }

    /// How much longer the mean took than the least.
    pub(crate) fn noise(self) -> f64 {
        self.mean.as_secs_f64() / self.least.as_secs_f64() - 1.0
    }

    /// Nanoseconds for each of `count`.
    pub(crate) fn each(self, count: usize) -> f64 {
        self.least.as_secs_f64() * 1e9 / as_float(count)
    }

    /// Megabytes a second.
    pub(crate) fn rate(self, bytes: usize) -> f64 {
        as_float(bytes) / 1e6 / self.least.as_secs_f64()
    }
}

/// Measures two jobs in turn, so that a busy machine slows both.
pub(crate) fn in_turn<A, B>(
    mut ours: impl FnMut() -> A,
    mut theirs: impl FnMut() -> B,
) -> (Times, Times) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for round in 0..ROUNDS {
        if round > 1 && begun.elapsed() > PATIENCE {
            break;
        }
        first.push(time(&mut ours));
        second.push(time(&mut theirs));
    }
    (Times::of(&first), Times::of(&second))
}

/// Measures one job.
pub(crate) fn alone<A>(job: impl FnMut() -> A) -> Times {
    in_turn(job, || ()).0
}

fn time<A>(job: &mut impl FnMut() -> A) -> Duration {
    let started = Instant::now();
    let result = black_box(job());
    let took = started.elapsed();
    drop(result);
    took
}

/// One row of the table.
pub(crate) struct Row {
    pub(crate) job: String,
    /// Whether the job checks that the text is UTF-8.
    pub(crate) utf8: bool,
    /// How much longer the mean run took than the fastest, in percent.
    pub(crate) mean: String,
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) ratio: String,
    pub(crate) goal: String,
    /// Nothing where there is no peer to say it.
    pub(crate) reached: Option<bool>,
}

impl Row {
    pub(crate) fn new(job: impl Into<String>, utf8: bool) -> Self {
        Self {
            job: job.into(),
            utf8,
            mean: String::new(),
            ours: String::new(),
            peer: "not built".to_owned(),
            ratio: String::new(),
            goal: String::new(),
            reached: None,
        }
    }

    /// What was measured for the cell of `ours`.
    pub(crate) fn mean(mut self, times: Times) -> Self {
        self.mean = format!("+{:.0} %", times.noise() * 100.0);
        self
    }

    pub(crate) fn ours(mut self, text: impl Into<String>) -> Self {
        self.ours = text.into();
        self
    }

    pub(crate) fn peer(mut self, text: impl Into<String>) -> Self {
        self.peer = text.into();
        self
    }

    pub(crate) fn ratio(mut self, text: impl Into<String>) -> Self {
        self.ratio = text.into();
        self
    }

    pub(crate) fn goal(mut self, text: impl Into<String>, reached: Option<bool>) -> Self {
        self.goal = text.into();
        self.reached = reached;
        self
    }

    fn cells(&self) -> [String; 8] {
        let reached = match self.reached {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        [
            self.job.clone(),
            if self.utf8 { "yes" } else { "no" }.to_owned(),
            self.ours.clone(),
            self.mean.clone(),
            self.peer.clone(),
            self.ratio.clone(),
            self.goal.clone(),
            reached.to_owned(),
        ]
    }
}

/// The rows as a table in Markdown, columns aligned.
pub(crate) fn table(rows: &[Row]) -> String {
    let heading = [
        "job", "UTF-8", "ours", "mean", "peer", "ratio", "goal", "reached?",
    ]
    .map(str::to_owned);
    let cells: Vec<[String; 8]> = std::iter::once(heading)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let lengths = cells.iter().filter_map(|row| row.get(column));
        lengths.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut out = String::new();
    for (number, row) in cells.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            out.push_str(&format!("| {cell:width$} "));
        }
        out.push_str("|\n");
        if number == 0 {
            for width in &widths {
                out.push_str(&format!("|{}", "-".repeat(width + 2)));
            }
            out.push_str("|\n");
        }
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "figures of three digits")]
pub(crate) const fn as_float(count: usize) -> f64 {
    count as f64
}
