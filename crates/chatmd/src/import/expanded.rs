//! A document with expanded imports, and the texts that it consists of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use logue_source::{Diagnostic, SourceMap};

use crate::document::element::Document;
use crate::document::tool_use;

/// A document, its imports expanded.
#[derive(Clone, Debug)]
pub struct ExpandedDocument<'a> {
    pub(super) document: Document,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) parts: Vec<SourcePart<'a>>,
    pub(super) targets: BTreeMap<usize, ImportTarget>,
}

/// One text of a [`ExpandedDocument`] document: the document's own, or one that an import named.
#[derive(Clone, Debug)]
pub struct SourcePart<'a> {
    /// What reports call it.
    pub name: Cow<'a, str>,
    /// Its text.
    pub text: Cow<'a, str>,
    /// The address of its first byte; 0 for the document's own.
    pub base: usize,
    /// The address of the import that named it.
    pub imported_at: Option<usize>,
}

impl SourcePart<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> SourcePart<'static> {
        SourcePart {
            name: Cow::Owned(self.name.into_owned()),
            text: Cow::Owned(self.text.into_owned()),
            base: self.base,
            imported_at: self.imported_at,
        }
    }
}

/// What an import stands for: the part with that index, taken as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportTarget {
    /// A ChatMD document: its elements.
    Document(usize),
    /// Text that may hold `doc`, `img`, `agent` and `import` elements, as a message may.
    Fragment(usize),
    /// Text that is taken as it is.
    Verbatim(usize),
}

impl<'a> ExpandedDocument<'a> {
    /// The document with its imports expanded. Spans are addresses of [`ExpandedDocument::source_map`].
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What is wrong with any of the texts, in the order of their addresses: the document's own
    /// first.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The same with what does not concern a run: calls of tools that nothing declares
    /// (`undeclared-tool`), and tools that were never called (`unused-tool`).
    pub fn check(&self) -> Vec<Diagnostic> {
        let mut findings = self.diagnostics.clone();
        findings.extend(tool_use::check(&self.document));
        findings.sort_by_key(|diagnostic| diagnostic.primary.start);
        findings
    }

    /// Whether a diagnostic is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The document's text and the imported ones, in the order of their addresses.
    pub fn parts(&self) -> &[SourcePart<'a>] {
        &self.parts
    }

    /// The parts alone.
    pub fn into_parts(self) -> Vec<SourcePart<'a>> {
        self.parts
    }

    /// What the import at an address stands for; `None` where it was not expanded.
    pub fn target(&self, import: usize) -> Option<ImportTarget> {
        self.targets.get(&import).copied()
    }

    /// Where each address is. Linear in the length of all texts.
    pub fn source_map(&self) -> SourceMap<'_> {
        source_map(&self.parts)
    }
}

/// The map of the parts of a document. Linear in the length of all texts.
pub fn source_map<'p>(parts: &'p [SourcePart<'_>]) -> SourceMap<'p> {
    let mut map = SourceMap::new();
    for part in parts {
        map.push(&*part.name, part.text.as_bytes(), part.imported_at);
    }
    map
}
