//! OpenChatML: read, check, view and write the text envelope for dialogue with language models.
//!
//! A transcript is a document header in YAML and frames in control tokens:
//!
//! ```text
//! version: 2.2
//! <|start|>user<|message|>What is 2 + 2?<|end|>
//! <|start|>assistant<|channel|>final<|message|>4.<|return|>
//! ```
//!
//! [`parse`] never fails: it returns a [`Document`] of spans over its input, with a diagnostic for
//! every error. [`parse_owned`] returns an [`OwnedDocument`], which keeps the bytes. [`View`] is the
//! visible part of a document, and [`check()`] reports further errors. [`FrameBuf`] and
//! [`write_frame`] write frames. [`messages_from_frames`] and [`frames_from_messages`] map to the
//! messages of model providers.
//!
//! Other dialects have modules of their own: [`harmony`] and [`v0_1`]. [`convert`] maps between all
//! of them, [`stream`] reads text as it arrives.
//!
//! # Example
//!
//! ```
//! use openchatml::{Channel, View, parse};
//!
//! let text = b"version: 2.2
//! <|start|>user<|message|>What is 2 + 2?<|end|>
//! <|start|>assistant<|channel|>analysis<|message|>Simple.<|end|>
//! <|start|>assistant<|channel|>final<|message|>4.<|return|>
//! ";
//! let document = parse(text);
//! assert!(document.diagnostics().is_empty());
//! assert_eq!(document.header().unwrap().version(), "2.2");
//! assert_eq!(document.frames()[1].channel(), Channel::Analysis);
//!
//! let view = View::new(&document);
//! let shown: Vec<_> = view.frames().filter_map(|frame| view.text(frame).ok()).collect();
//! assert_eq!(shown, ["What is 2 + 2?", "4."]);
//! ```
//!
//! # Features
//!
//! - `o200k` (off by default): the vocabulary of gpt-oss models, 4 MB. It adds `harmony::Renderer`
//!   and `harmony::read_harmony_ids`, which render to token ids and read them.
//! - `schema` (off by default): the arguments of calls are checked against JSON Schemas with the
//!   validator of the runtime.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod argument_schema;
mod check;
pub mod convert;
pub mod declare;
mod detect;
mod dialect;
mod document;
pub mod harmony;
pub mod limits;
mod loss;
mod messages;
pub mod project;
mod read;
mod reply;
pub mod sampling;
pub mod scan;
pub mod stream;
mod syntax;
pub mod v0_1;
mod view;
mod visibility;
mod write;

pub use check::{check, check_structure, check_with};
pub use detect::{Detected, detect};
pub use dialect::Dialect;
pub use document::frame::{Attribute, Frame};
pub use document::header::Header;
pub use document::owned::{FrameBuf, HeaderBuf, Transcript};
pub use document::owned_source::OwnedSource;
pub use document::shared::{OwnedDocument, OwnedFrame, parse_owned};
pub use document::{Document, SourcePiece};
pub use loss::{Loss, LossKind, LossSeverity, LossTarget};
pub use messages::{
    frames_from_messages, image_address, messages_from_frames, recipient_of, tool_of,
};
pub use read::batch::{StrictError, parse, parse_strict};
pub use reply::{ReplyEnvelope, ReplyError, deadline_ms};
pub use syntax::token::ControlToken;
pub use syntax::vocabulary::{Channel, FrameRole, Intent, RoleForm, Terminator};
pub use view::{HiddenFrameError, View, is_visible};
pub use visibility::{HiddenReason, Visibility};
pub use write::frame::{WriteError, safe_value, write_frame};
pub use write::header::write_header;
pub use write::rewrite::Rewrite;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
