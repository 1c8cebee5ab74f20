//! What changes in one file, as a unified diff of its lines.
//!
//! The content may be anything: lines are bytes, and what a terminal must not have is made visible.
//! The form is the one that `patch` reads, as long as nothing had to be made visible or cut.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use logue_source::escape_unambiguous;

/// Lines around a change.
const AROUND: usize = 3;

/// How long the shortest diff is looked for; then a longer one is shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// The difference of two contents.
pub(super) struct Difference<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    changes: Vec<DiffOp>,
}

impl<'a> Difference<'a> {
    pub(super) fn of(old: &'a [u8], new: &'a [u8]) -> Self {
        let old: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        let new: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
        let deadline = Instant::now() + PATIENCE;
        let changes = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
        Self { old, new, changes }
    }

    /// Lines that come and lines that go.
    pub(super) fn counts(&self) -> (usize, usize) {
        let changes = self.changes.iter().filter(|op| op.tag() != DiffTag::Equal);
        changes.fold((0, 0), |(added, removed), op| {
            (added + op.new_range().len(), removed + op.old_range().len())
        })
    }

    /// Appends the hunks, as far as the room goes.
    pub(super) fn write(&self, out: &mut Bounded) {
        for group in group_diff_ops(self.changes.clone(), AROUND) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                continue;
            };
            let old = first.old_range().start..last.old_range().end;
            let new = first.new_range().start..last.new_range().end;
            out.line(
                b"",
                format!("@@ -{} +{} @@", range(&old), range(&new)).as_bytes(),
            );
            for op in group {
                if op.tag() == DiffTag::Equal {
                    lines(b" ", &self.old, op.old_range(), out);
                } else {
                    lines(b"-", &self.old, op.old_range(), out);
                    lines(b"+", &self.new, op.new_range(), out);
                }
            }
        }
    }
}

fn lines(mark: &[u8], all: &[&[u8]], range: std::ops::Range<usize>, out: &mut Bounded) {
    for line in all.get(range).unwrap_or_default() {
        out.line(mark, line.strip_suffix(b"\n").unwrap_or(line));
        if !line.ends_with(b"\n") {
            out.line(b"", b"\\ No newline at end of file");
        }
    }
}

/// Lines as a hunk's head names them: from 1, and the line before an empty range.
fn range(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

/// Text that is shown up to a limit and says what is missing.
pub(super) struct Bounded {
    text: String,
    limit: usize,
    missing: usize,
}

/// Bytes of one line that are shown.
const LINE: usize = 4_096;

impl Bounded {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
            missing: 0,
        }
    }

    pub(super) fn line(&mut self, mark: &[u8], line: &[u8]) {
        // Once something is missing, nothing comes behind it.
        if self.missing > 0 || self.text.len() + line.len().min(LINE) > self.limit {
            self.missing += 1;
            return;
        }
        self.text.push_str(&escape_unambiguous(mark));
        let cut = line.len().saturating_sub(LINE);
        let line = line.get(..LINE).unwrap_or(line);
        self.text.push_str(&escape_unambiguous(line));
        if cut > 0 {
            self.text
                .push_str(&format!(" [{cut} more bytes of this line are not shown]"));
        }
        self.text.push('\n');
    }

    pub(super) fn finish(mut self) -> String {
        if self.missing > 0 {
            self.text.push_str(&format!(
                "[cut here: {} more lines of this change are not shown]\n",
                self.missing
            ));
        }
        self.text
    }
}
