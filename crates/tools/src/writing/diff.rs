//! Unified diffs of file contents.
//!
//! Lines are bytes, and characters that could drive a terminal are escaped. `patch` reads the result
//! unless a character was escaped or a line was truncated.

use std::time::{Duration, Instant};

use similar::udiff::UnifiedHunkHeader;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use logue_source::escape_unambiguous;

/// Number of unchanged lines around a change.
const CONTEXT: usize = 3;

/// Time limit of the search for the shortest diff; a longer diff follows.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The difference of two contents, line by line.
pub(super) struct Difference<'a> {
    old: Vec<&'a [u8]>,
    new: Vec<&'a [u8]>,
    changes: Vec<DiffOp>,
}

impl<'a> Difference<'a> {
    pub(super) fn between(old: &'a [u8], new: &'a [u8]) -> Self {
        let old: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
        let new: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
        let deadline = Instant::now() + TIMEOUT;
        let changes = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
        Self { old, new, changes }
    }

    /// Returns the numbers of added and removed lines.
    pub(super) fn counts(&self) -> (usize, usize) {
        let changes = self.changes.iter().filter(|op| op.tag() != DiffTag::Equal);
        changes.fold((0, 0), |(added, removed), op| {
            (added + op.new_range().len(), removed + op.old_range().len())
        })
    }

    /// Appends the hunks until `out` is full.
    pub(super) fn write(&self, out: &mut BoundedText) {
        for group in group_diff_ops(self.changes.clone(), CONTEXT) {
            if group.is_empty() {
                continue;
            }
            let header = UnifiedHunkHeader::new(&group).to_string();
            out.line(b"", header.as_bytes());
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

fn lines(mark: &[u8], all: &[&[u8]], range: std::ops::Range<usize>, out: &mut BoundedText) {
    for line in all.get(range).unwrap_or_default() {
        out.line(mark, line.strip_suffix(b"\n").unwrap_or(line));
        if !line.ends_with(b"\n") {
            out.line(b"", b"\\ No newline at end of file");
        }
    }
}

/// Text up to a limit, with a note of the number of lines left out.
pub(super) struct BoundedText {
    text: String,
    limit: usize,
    missing: usize,
}

/// Maximum number of bytes shown of one line.
const MAX_LINE_BYTES: usize = 4_096;

impl BoundedText {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            limit,
            missing: 0,
        }
    }

    pub(super) fn line(&mut self, mark: &[u8], line: &[u8]) {
        // Nothing follows the first line that was left out.
        if self.missing > 0 || self.text.len() + line.len().min(MAX_LINE_BYTES) > self.limit {
            self.missing += 1;
            return;
        }
        self.text.push_str(&escape_unambiguous(mark));
        let cut = line.len().saturating_sub(MAX_LINE_BYTES);
        self.text.push_str(&escape_unambiguous(
            line.get(..MAX_LINE_BYTES).unwrap_or(line),
        ));
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
