//! Translation of positions in a repaired text to positions in the input.

use logue_source::Span;

use crate::edit::replacement::Replacement;
use crate::repair::proposal::Proposal;

/// The offset mapping of all passes.
#[derive(Default)]
pub(super) struct Origin {
    passes: Vec<Vec<Moved>>,
}

/// Maps offsets from `new` on to offsets from `old` on, up to the next entry.
#[derive(Clone, Copy)]
struct Moved {
    new: usize,
    old: usize,
}

impl Origin {
    pub(super) fn push(&mut self, proposals: &[Proposal]) {
        let mut edits: Vec<&Replacement> = proposals
            .iter()
            .flat_map(|proposal| &proposal.edits)
            .collect();
        edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
        let (mut added, mut removed) = (0, 0);
        let moves = edits.into_iter().flat_map(|edit| {
            let begin = Moved {
                new: edit.span.start + added - removed,
                old: edit.span.start,
            };
            added += edit.text.len();
            removed += edit.span.len();
            let end = Moved {
                new: begin.new + edit.text.len(),
                old: edit.span.end,
            };
            [begin, end]
        });
        self.passes.push(moves.collect());
    }

    pub(super) fn span(&self, text: &str, span: Span) -> Span {
        let [start, end] =
            [span.start, span.end].map(|at| text.floor_char_boundary(self.offset(at)));
        Span::new(start, end.max(start))
    }

    fn offset(&self, at: usize) -> usize {
        self.passes.iter().rev().fold(at, |at, moves| {
            let next = moves.partition_point(|moved| moved.new <= at);
            let Some(last) = next.checked_sub(1).and_then(|last| moves.get(last)) else {
                return at;
            };
            let back = last.old + (at - last.new);
            // An offset inside an insertion maps to the position of the insertion.
            moves.get(next).map_or(back, |next| back.min(next.old))
        })
    }
}
