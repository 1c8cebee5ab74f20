//! Reading a document with its imports.

use std::borrow::Cow;
use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode, SourceMap, Span};

use crate::document::content::{ContentItem, Import};
use crate::document::document_checks;
use crate::document::element::{Document, Element};
use crate::document::offset_spans::OffsetSpans as _;
use crate::document::read;
use crate::document::read_content;
use crate::findings::Findings;
use crate::import::classify::{ImportPlace, classify};
use crate::import::expanded::{ExpandedDocument, ImportTarget, SourcePart};
use crate::syntax::builder::parse;
use crate::syntax::fragment::parse_fragment;
use crate::syntax::lexer::{COMMENT_CLOSE, COMMENT_OPEN, TokenKind};
use crate::syntax::tree::Tree;
use crate::syntax::whitespace::is_blank;
use crate::world::port::{ImportRequest, World};

/// Returns a warning about a comment without its end, which is text in a fragment.
///
/// Prose may mention the beginning of a comment, so it is not an error there; after a backtick it is
/// a mention.
fn unterminated_comment(tree: &Tree<'_>) -> Option<Diagnostic> {
    let text = tree.source();
    let end = text.rfind(COMMENT_CLOSE).unwrap_or_default();
    let mut in_text = tree.tokens().filter(|token| token.kind == TokenKind::Text);
    let start = in_text.find_map(|token| {
        let from = token.span.start.max(end);
        let found = text.get(from..token.span.end)?.match_indices(COMMENT_OPEN);
        let mut starts = found.map(|(at, _)| from + at);
        starts.find(|start| {
            !text
                .get(..*start)
                .is_some_and(|before| before.ends_with('`'))
        })
    })?;
    let span = Span::new(start, start + COMMENT_OPEN.len());
    let message = "the comment has no end, so it is sent to the model as text";
    Some(
        Diagnostic::warning(DiagnosticCode::MdUnterminatedComment, message, span)
            .with_expected("`-->` after the comment")
            .with_help("write `-->` after it, or `RAW|<!--|RAW` if it is text"),
    )
}

/// Maximum nesting depth of imports.
pub const MAX_IMPORT_DEPTH: usize = 64;

/// Maximum number of imports that one document expands to.
const MAX_IMPORTS: usize = 1000;

/// Maximum total size of all imported texts, in bytes.
const MAX_IMPORTED_BYTES: usize = 64 * 1024 * 1024;

/// Reads a document and expands its imports with texts from the world.
///
/// Never fails: an import that cannot be expanded is omitted and reported.
///
/// Errors, in addition to those of [`parse`] and [`Document::from_tree`] for every text: a text that
/// is not available, one that imports itself (`E-MD-IMPORT-CYCLE`), more than [`MAX_IMPORT_DEPTH`]
/// levels or 1,000 imports or 64 MiB (`E-MD-IMPORT-LIMIT`). The labels contain the import chain.
///
/// Linear in the size of the expanded document.
///
/// ```
/// use chatmd::{MemoryWorld, load};
///
/// let mut world = MemoryWorld::new().with("rules.md", "Be brief.");
/// let text = "<system><import src=\"rules.md\"/></system>";
/// let loaded = load("prompt.md", text, &mut world);
/// assert!(loaded.diagnostics().is_empty());
/// let evaluation = chatmd::evaluate(loaded.document(), &mut world);
/// assert_eq!(evaluation.messages[0].text(), "Be brief.");
/// ```
pub fn load<'a>(name: &'a str, text: &'a str, world: &mut dyn World) -> ExpandedDocument<'a> {
    let root = world.root_id().unwrap_or_else(|| name.to_owned());
    let mut loader = Loader {
        world,
        parts: vec![SourcePart::new(name, text)],
        targets: BTreeMap::new(),
        diagnostics: Vec::new(),
        findings: Findings::default(),
        imported_bytes: 0,
        stack: vec![Step {
            id: root,
            name: name.to_owned(),
            import: None,
            namespace: None,
        }],
    };
    let tree = parse(text);
    loader.diagnostics.extend_from_slice(tree.diagnostics());
    let (document, findings) = read::document(&tree);
    loader.diagnostics.extend(findings.finish());
    let elements = loader.elements(document.elements);
    let mut document = Document { elements };
    document.resolve_profiles();
    let mut findings = loader.findings;
    document_checks::check(&document, &mut findings);
    let mut diagnostics = loader.diagnostics;
    diagnostics.extend(findings.finish());
    diagnostics.sort_by_key(|diagnostic| diagnostic.primary.start);
    ExpandedDocument {
        document,
        diagnostics,
        parts: loader.parts,
        targets: loader.targets,
    }
}

