//! Code points of a text that arrives in pieces.

use logue_source::Span;

/// Runs that are kept at the beginning of a message, where its header is, and at the end.
const KEPT: usize = 2048;

/// Consecutive characters of one width.
#[derive(Clone, Copy)]
struct Run {
    /// The byte offset of the first one.
    byte: usize,
    /// The code points before it.
    point: usize,
    /// Their width in bytes.
    width: usize,
}

/// The code points of a stream. Memory is bounded: of a message, the beginning and the latest part
/// are kept, and spans lead nowhere else.
#[derive(Default)]
pub(crate) struct RunningOffsets {
    runs: Vec<Run>,
    bytes: usize,
    points: usize,
    /// The bytes of an incomplete character.
    held: Vec<u8>,
}

impl RunningOffsets {
    /// Counts the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.held.is_empty() && bytes.is_ascii() {
            self.run(1, bytes.len());
            return;
        }
        let joined = [std::mem::take(&mut self.held), bytes.to_vec()].concat();
        let length = joined.len();
        let mut at = 0;
        for chunk in joined.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.run(character.len_utf8(), 1);
            }
            at += chunk.valid().len() + chunk.invalid().len();
            if chunk.invalid().is_empty() {
                continue;
            }
            let is_cut = at == length
                && std::str::from_utf8(chunk.invalid())
                    .is_err_and(|error| error.error_len().is_none());
            if is_cut {
                self.held = chunk.invalid().to_vec();
            } else {
                self.run(chunk.invalid().len(), 1);
            }
        }
    }

    fn run(&mut self, width: usize, count: usize) {
        if count == 0 {
            return;
        }
        if self.runs.last().is_none_or(|run| run.width != width) {
            if self.runs.len() > 4 * KEPT {
                self.runs.drain(KEPT..2 * KEPT);
            }
            self.runs.push(Run {
                byte: self.bytes,
                point: self.points,
                width,
            });
        }
        self.bytes += width * count;
        self.points += count;
    }

    /// Forgets what precedes byte `offset`.
    pub(crate) fn forget(&mut self, offset: usize) {
        let first = self.runs.partition_point(|run| run.byte <= offset);
        self.runs.drain(..first.saturating_sub(1));
    }

    /// The code points before byte `offset`; those with a part before it where `is_end`.
    fn code_point(&self, offset: usize, is_end: bool) -> usize {
        if offset > self.bytes {
            // Inside of a character that has not all arrived.
            return self.points + usize::from(is_end);
        }
        let after = self.runs.partition_point(|run| run.byte <= offset);
        let Some(run) = after.checked_sub(1).and_then(|index| self.runs.get(index)) else {
            return offset.min(self.points);
        };
        let end = self.runs.get(after).map_or(self.points, |next| next.point);
        let bytes = offset - run.byte;
        let points = if is_end {
            bytes.div_ceil(run.width)
        } else {
            bytes / run.width
        };
        (run.point + points).min(end)
    }

    /// Returns the span in code points. A character of which it has a part is in it.
    pub(crate) fn span(&self, span: Span) -> (usize, usize) {
        (
            self.code_point(span.start, false),
            self.code_point(span.end, true),
        )
    }
}
