//! Ids of a rendering, and which of them are trained.

use logue_source::{DiagnosticCode, Span};
use openchatml::FrameRole;

use super::options::{MaskOptions, Truncation};
use super::span::{MaskSpan, Rendered, SpanClass};
use crate::{Refusal, Tokenizer};

/// The tokens of a rendering.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) ids: Vec<u32>,
    /// The end of each token in the text.
    pub(super) ends: Vec<usize>,
    pub(super) trained: Vec<bool>,
    /// The first byte of the first token.
    pub(super) start: usize,
}

impl Tokens {
    /// Replaces the tokens by those of a rendering.
    pub(super) fn encode(
        &mut self,
        rendered: &Rendered,
        tokenizer: &mut dyn Tokenizer,
        row: &[u8],
    ) -> Result<(), Refusal> {
        self.ids.clear();
        self.ends.clear();
        self.trained.clear();
        self.start = 0;
        if rendered.pieces.is_empty() {
            tokenizer.encode_rendered(&rendered.text, &mut self.ids, &mut self.ends);
        }
        let mut at = 0;
        for piece in &rendered.pieces {
            let text = rendered.text.get(at..piece.end).unwrap_or_default();
            if piece.special {
                let id = tokenizer.special(text);
                let id = id.ok_or_else(|| no_special_token(text, row))?;
                self.ids.push(id);
                self.ends.push(piece.end);
            } else {
                let first = self.ends.len();
                tokenizer.encode_with_ends(text, &mut self.ids, &mut self.ends);
                for end in self.ends.get_mut(first..).unwrap_or_default() {
                    *end += at;
                }
            }
            at = piece.end;
        }
        self.mark(&rendered.spans);
        self.check_begin(tokenizer, row)
    }

    /// Marks the tokens each of whose bytes is in a trained span.
    fn mark(&mut self, spans: &[MaskSpan]) {
        let mut next = 0;
        let mut start = 0;
        for &end in &self.ends {
            while spans.get(next).is_some_and(|span| span.end <= start) {
                next += 1;
            }
            // A token without bytes belongs to the byte before it.
            let from = if start == end {
                start.saturating_sub(1)
            } else {
                start
            };
            let mut at = from;
            let mut place = if start == end {
                next.saturating_sub(1)
            } else {
                next
            };
            while let Some(span) = spans.get(place).filter(|span| span.start <= at) {
                if span.end > at {
                    if !span.trained {
                        break;
                    }
                    at = span.end;
                    if at >= end {
                        break;
                    }
                }
                place += 1;
            }
            self.trained.push(end > from && at >= end);
            start = end;
        }
    }

