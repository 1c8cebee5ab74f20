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
//! [`parse`] never fails: it gives a [`Document`] of spans over the bytes that it was given, with
//! a diagnostic for everything that is wrong. [`parse_owned`] gives an [`OwnedDocument`], which
//! keeps its bytes and lends that document. [`View`] is that document as a person may see it;
//! [`check()`] looks for more mistakes; [`FrameBuf`] and [`write_frame`] are the way back.
//! [`messages_from_frames`] and [`frames_from_messages`] map to what providers are sent.
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

pub use check::{check, check_structure};
pub use detect::{Detected, detect};
pub use dialect::Dialect;
pub use document::frame::{Attribute, Frame};
pub use document::header::Header;
pub use document::owned::{FrameBuf, HeaderBuf, Transcript};
pub use document::owned_source::OwnedSource;
pub use document::shared::{OwnedDocument, OwnedFrame, parse_owned};
pub use document::{Document, SourcePiece};
pub use loss::{Loss, LossTarget};
pub use messages::{frames_from_messages, messages_from_frames, recipient_of, tool_of};
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
