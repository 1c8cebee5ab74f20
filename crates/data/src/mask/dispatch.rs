//! Masks of rows, one after the other, with reused buffers.

use super::as_messages::as_messages;
use super::options::{MaskForm, MaskOptions};
use super::read::read;
use super::span::{MaskSpan, Rendered, SpanClass};
use super::tokens::{Tokens, no_special_token};
use super::{chatml, harmony, openchatml, template};
use crate::{ChatTemplate, Refusal, Tokenizer};
use logue_source::Span;
use std::borrow::Cow;
use std::sync::Arc;

/// Masks the rows of one thread.
///
/// ```
/// use logue_data::mask::{MaskForm, MaskOptions, Masker};
/// use logue_data::O200k;
///
/// let row = br#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}]}"#;
/// let mut masker = Masker::new(MaskOptions::new(MaskForm::Harmony), Box::new(O200k::new()));
/// let masked = masker.mask(row)?;
/// let trained: Vec<&str> = masked.trained_texts().collect();
/// assert_eq!(trained, ["<|channel|>final<|message|>Hello<|return|>"]);
/// # Ok::<(), logue_data::Refusal>(())
/// ```
pub struct Masker {
    options: MaskOptions,
    tokenizer: Box<dyn Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
    rendered: Rendered,
    tokens: Tokens,
}

impl Masker {
    /// Creates a masker.
    pub fn new(options: MaskOptions, tokenizer: Box<dyn Tokenizer>) -> Self {
        Self {
            options,
            tokenizer,
            template: None,
            rendered: Rendered::default(),
            tokens: Tokens::default(),
        }
    }

    /// Renders by a chat template instead of the form of the options.
    #[must_use]
    pub fn with_template(mut self, template: Arc<ChatTemplate>) -> Self {
        self.template = Some(template);
        self
    }

    /// Checks that the tokenizer has the tokens that every row of the form contains.
    ///
    /// # Errors
    /// Returns `E-DATA-SPECIAL-TOKEN` if one of them is missing.
    pub fn check_tokenizer(&self) -> Result<(), Refusal> {
        let names: &[&str] = match (&self.template, self.options.form) {
            // The rows decide which tokens a template writes.
            (Some(_), _) => &[],
            (None, MaskForm::ChatMl) => &["<|im_start|>", "<|im_end|>"],
            (None, MaskForm::Harmony | MaskForm::OpenChatMl) => {
                &["<|start|>", "<|message|>", "<|end|>"]
            }
        };
        match names
            .iter()
            .find(|name| self.tokenizer.special(name).is_none())
        {
            Some(name) => Err(no_special_token(name, &[])),
            None => Ok(()),
        }
    }

