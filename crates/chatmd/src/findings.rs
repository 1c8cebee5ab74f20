//! A list of diagnostics with a limit for each code.
//!
//! Only the first findings of a code are kept. The last of them has the number of the others.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode};

/// Maximum number of findings that are kept for one code.
const MAX_PER_CODE: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    counts: BTreeMap<DiagnosticCode, (usize, usize)>,
}

impl Findings {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.push_with(diagnostic.code, || diagnostic);
    }

    /// Adds the findings of another list; returns whether it has none.
    pub(crate) fn extend(&mut self, other: Self) -> bool {
        let is_empty = other.list.is_empty();
        for diagnostic in other.finish() {
            self.push(diagnostic);
        }
        is_empty
    }

    /// Adds a finding of `code`, created only if it is kept.
    ///
    /// Creating it may search for spelling suggestions, which is too expensive for a million findings.
    pub(crate) fn push_with(&mut self, code: DiagnosticCode, create: impl FnOnce() -> Diagnostic) {
        let (count, last) = self.counts.entry(code).or_default();
        *count += 1;
        if *count <= MAX_PER_CODE {
            *last = self.list.len();
            self.list.push(create());
        }
    }

    /// Counts a finding of a full code, and returns whether the code is full.
    ///
    /// The caller then need not create the finding.
    pub(crate) fn is_full(&mut self, code: DiagnosticCode) -> bool {
        match self.counts.get_mut(&code) {
            Some((count, _)) if *count >= MAX_PER_CODE => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// Returns the findings in the order of the text.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        for (code, (count, last)) in self.counts {
            if count > MAX_PER_CODE
                && let Some(diagnostic) = self.list.get_mut(last)
            {
                let more = count - MAX_PER_CODE;
                diagnostic
                    .help
                    .push(format!("{more} more findings of `{code}` are not shown"));
            }
        }
        self.list.sort_by_key(|diagnostic| diagnostic.primary.start);
        self.list
    }
}
