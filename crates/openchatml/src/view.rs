//! The visible part of a document.
//!
//! Visibility fails closed (OpenChatML 2.2 §4, §5, §11): what is not known to be visible is
//! hidden. A [`View`] is the only way in this crate to ask for text *as a viewer*; it gives hidden
//! text only after an explicit opt-in for debugging.

use std::borrow::Cow;

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::visibility::{HiddenReason, Visibility};
use crate::{Document, Frame};

/// Returns whether `frame` may be shown to a person without an opt-in.
pub const fn is_visible(frame: &Frame) -> bool {
    frame.visibility().is_visible()
}

/// A document as a person sees it.
///
/// ```
/// use openchatml::{parse, View};
///
/// let document = parse(b"<|start|>assistant<|channel|>analysis<|message|>secret<|end|>\n\
///     <|start|>assistant<|channel|>final<|message|>4.<|return|>");
/// let view = View::new(&document);
/// let shown: Vec<_> = view.frames().map(|frame| document.body_text(frame)).collect();
/// assert_eq!(shown, ["4."]);
/// assert!(view.text(&document.frames()[0]).is_err());
/// assert_eq!(View::debug(&document).text(&document.frames()[0]).unwrap(), "secret");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'d, 's> {
    document: &'d Document<'s>,
    debug: bool,
}

impl<'d, 's> View<'d, 's> {
    /// The view of an ordinary user.
    pub const fn new(document: &'d Document<'s>) -> Self {
        Self {
            document,
            debug: false,
        }
    }

    /// Everything: the explicit opt-in for debugging.
    pub const fn debug(document: &'d Document<'s>) -> Self {
        Self {
            document,
            debug: true,
        }
    }

    /// The frames that this view shows, in order.
    pub fn frames(&self) -> impl Iterator<Item = &'d Frame> + use<'d, 's> {
        let debug = self.debug;
        let frames = self.document.frames().iter();
        frames.filter(move |frame| debug || is_visible(frame))
    }

    /// The text of a frame of the document; invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// `E-PERM-VISIBILITY` if this view does not show the frame.
    pub fn text(&self, frame: &Frame) -> Result<Cow<'s, str>, HiddenFrameError> {
        match frame.visibility() {
            Visibility::Hidden(reason) if !self.debug => Err(HiddenFrameError {
                span: frame.span(),
                reason,
            }),
            _ => Ok(self.document.body_text(frame)),
        }
    }
}

/// Something hidden was asked for (`E-PERM-VISIBILITY`). It says why, and nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenFrameError {
    span: Span,
    reason: HiddenReason,
}

impl HiddenFrameError {
    /// The stable code.
    pub const CODE: DiagnosticCode = DiagnosticCode::PermVisibility;

    /// The reason that the frame is hidden.
    pub const fn reason(&self) -> HiddenReason {
        self.reason
    }

    /// The error as a finding about the frame.
    pub fn to_diagnostic(&self) -> Diagnostic {
        Diagnostic::error(Self::CODE, self.to_string(), self.span)
            .with_expected("a frame that may be shown")
            .with_help("ask for the debug view if hidden frames are meant to be seen")
    }
}

impl std::fmt::Display for HiddenFrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the frame cannot be shown: {}", self.reason.as_str())
    }
}

impl std::error::Error for HiddenFrameError {}
