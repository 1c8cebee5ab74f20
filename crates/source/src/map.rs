//! A document and its imports in one address space.
//!
//! Each text has its own range of addresses, so a [`Span`] identifies its text, and code for spans
//! needs no change for several texts. The first text begins at address 0: in a document without
//! imports, addresses are offsets.

use crate::{Diagnostic, Label, LineColumn, ReportStyle, Source, Span};

/// Texts in one address space, each with the position of its import.
///
/// ```
/// use logue_source::{DiagnosticCode, Diagnostic, SourceMap, Span, ColorMode};
///
/// let mut map = SourceMap::new();
/// map.push("prompt.md", b"<import src=\"rules.md\"/>", None);
/// let rules = map.push("rules.md", b"Be brief", Some(0));
/// let finding = Diagnostic::warning(DiagnosticCode::ContentDropped, "dropped", Span::new(rules, rules + 2));
/// let report = map.render(&finding, ColorMode::Plain);
/// assert!(report.contains("rules.md:1:1"));
/// assert!(report.contains("imported at prompt.md:1:1"));
/// ```
#[derive(Debug, Default)]
pub struct SourceMap<'a> {
    files: Vec<File<'a>>,
}

#[derive(Debug)]
struct File<'a> {
    base: usize,
    source: Source<'a>,
    imported_at: Option<usize>,
}

impl<'a> SourceMap<'a> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a map of one text.
    pub fn single(name: impl Into<String>, text: &'a [u8]) -> Self {
        let mut map = Self::new();
        map.push(name, text, None);
        map
    }

    /// Returns the base address after a text of `length` bytes at `base`.
    ///
    /// One unused address separates two texts, so the end of one is not the start of the next.
    pub const fn next_base(base: usize, length: usize) -> usize {
        base + length + 1
    }

    /// Adds a text and returns the address of its first byte.
    ///
    /// `imported_at` is the address of the import that names the text. Linear in the length of the
    /// text.
    pub fn push(
        &mut self,
        name: impl Into<String>,
        text: &'a [u8],
        imported_at: Option<usize>,
    ) -> usize {
        let base = self.files.last().map_or(0, |last| {
            Self::next_base(last.base, last.source.text().len())
        });
        self.files.push(File {
            base,
            source: Source::new(name, text),
            imported_at,
        });
        base
    }

    /// Returns the text at an address and the offset in that text.
    ///
    /// Logarithmic in the number of texts.
    pub fn locate(&self, address: usize) -> Option<(&Source<'a>, usize)> {
        let file = self.file(address)?;
        Some((&file.source, address - file.base))
    }

    /// Returns `name:line:column` of an address.
    pub fn place(&self, address: usize) -> String {
        match self.locate(address) {
            Some((source, offset)) => source.place(offset),
            None => String::new(),
        }
    }

    /// Returns the imports that lead to an address, the nearest first.
    ///
    /// Each import has the form `name:line:column`. The first text has none.
    pub fn import_chain(&self, address: usize) -> Vec<String> {
        self.imports_to(address).map(|at| self.place(at)).collect()
    }

    /// Yields the addresses of the imports that lead to an address.
    ///
    /// An import has a lower address than its text, so the sequence ends.
    fn imports_to(&self, address: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(address), |&at| {
            let import = self.file(at)?.imported_at?;
            (import < at).then_some(import)
        })
        .skip(1)
    }

    /// Returns the line and column of an address in its text.
    pub fn line_column(&self, address: usize) -> Option<LineColumn> {
        let (source, offset) = self.locate(address)?;
        Some(source.line_column(offset))
    }

    /// Returns the text of a finding, and the finding with offsets into that text.
    ///
    /// For report formats with one text per finding. Labels in other texts and the chain of imports
    /// become the first remedies.
    pub fn resolve(&self, diagnostic: &Diagnostic) -> Option<(&Source<'a>, Diagnostic)> {
        let file = self.file(diagnostic.primary.start)?;
        let (mut local, notes) = self.localise(diagnostic, file);
        local.help.splice(0..0, notes);
        Some((&file.source, local))
    }

    /// Renders a finding and the chain of imports that leads to its text.
    pub fn render(&self, diagnostic: &Diagnostic, style: impl Into<ReportStyle>) -> String {
        let Some(file) = self.file(diagnostic.primary.start) else {
            return format!("{}: {}\n", diagnostic.code, diagnostic.message);
        };
        let (local, notes) = self.localise(diagnostic, file);
        file.source.render_with(&local, &notes, style.into())
    }

    /// Converts a finding to offsets into `file`; labels in other texts become notes.
    fn localise(&self, diagnostic: &Diagnostic, file: &File<'a>) -> (Diagnostic, Vec<String>) {
        let end = file.base + file.source.text().len();
        let here = |span: Span| {
            let start = span.start.saturating_sub(file.base);
            Span::new(
                start,
                span.end.min(end).saturating_sub(file.base).max(start),
            )
        };
        let mut local = Diagnostic {
            primary: here(diagnostic.primary),
            labels: Vec::new(),
            ..diagnostic.clone()
        };
        let mut notes = Vec::new();
        for label in &diagnostic.labels {
            if (file.base..=end).contains(&label.span.start) {
                let text = label.text.clone();
                local.labels.push(Label::new(here(label.span), text));
            } else {
                notes.push(format!("{}: {}", self.place(label.span.start), label.text));
            }
        }
        let is_labelled = |at: &usize| {
            diagnostic
                .labels
                .iter()
                .any(|label| label.span.start == *at)
        };
        let chain = self.imports_to(diagnostic.primary.start);
        let chain = chain.filter(|at| !is_labelled(at));
        notes.extend(chain.map(|at| format!("imported at {}", self.place(at))));
        (local, notes)
    }

    fn file(&self, address: usize) -> Option<&File<'a>> {
        let following = self.files.partition_point(|file| file.base <= address);
        self.files.get(following.checked_sub(1)?)
    }
}
