//! Several texts as one: a document and what it imports.
//!
//! Each text gets a stretch of one address space, so a [`Span`] alone says which text it is in, and
//! everything that handles spans handles several texts without knowing it. The first text begins at
//! 0: for a document that imports nothing, nothing changes.

use crate::{ColorMode, Diagnostic, Label, LineColumn, Source, Span};

/// Texts in one address space, each with the place that imported it.
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
    /// A map without texts.
    pub fn new() -> Self {
        Self::default()
    }

    /// A map of one text.
    pub fn single(name: impl Into<String>, text: &'a [u8]) -> Self {
        let mut map = Self::new();
        map.push(name, text, None);
        map
    }

    /// The address of the first byte of a text that follows one of `length` bytes at `base`. One
    /// address lies between two texts, so that the end of one is not the begin of the next.
    pub const fn next_base(base: usize, length: usize) -> usize {
        base + length + 1
    }

    /// Adds a text and gives the address of its first byte. `imported_at` is the address of the
    /// import that named it. Linear in the length of the text.
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

    /// The text that holds an address, and the offset in it. Logarithmic in the number of texts.
    pub fn locate(&self, address: usize) -> Option<(&Source<'a>, usize)> {
        let file = self.file(address)?;
        Some((&file.source, address - file.base))
    }

    /// `name:line:column` of an address.
    pub fn place(&self, address: usize) -> String {
        match self.locate(address) {
            Some((source, offset)) => source.place(offset),
            None => String::new(),
        }
    }

    /// The imports that led to the text that holds an address, the nearest first, as
    /// `name:line:column`. Empty for the first text.
    pub fn import_chain(&self, address: usize) -> Vec<String> {
        self.imports_to(address).map(|at| self.place(at)).collect()
    }

    /// The addresses of those imports. An import stands before what it imports, so they end.
    fn imports_to(&self, address: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(address), |&at| {
            let import = self.file(at)?.imported_at?;
            (import < at).then_some(import)
        })
        .skip(1)
    }

    /// Line and column of an address in its text.
    pub fn line_column(&self, address: usize) -> Option<LineColumn> {
        let (source, offset) = self.locate(address)?;
        Some(source.line_column(offset))
    }

    /// The text that a finding is in, and the finding with the offsets of that text: for reports
    /// that know one text at a time. What it says of other texts, and the imports that led there,
    /// come first among its advice.
    pub fn resolve(&self, diagnostic: &Diagnostic) -> Option<(&Source<'a>, Diagnostic)> {
        let file = self.file(diagnostic.primary.start)?;
        let (mut local, notes) = self.localise(diagnostic, file);
        local.help.splice(0..0, notes);
        Some((&file.source, local))
    }

    /// The report of a finding in whichever text it is, with the imports that led there.
    pub fn render(&self, diagnostic: &Diagnostic, style: ColorMode) -> String {
        let Some(file) = self.file(diagnostic.primary.start) else {
            return format!("{}: {}\n", diagnostic.code, diagnostic.message);
        };
        let (local, notes) = self.localise(diagnostic, file);
        file.source.render_with(&local, &notes, style)
    }

    /// The finding with the offsets of its own text, and what it says of other texts as notes.
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
                local.labels.push(Label {
                    span: here(label.span),
                    text: label.text.clone(),
                });
            } else {
                notes.push(format!("{}: {}", self.place(label.span.start), label.text));
            }
        }
        let is_told = |at: &usize| {
            diagnostic
                .labels
                .iter()
                .any(|label| label.span.start == *at)
        };
        let chain = self.imports_to(diagnostic.primary.start);
        let chain = chain.filter(|at| !is_told(at));
        notes.extend(chain.map(|at| format!("imported at {}", self.place(at))));
        (local, notes)
    }

    fn file(&self, address: usize) -> Option<&File<'a>> {
        let behind = self.files.partition_point(|file| file.base <= address);
        self.files.get(behind.checked_sub(1)?)
    }
}
