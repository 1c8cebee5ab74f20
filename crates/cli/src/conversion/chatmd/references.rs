//! The references of a document in a conversion: expanded, or kept as text.

use chatmd::{
    ContentItem, Document, DocumentRequest, DocumentText, ImageData, ImageRequest, ImportTarget,
    SourcePart, Tree, World, WorldError, load, parse,
};
use logue_agent::{EvaluationRecord, FileLoader};
use logue_source::{Diagnostic, SourceMap, Span};

use crate::conversion::chatmd::payloads::Payloads;

/// The files that a conversion may read, and the pages that earlier runs fetched.
#[derive(Debug)]
pub(crate) struct Expansion {
    pub(crate) files: FileLoader,
    pub(crate) record: Option<EvaluationRecord>,
}

/// The source of the texts that references name.
#[derive(Debug)]
pub(crate) struct References {
    expansion: Option<Expansion>,
    payloads: Payloads,
}

/// A document with its imports, if they are expanded.
pub(crate) struct Expanded<'t> {
    pub(crate) document: Document,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) parts: Vec<SourcePart<'t>>,
    /// The tree of the document.
    pub(crate) tree: Tree<'t>,
    /// The parts that are expanded documents.
    pub(crate) imported: Vec<usize>,
}

impl References {
    pub(crate) fn new(expansion: Option<Expansion>, payloads: Payloads) -> Self {
        Self {
            expansion,
            payloads,
        }
    }

    pub(crate) const fn is_expanded(&self) -> bool {
        self.expansion.is_some()
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    /// Reads a document, with its imports if they are expanded.
    pub(crate) fn load<'t>(&mut self, text: &'t str) -> Expanded<'t> {
        let tree = parse(text);
        let Some(expansion) = &mut self.expansion else {
            let (document, typed) = Document::from_tree(&tree);
            return Expanded {
                document,
                diagnostics: [tree.diagnostics().to_vec(), typed].concat(),
                parts: vec![SourcePart::new("", text)],
                tree,
                imported: Vec::new(),
            };
        };
        let loaded = load("", text, &mut expansion.files);
        let document = loaded.document().clone();
        let diagnostics = loaded.diagnostics().to_vec();
        let is_document = |part: &SourcePart<'_>| {
            let target = part.imported_at.and_then(|at| loaded.target(at));
            matches!(target, Some(ImportTarget::Document(_)))
        };
        let numbered = loaded.parts().iter().enumerate();
        let imported = numbered.filter(|(_, part)| is_document(part));
        let imported = imported.map(|(index, _)| index).collect();
        Expanded {
            document,
            diagnostics,
            parts: loaded.into_parts(),
            tree,
            imported,
        }
    }

    /// Replaces the references that are not followed by their source, and returns their spans.
    pub(crate) fn keep(&self, document: &mut Document, map: &SourceMap<'_>) -> Vec<Span> {
        let mut kept = Vec::new();
        document.replace_items(|item| {
            if !self.is_kept(item) {
                return None;
            }
            let span = item.span();
            let (source, start) = map.locate(span.start)?;
            let end = start + (span.end - span.start);
            let text = source.text().get(start..end)?;
            kept.push(span);
            Some(String::from_utf8_lossy(text).into_owned())
        });
        kept
    }

    fn is_kept(&self, item: &ContentItem) -> bool {
        match item {
            ContentItem::Import(_) => self.expansion.is_none(),
            ContentItem::Agent(agent) => !agent.src.is_empty(),
            ContentItem::Doc(doc) if doc.src.is_empty() => false,
            ContentItem::Doc(doc) if doc.local => {
                self.expansion.is_none() && !self.payloads.has(&doc.src)
            }
            ContentItem::Doc(doc) => self.page(&doc.src).is_none(),
            _ => false,
        }
    }

    /// Returns a page as an earlier run of the transcript fetched it.
    fn page(&self, src: &str) -> Option<DocumentText> {
        self.expansion.as_ref()?.record.as_ref()?.page(src)
    }
}

impl World for References {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        if !request.local
            && let Some(page) = self.page(request.src)
        {
            return Ok(page);
        }
        match &mut self.expansion {
            Some(expansion) => expansion.files.document(request),
            None => self.payloads.document(request),
        }
    }

    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        match &mut self.expansion {
            Some(expansion) => expansion.files.image(request),
            None => self.payloads.image(request),
        }
    }
}

/// Returns diagnostics with spans in the document; those of imports point to the import.
pub(crate) fn in_document(
    found: Vec<Diagnostic>,
    parts: &[SourcePart<'_>],
    map: &SourceMap<'_>,
) -> Vec<Diagnostic> {
    let end = parts.first().map_or(0, |part| part.text.len());
    let moved = |mut found: Diagnostic| {
        let mut at = found.primary.start;
        if map.import_chain(at).is_empty() {
            return found;
        }
        found.message = format!("{}: {}", map.place(at), found.message);
        while at > end {
            let part = parts.iter().rev().find(|part| part.base <= at);
            at = part.and_then(|part| part.imported_at).unwrap_or_default();
        }
        found.primary = Span::new(at, at);
        found.labels.clear();
        found
    };
    found.into_iter().map(moved).collect()
}
