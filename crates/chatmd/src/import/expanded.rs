//! A document with expanded imports, and the texts that it consists of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use logue_source::{Diagnostic, SourceMap};

use crate::document::element::Document;
use crate::document::tool_use;

/// A document with expanded imports.
#[derive(Clone, Debug)]
pub struct ExpandedDocument<'a> {
    pub(super) document: Document,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) parts: Vec<SourcePart<'a>>,
    pub(super) targets: BTreeMap<usize, ImportTarget>,
}

/// One text of an [`ExpandedDocument`]: the document itself or an imported text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourcePart<'a> {
    /// Name in reports.
    pub name: Cow<'a, str>,
    /// The text.
    pub text: Cow<'a, str>,
    /// Address of its first byte; 0 for the document itself.
    pub base: usize,
    /// Address of its import; `None` for the document itself.
    pub imported_at: Option<usize>,
}

impl<'a> SourcePart<'a> {
    /// Creates the part of a document without imports.
    pub fn new(name: impl Into<Cow<'a, str>>, text: impl Into<Cow<'a, str>>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            base: 0,
            imported_at: None,
        }
    }
}

impl SourcePart<'_> {
    /// Converts borrowed fields to owned ones.
    pub fn into_owned(self) -> SourcePart<'static> {
        SourcePart {
            name: Cow::Owned(self.name.into_owned()),
            text: Cow::Owned(self.text.into_owned()),
            base: self.base,
            imported_at: self.imported_at,
        }
    }
}

/// The kind of an expanded import, and the index of its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportTarget {
    /// A ChatMD document: its elements.
    Document(usize),
    /// Text with its complete `doc`, `img`, `agent` and `import` elements, without comments.
    ///
    /// Tags that it only mentions are text.
    Fragment(usize),
}

impl<'a> ExpandedDocument<'a> {
    /// Returns the document with expanded imports.
    ///
    /// Spans are addresses of [`ExpandedDocument::source_map`].
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the findings of all texts in the order of their addresses.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns all findings, including those without relevance to a run.
    ///
    /// The additional ones are calls of undeclared tools (`undeclared-tool`) and declared tools without
    /// calls (`unused-tool`).
    pub fn check(&self) -> Vec<Diagnostic> {
        let mut findings = self.diagnostics.clone();
        findings.extend(tool_use::check(&self.document));
        tool_use::refuse_repeated_ids(&mut findings);
        findings.sort_by_key(|diagnostic| diagnostic.primary.start);
        findings
    }

    /// Returns whether a diagnostic is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the text of the document and the imported texts, in address order.
    pub fn parts(&self) -> &[SourcePart<'a>] {
        &self.parts
    }

    /// Returns the parts, without the document.
    pub fn into_parts(self) -> Vec<SourcePart<'a>> {
        self.parts
    }

    /// Returns the target of the import at an address; `None` if it was not expanded.
    pub fn target(&self, import: usize) -> Option<ImportTarget> {
        self.targets.get(&import).copied()
    }

    /// Returns the map from addresses to texts.
    ///
    /// Linear in the length of all texts.
    pub fn source_map(&self) -> SourceMap<'_> {
        source_map(&self.parts)
    }
}

/// Creates the map of the parts of a document.
///
/// Linear in the length of all texts.
pub fn source_map<'p>(parts: &'p [SourcePart<'_>]) -> SourceMap<'p> {
    let mut map = SourceMap::new();
    for part in parts {
        map.push(&*part.name, part.text.as_bytes(), part.imported_at);
    }
    map
}