struct Loader<'a, 'w> {
    world: &'w mut dyn World,
    parts: Vec<SourcePart<'a>>,
    targets: BTreeMap<usize, ImportTarget>,
    /// Findings of the texts, each list already limited.
    diagnostics: Vec<Diagnostic>,
    /// Findings of the imports.
    findings: Findings,
    imported_bytes: usize,
    /// The texts in progress, the document first.
    stack: Vec<Step>,
}

struct Step {
    id: String,
    name: String,
    /// The import that named the text.
    import: Option<Span>,
    /// The namespace of that import.
    namespace: Option<String>,
}

impl Loader<'_, '_> {
    /// Expands elements; recursion ends at [`MAX_IMPORT_DEPTH`].
    fn elements(&mut self, elements: Vec<Element>) -> Vec<Element> {
        let mut expanded = Vec::with_capacity(elements.len());
        for mut element in elements {
            match &mut element {
                Element::Import(import) => {
                    self.imported_elements(import, &mut expanded);
                    continue;
                }
                Element::Message(message) => {
                    message.content = self.items(std::mem::take(&mut message.content));
                }
                Element::ToolCall(call) => {
                    call.content = self.items(std::mem::take(&mut call.content));
                }
                Element::ToolResponse(response) => {
                    response.content = self.items(std::mem::take(&mut response.content));
                }
                Element::Config(_)
                | Element::Tool(_)
                | Element::Reasoning(_)
                | Element::Variable(_)
                | Element::ShellAccess(_) => {}
            }
            expanded.push(element);
        }
        expanded
    }

    /// Expands content items.
    ///
    /// Recursion ends at [`MAX_IMPORT_DEPTH`], with at most [`crate::MAX_AGENT_DEPTH`] agents
    /// between two imports.
    fn items(&mut self, items: Vec<ContentItem>) -> Vec<ContentItem> {
        let is_plain =
            |item: &ContentItem| !matches!(item, ContentItem::Import(_) | ContentItem::Agent(_));
        if items.iter().all(is_plain) {
            return items;
        }
        let mut expanded = Vec::with_capacity(items.len());
        for mut item in items {
            match &mut item {
                ContentItem::Import(import) => {
                    self.imported_items(import, &mut expanded);
                    continue;
                }
                ContentItem::Agent(agent) => {
                    agent.content = self.items(std::mem::take(&mut agent.content));
                }
                ContentItem::Text(_) | ContentItem::Doc(_) | ContentItem::Img(_) => {}
            }
            expanded.push(item);
        }
        expanded
    }

    fn imported_elements(&mut self, import: &Import, out: &mut Vec<Element>) {
        let Some(target) = self.open(import, ImportPlace::Document) else {
            return;
        };
        match target {
            ImportTarget::Document(part) => {
                let elements = self.read(part, parse, |tree, findings, base| {
                    let (document, found) = read::document(tree);
                    *findings = found;
                    let mut elements = document.elements;
                    elements.shift(base);
                    elements
                });
                let elements = self.declared_here(elements);
                out.extend(self.elements(elements));
            }
            ImportTarget::Fragment(part) => {
                if !self.parts.get(part).is_none_or(|part| is_blank(&part.text)) {
                    self.findings.push(
                        Diagnostic::error(
                            DiagnosticCode::MdTopLevelText,
                            format!(
                                "{:?} is plain text, which must be inside a message",
                                import.src
                            ),
                            import.span,
                        )
                        .with_help("put the import into a message: `<system><import …/></system>`"),
                    );
                }
            }
        }
        self.stack.pop();
    }

    /// Completes the declarations of the innermost import: their file, and their qualified ids.
    fn declared_here(&self, mut elements: Vec<Element>) -> Vec<Element> {
        let namespaces = self
            .stack
            .iter()
            .filter_map(|step| step.namespace.as_deref());
        let prefix: String = namespaces.flat_map(|name| [name, ":"]).collect();
        let qualify = |id: &mut String| {
            if !id.contains(':') {
                id.insert_str(0, &prefix);
            }
        };
        let name = self.stack.last().map(|step| step.name.as_str());
        for element in &mut elements {
            match element {
                Element::Tool(tool) => {
                    for root in &mut tool.roots {
                        root.declared_in = name.map(str::to_owned);
                    }
                    if let Some(shell) = &mut tool.shell {
                        qualify(&mut shell.runtime);
                    }
                }
                Element::ShellAccess(access) => qualify(&mut access.id),
                _ => {}
            }
        }
        elements
    }

