//! Conversion of content items to text and image blocks.

use std::borrow::Cow;

use logue_html::HtmlOptions;
use logue_message::{Content, ContentBlock, ImageSource};
use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::content::{ContentItem, DocumentRef, Image, Text};
use crate::evaluate::request::{EvaluationResponse, Responses, id_of};
use crate::findings::Findings;
use crate::syntax::whitespace::is_blank;
use crate::world::error::WorldError;
use crate::world::port::DocumentText;

/// Minimum output limit of a converted page, in bytes.
const MIN_OUTPUT: usize = 64 * 1024;

/// Builds content blocks from items.
pub(super) struct ContentBuilder<'a> {
    responses: &'a Responses,
    /// Receives errors of missing data; `None` if another builder reports them.
    findings: Option<&'a mut Findings>,
    blocks: Vec<ContentBlock>,
}

impl<'a> ContentBuilder<'a> {
    pub(super) fn new(responses: &'a Responses, findings: Option<&'a mut Findings>) -> Self {
        Self {
            responses,
            findings,
            blocks: Vec::new(),
        }
    }

    /// Adds the content of a message.
    pub(super) fn content(&mut self, items: &[ContentItem]) {
        if let [
            ContentItem::Text(Text {
                payload: Some(payload),
                ..
            }),
        ] = items
        {
            self.text(payload);
            return;
        }
        for item in items {
            self.item(item, false);
        }
    }

    /// Adds the content of a payload.
    ///
    /// White space around blocks and documents is layout, and omitted.
    pub(super) fn payload(&mut self, items: &[ContentItem]) {
        let laid_out = items.iter().any(|item| match item {
            ContentItem::Text(text) => text.payload.is_some(),
            _ => true,
        });
        for item in items {
            self.item(item, laid_out);
        }
    }

    /// Returns whether the content is white space.
    pub(super) fn is_blank(&self) -> bool {
        self.blocks.iter().all(|block| match block {
            ContentBlock::Text { text, .. } => is_blank(text),
            _ => false,
        })
    }

    pub(super) fn into_blocks(self) -> Vec<ContentBlock> {
        self.blocks
    }

    /// Returns the content, as a single text if it has no image.
    pub(super) fn into_content(mut self) -> Content {
        match self.blocks.as_mut_slice() {
            [] => Content::Text(String::new()),
            [ContentBlock::Text { text, .. }] => Content::Text(std::mem::take(text)),
            _ => Content::Blocks(self.blocks),
        }
    }

    fn item(&mut self, item: &ContentItem, laid_out: bool) {
        match item {
            ContentItem::Text(text) if laid_out => match &text.payload {
                Some(payload) => self.text(payload),
                None if is_blank(&text.text) => {}
                None => self.text(&text.text),
            },
            ContentItem::Text(text) => self.text(&text.text),
            ContentItem::Doc(doc) => self.doc(doc, item),
            ContentItem::Img(img) => self.img(img, item),
            ContentItem::Agent(agent) if agent.src.is_empty() => {}
            ContentItem::Agent(agent) => match self.responses.get(&id_of(item)) {
                Some(Ok(EvaluationResponse::Agent(text))) => self.text(text),
                answer => self.missing(
                    &format!("no answer of the agent {:?}", agent.src),
                    answer,
                    agent.span,
                ),
            },
            ContentItem::Import(import) => self.report(
                Diagnostic::error(
                    DiagnosticCode::MdUnsupported,
                    "unexpanded import",
                    import.span,
                )
                .with_help("replace it by the imported text"),
            ),
        }
    }

    fn doc(&mut self, doc: &DocumentRef, item: &ContentItem) {
        // The typed view has reported the empty `src`.
        if doc.src.is_empty() {
            return;
        }
        match self.responses.get(&id_of(item)) {
            Some(Ok(EvaluationResponse::Document(found))) => {
                let text = readable(doc, found);
                self.text(&text);
            }
            answer => self.missing(
                &format!("cannot read the document {:?}", doc.src),
                answer,
                doc.span,
            ),
        }
    }

    fn img(&mut self, img: &Image, item: &ContentItem) {
        if img.src.is_empty() {
            return;
        }
        let (source, media_type) = if img.local {
            match self.responses.get(&id_of(item)) {
                Some(Ok(EvaluationResponse::Image(image))) => (
                    ImageSource::Inline(image.base64.clone()),
                    Some(image.media_type.clone()),
                ),
                answer => {
                    let message = format!("cannot read the image {:?}", img.src);
                    return self.missing(&message, answer, img.span);
                }
            }
        } else if let Some((media_type, data)) = inline_data(&img.src) {
            (
                ImageSource::Inline(data.to_owned()),
                Some(media_type.to_owned()),
            )
        } else {
            (ImageSource::Url(img.src.clone()), None)
        };
        self.blocks.push(ContentBlock::Image {
            source,
            media_type,
            detail: None,
        });
    }

    fn text(&mut self, more: &str) {
        if more.is_empty() {
            return;
        }
        match self.blocks.last_mut() {
            Some(ContentBlock::Text { text, .. }) => text.push_str(more),
            _ => self.blocks.push(ContentBlock::text(more)),
        }
    }

    fn missing(
        &mut self,
        message: &str,
        answer: Option<&Result<EvaluationResponse, WorldError>>,
        span: Span,
    ) {
        let diagnostic = match answer {
            Some(Err(error)) => {
                let found =
                    Diagnostic::error(error.kind.code(), format!("{message}: {error}"), span);
                error
                    .help
                    .iter()
                    .cloned()
                    .fold(found, Diagnostic::with_help)
            }
            _ => Diagnostic::error(
                DiagnosticCode::MdUnsupported,
                format!("{message}: no response was provided"),
                span,
            )
            .with_help("remove it to run the prompt"),
        };
        self.report(diagnostic);
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if let Some(findings) = &mut self.findings {
            findings.push(diagnostic);
        }
    }
}

/// Converts a document by the attributes of its element (ChatMD §8.1).
///
/// `strip` takes precedence over `markdown`. Text that is not HTML stays unchanged.
fn readable<'t>(doc: &DocumentRef, found: &'t DocumentText) -> Cow<'t, str> {
    let is_html = match &found.media_type {
        Some(kind) => {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("text/html")
                || kind.eq_ignore_ascii_case("application/xhtml+xml")
        }
        None => logue_html::is_html(found.text.as_bytes()),
    };
    if !is_html || !(doc.strip || doc.markdown) {
        return Cow::Borrowed(&found.text);
    }
    // The loader has limited the page; its conversion is hardly larger.
    let limit = found.text.len().saturating_mul(4).max(MIN_OUTPUT);
    let mut options = HtmlOptions::new().with_output_bytes(limit);
    if !doc.local {
        options = options.with_base(&doc.src);
    }
    let read = if doc.strip {
        logue_html::to_text(&found.text, &options)
    } else {
        logue_html::to_markdown(&found.text, &options)
    };
    Cow::Owned(read.text)
}

/// Returns the media type and the base64 of an address `data:image/…;base64,…`.
fn inline_data(address: &str) -> Option<(&str, &str)> {
    let (media_type, data) = address.strip_prefix("data:")?.split_once(";base64,")?;
    media_type
        .starts_with("image/")
        .then_some((media_type, data))
}

/// Joins the text of blocks; images are omitted.
pub(super) fn text_of(blocks: &[ContentBlock]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