    /// Refuses a text that begins with two tokens of the beginning.
    fn check_begin(&self, tokenizer: &dyn Tokenizer, row: &[u8]) -> Result<(), Refusal> {
        match (tokenizer.begin(), self.ids.as_slice()) {
            (Some(begin), [first, second, ..]) if begin == *first && begin == *second => {
                Err(refusal(
                    DiagnosticCode::DataBeginTwice,
                    "the text begins with two tokens of its beginning".into(),
                    "remove the token from the first message; the template writes it",
                    row,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Shortens the tokens to the maximum.
    pub(super) fn truncate(
        &mut self,
        spans: &[MaskSpan],
        options: &MaskOptions,
        begin: Option<u32>,
        row: &[u8],
    ) -> Result<(), Refusal> {
        let Some(most) = options.max_tokens else {
            return Ok(());
        };
        let count = self.ids.len();
        if count <= most {
            return Ok(());
        }
        match options.truncation {
            Truncation::Refuse => {
                return Err(refusal(
                    DiagnosticCode::DataTooLong,
                    format!("the row has {count} tokens, more than {most}"),
                    "raise --max-length, or shorten such rows with --truncate right or left",
                    row,
                ));
            }
            Truncation::Right => {
                self.ids.truncate(most);
                self.ends.truncate(most);
                self.trained.truncate(most);
                let cut = self.ends.last().copied().unwrap_or(0);
                self.untrain_cut(spans, cut);
            }
            Truncation::Left => {
                let keeps_begin = begin.is_some() && begin == self.ids.first().copied() && most > 0;
                let from = usize::from(keeps_begin);
                let cut = count - most + from;
                let end = self.ends.get(cut.saturating_sub(1)).copied().unwrap_or(0);
                if !keeps_begin {
                    self.start = end;
                }
                self.ids.drain(from..cut);
                self.ends.drain(from..cut);
                self.trained.drain(from..cut);
                self.untrain_cut(spans, end);
            }
        }
        if self.trained.contains(&true) {
            return Ok(());
        }
        Err(refusal(
            DiagnosticCode::DataMaskEmpty,
            format!("no token is trained after truncation to {most} tokens"),
            "raise --max-length, or remove the row",
            row,
        ))
    }

    /// Marks the tokens of a message that was cut at `cut` as not trained.
    ///
    /// An answer without its end teaches a model not to stop; one without its beginning has lost
    /// what it answers.
    fn untrain_cut(&mut self, spans: &[MaskSpan], cut: usize) {
        let of_part = |part| spans.iter().filter(move |span| span.part == part);
        let Some(part) = spans
            .iter()
            .find(|span| cut < span.end)
            .map(|span| span.part)
        else {
            return;
        };
        let first = of_part(part).next().map_or(0, |span| span.start);
        let end = of_part(part).next_back().map_or(0, |span| span.end);
        // The header begins after the message before.
        let before = spans.iter().rev().find(|span| span.end <= first);
        let start = before.map_or(0, |span| span.end);
        if cut <= start {
            return;
        }
        let mut from = self.start;
        for (token_end, trained) in self.ends.iter().zip(&mut self.trained) {
            if from < end && *token_end > start {
                *trained = false;
            }
            from = *token_end;
        }
    }

    /// Refuses empty masks, and last answers without a trained stop token.
    pub(super) fn check(
        &self,
        rendered: &Rendered,
        options: &MaskOptions,
        row: &[u8],
    ) -> Result<(), Refusal> {
        let Some(last) = self.trained.iter().rposition(|trained| *trained) else {
            let (message, help) = if rendered.lacks_reasoning {
                (
                    "no token of the row is trained, because the reasoning of its answers is left out",
                    "render the reasoning, or train answers without it with --train-without-reasoning",
                )
            } else {
                (
                    "no token of the row is trained",
                    "add an answer, or choose other classes and roles with --train and --roles",
                )
            };
            return Err(refusal(
                DiagnosticCode::DataMaskEmpty,
                message.into(),
                help,
                row,
            ));
        };
        if options.allow_untrained_stop || !options.roles.contains(FrameRole::Assistant) {
            return Ok(());
        }
        let end = self.ends.get(last).copied().unwrap_or(0);
        let trained =
            rendered.spans.iter().rev().filter(|span| {
                span.start < end && span.trained && span.class != SpanClass::Context
            });
        let Some(part) = trained.clone().next().map(|span| span.part) else {
            return Ok(());
        };
        // Templates write white space after the token with which the model stops.
        let is_space = |span: &MaskSpan| {
            let text = rendered.text.get(span.start..span.end).unwrap_or_default();
            span.class == SpanClass::Terminator && text.trim().is_empty()
        };
        let of_message = trained.take_while(|span| span.part == part);
        let mut ending = of_message
            .clone()
            .skip_while(|span| !span.stop && is_space(span));
        if ending
            .next()
            .is_some_and(|span| span.stop && self.is_trained(span))
        {
            return Ok(());
        }
        let mut texts = of_message.filter(|span| span.class != SpanClass::Terminator);
        let (message, help) = if texts
            .next()
            .is_some_and(|span| span.class == SpanClass::Reasoning)
        {
            (
                "the last trained message is reasoning, after which the model does not stop",
                "end the row with an answer, train `answer` and `call` as well, or accept such rows with \
                 --allow-untrained-stop",
            )
        } else {
            (
                "the last trained message has no trained stop token",
                "end the row with an answer, leave later messages out with --drop-trailing, or add \
                 `terminator` to --train",
            )
        };
        Err(refusal(
            DiagnosticCode::DataStopUntrained,
            message.into(),
            help,
            row,
        ))
    }

    /// Returns whether the token of the first byte of a span is trained.
    fn is_trained(&self, span: &MaskSpan) -> bool {
        let token = self.ends.partition_point(|end| *end <= span.start);
        self.trained.get(token) == Some(&true)
    }
}

/// Returns the refusal of a tokenizer that would encode a control token as ordinary text.
pub(super) fn no_special_token(name: &str, row: &[u8]) -> Refusal {
    refusal(
        DiagnosticCode::DataSpecialToken,
        format!("the tokenizer has no special token `{name}`"),
        "name the tokenizer of the model that has this form with --tokenizer",
        row,
    )
}

fn refusal(code: DiagnosticCode, text: String, help: &'static str, row: &[u8]) -> Refusal {
    Refusal::new(code, text, Span::new(0, row.len())).with_help(help)
}
