//! A list of diagnostics that stays readable: of each code only the first few are kept, and the
//! last of them says how many more there are.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode};

/// Findings of one code that are kept.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    counts: BTreeMap<DiagnosticCode, (usize, usize)>,
}

impl Findings {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.push_made(diagnostic.code, || diagnostic);
    }

    /// The same for a finding of `code` that is made only if it is kept: looking for what somebody
    /// meant is too much work to do for each of a million findings.
    pub(crate) fn push_made(&mut self, code: DiagnosticCode, make: impl FnOnce() -> Diagnostic) {
        let (count, last) = self.counts.entry(code).or_default();
        *count += 1;
        if *count <= KEPT {
            *last = self.list.len();
            self.list.push(make());
        }
    }

    /// Whether one more finding of that code would only be counted. It is counted then, and need
    /// not be made.
    pub(crate) fn is_full(&mut self, code: DiagnosticCode) -> bool {
        match self.counts.get_mut(&code) {
            Some((count, _)) if *count >= KEPT => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// The findings in the order of their places in the text.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        for (code, (count, last)) in self.counts {
            if count > KEPT
                && let Some(diagnostic) = self.list.get_mut(last)
            {
                let more = count - KEPT;
                diagnostic
                    .help
                    .push(format!("{more} more findings of `{code}` are not shown"));
            }
        }
        self.list.sort_by_key(|diagnostic| diagnostic.primary.start);
        self.list
    }
}