    /// Masks a row.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the row is not a conversation, if the form cannot hold it, if a mark
    /// is invalid or not read, if it is too long, if no token of it is trained, and if the last
    /// trained message has no trained stop token.
    pub fn mask(&mut self, row: &[u8]) -> Result<Masked<'_>, Refusal> {
        self.with_messages(row, |masker, row, is_converted| {
            masker.render_messages(row, is_converted)?;
            masker.encode(row)
        })?;
        Ok(Masked {
            ids: &self.tokens.ids,
            ends: &self.tokens.ends,
            trained: &self.tokens.trained,
            start: self.tokens.start,
            text: &self.rendered.text,
            spans: &self.rendered.spans,
        })
    }

    /// Renders a row without tokens.
    ///
    /// # Errors
    /// As [`mask`](Self::mask), for what concerns the conversation.
    pub fn render(&mut self, row: &[u8]) -> Result<&Rendered, Refusal> {
        self.with_messages(row, Self::render_messages)?;
        Ok(&self.rendered)
    }

    /// Calls `work` with the row as messages, and whether it was converted.
    fn with_messages(
        &mut self,
        row: &[u8],
        work: impl FnOnce(&mut Self, &[u8], bool) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match as_messages(row, self.options.marks, self.template.is_some())? {
            Cow::Borrowed(row) => work(self, row, false),
            // Places in the converted text are not places in the row.
            Cow::Owned(text) => work(self, &text, true).map_err(|mut refusal| {
                refusal.finding.primary = Span::new(0, row.len());
                refusal
            }),
        }
    }

    fn encode(&mut self, row: &[u8]) -> Result<(), Refusal> {
        let spans = self.rendered.spans.as_slice();
        self.tokens
            .encode(&self.rendered, &mut *self.tokenizer, row)?;
        let begin = self.tokenizer.begin();
        self.tokens.truncate(spans, &self.options, begin, row)?;
        self.tokens.check(&self.rendered, &self.options, row)
    }

    fn render_messages(&mut self, row: &[u8], is_converted: bool) -> Result<(), Refusal> {
        if let Some(template) = &self.template {
            let rendering = template::Rendering {
                template,
                options: &self.options,
                tokenizer: &*self.tokenizer,
            };
            self.rendered = rendering.render(row, is_converted)?;
            return Ok(());
        }
        let chat = read(row, &self.options)?;
        self.rendered.clear();
        match self.options.form {
            MaskForm::Harmony => harmony::render(chat, &self.options, row, &mut self.rendered),
            MaskForm::OpenChatMl => {
                openchatml::render(chat, &self.options, row, &mut self.rendered)
            }
            MaskForm::ChatMl => chatml::render(chat, &self.options, row, &mut self.rendered),
        }
    }
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masker")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A masked row.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Masked<'m> {
    /// The token ids.
    pub ids: &'m [u32],
    /// The end of each token in the text.
    pub ends: &'m [usize],
    /// The mask: true for each trained token.
    pub trained: &'m [bool],
    /// The first byte of the first token.
    pub start: usize,
    /// The text of the whole row, also of what truncation removed.
    pub text: &'m str,
    /// The spans of that text.
    pub spans: &'m [MaskSpan],
}

/// Consecutive tokens of a masked row with the same class and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskedRun<'m> {
    /// The text; an edge within a character is moved to the start of the character.
    pub text: &'m str,
    /// The class of the span of the first byte.
    pub class: Option<SpanClass>,
    /// Whether the tokens are trained.
    pub trained: bool,
}

impl<'m> Masked<'m> {
    /// Returns the texts of consecutive tokens that are trained.
    pub fn trained_texts(self) -> impl Iterator<Item = &'m str> {
        let mut runs = self.runs().peekable();
        std::iter::from_fn(move || {
            let first = runs.find(|run| run.trained)?;
            let from = self.offset_of(first.text);
            let mut to = from + first.text.len();
            while let Some(next) = runs.next_if(|run| run.trained) {
                to += next.text.len();
            }
            self.text.get(from..to)
        })
    }

    /// Returns runs of tokens with the same class and mask, in order.
    pub fn runs(self) -> impl Iterator<Item = MaskedRun<'m>> {
        let mut next = 0;
        let mut span = 0;
        let mut from = self.start;
        let mut class_at = move |start: usize| {
            while self.spans.get(span).is_some_and(|span| span.end <= start) {
                span += 1;
            }
            let span = self.spans.get(span).filter(|span| span.start <= start);
            span.map(|span| (span.part, span.class))
        };
        std::iter::from_fn(move || {
            let trained = *self.trained.get(next)?;
            let class = class_at(from);
            let start = from;
            while self.trained.get(next) == Some(&trained) && class_at(from) == class {
                from = self.ends.get(next).copied().unwrap_or(from);
                next += 1;
            }
            let text = self.text.get(self.boundary(start)..self.boundary(from));
            Some(MaskedRun {
                text: text.unwrap_or_default(),
                class: class.map(|(_, class)| class),
                trained,
            })
        })
    }

    /// Returns the start of the character that contains a byte.
    fn boundary(self, mut at: usize) -> usize {
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Returns the offset of a part of the text.
    fn offset_of(self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }
}