    fn imported_items(&mut self, import: &Import, out: &mut Vec<ContentItem>) {
        let Some(target) = self.open(import, ImportPlace::Message) else {
            return;
        };
        let fragment = |tree: &Tree<'_>, findings: &mut Findings, base: usize| {
            let mut items = read_content::fragment(tree, findings);
            items.shift(base);
            items
        };
        let items = match target {
            ImportTarget::Document(part) => {
                let mut items = self.read(part, parse, fragment);
                items.retain(|item| !matches!(item, ContentItem::Text(_)));
                items
            }
            ImportTarget::Fragment(part) => {
                self.read(part, parse_fragment, |tree, findings, base| {
                    if let Some(found) = unterminated_comment(tree) {
                        findings.push(found);
                    }
                    fragment(tree, findings, base)
                })
            }
        };
        out.extend(self.items(items));
        self.stack.pop();
    }

    /// Reads a part and translates its findings to its addresses.
    fn read<T>(
        &mut self,
        part: usize,
        parse: impl FnOnce(&str) -> Tree<'_>,
        read: impl FnOnce(&Tree<'_>, &mut Findings, usize) -> T,
    ) -> T
    where
        T: Default,
    {
        let Some(part) = self.parts.get(part) else {
            return T::default();
        };
        let tree = parse(&part.text);
        let mut findings = Findings::default();
        let value = read(&tree, &mut findings, part.base);
        let mut found = findings.finish();
        found.extend_from_slice(tree.diagnostics());
        found.shift(part.base);
        self.diagnostics.extend(found);
        value
    }

    /// Loads the imported part and pushes it on the stack.
    fn open(&mut self, import: &Import, place: ImportPlace) -> Option<ImportTarget> {
        // The typed view has reported the empty `src`.
        if import.src.is_empty() {
            return None;
        }
        let importer = self.stack.last()?;
        let request = ImportRequest {
            src: &import.src,
            importer: (self.stack.len() > 1).then_some(importer.id.as_str()),
        };
        let imported = match self.world.import(&request) {
            Ok(imported) => imported,
            Err(error) => {
                let error = Diagnostic::error(
                    error.kind.code(),
                    format!("cannot read the import {:?}: {error}", import.src),
                    import.span,
                )
                .with_help("use a path relative to the importing file");
                self.findings.push(error);
                return None;
            }
        };
        if let Some(at) = self.stack.iter().position(|step| step.id == imported.id) {
            let error = Diagnostic::error(
                DiagnosticCode::MdImportCycle,
                format!("{:?} imports itself", imported.name),
                import.span,
            )
            .with_help("move the shared text into a separate file");
            self.findings.push(self.with_chain(error, at + 1));
            return None;
        }
        self.imported_bytes = self.imported_bytes.saturating_add(imported.text.len());
        let exceeded = if self.stack.len() > MAX_IMPORT_DEPTH {
            Some(format!("imports nest more than {MAX_IMPORT_DEPTH} deep"))
        } else if self.parts.len() > MAX_IMPORTS {
            Some(format!(
                "the document expands to more than {MAX_IMPORTS} imports"
            ))
        } else if self.imported_bytes > MAX_IMPORTED_BYTES {
            Some("the imported texts are larger than 64 MiB together".to_owned())
        } else {
            None
        };
        if let Some(message) = exceeded {
            let error = Diagnostic::error(DiagnosticCode::MdImportLimit, message, import.span)
                .with_help("import fewer or smaller files");
            self.findings.push(self.with_chain(error, 1));
            return None;
        }
        let base = self
            .parts
            .last()
            .map_or(0, |last| SourceMap::next_base(last.base, last.text.len()));
        let index = self.parts.len();
        let target = classify(&imported.text, &imported.name, place, index);
        self.targets.insert(import.span.start, target);
        self.stack.push(Step {
            id: imported.id,
            name: imported.name.clone(),
            import: Some(import.span),
            namespace: import.namespace.clone(),
        });
        self.parts.push(SourcePart {
            name: Cow::Owned(imported.name),
            text: Cow::Owned(imported.text),
            base,
            imported_at: Some(import.span.start),
        });
        Some(target)
    }

    /// Adds the import chain to an error, from the step `from` on.
    fn with_chain(&self, error: Diagnostic, from: usize) -> Diagnostic {
        let chain = self.stack.iter().skip(from);
        chain.fold(error, |error, step| match step.import {
            Some(span) => error.with_label(span, format!("imports {:?}", step.name)),
            None => error,
        })
    }
}
