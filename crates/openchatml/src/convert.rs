//! From one dialect to another, through the [`Transcript`] that all of them share.
//!
//! ```text
//! bytes ─ read ─▶ Transcript ─ write ─▶ text
//! ```
//!
//! What a dialect cannot hold is listed as a [`Loss`](crate::Loss), each with its kind and the frame that it is
//! about; with [`ConvertOptions::strict`] a loss of that severity refuses the whole. Nothing is made up: ids that 2.0, Harmony and
//! the 1.x line do not have are given in order and listed as given, and no text becomes more
//! visible or of a higher rank than it was.
//!
//! Text in a frame can never become a frame of its own: 2.2 escapes it, the dialects without
//! an escape refuse it.
//!
//! ```
//! use openchatml::{Dialect, convert};
//!
//! let options = convert::ConvertOptions::default();
//! let read = convert::read(b"version: 2.2
//! <|start|>assistant to=functions.f call_id=a<|channel|>commentary<|message|>{}<|call|>
//! ", None, &options);
//! assert_eq!(read.dialect, Dialect::V2_2);
//!
//! let written = convert::write(&read.transcript, Dialect::V2_0, &options)?;
//! assert_eq!(written.text, "version: 2.0
//! <|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>
//! ");
//! assert_eq!(written.losses[0].to_string(), "frame 1: call_id dropped");
//! # Ok::<(), convert::ConvertError>(())
//! ```

mod declarations;
mod distinct_ids;
mod error;
mod harmony;
mod ids;
mod names;
mod options;
mod reading;
mod reply_order;
mod result;
mod v2_0;
mod v2_2;
mod writing;

pub use crate::messages::image_losses;
pub(crate) use declarations::Place;
pub use declarations::PlacedTools;
pub use distinct_ids::distinct_ids;
pub use error::ConvertError;
pub use harmony::conversation as harmony_conversation;
pub use ids::assign_ids;
pub(crate) use ids::note_implied_ids;
pub use options::ConvertOptions;
pub(crate) use reply_order::{
    COMPLETED, MOVED, Ordered, Pairing, answered_at_rest, call_order, completed, name_replies,
};
pub use result::{ReadResult, WriteResult};
pub(crate) use writing::{Writing, finish, note_kept_reasoning, note_terminators};

use crate::convert::names::writable;
use crate::dialect::Dialect;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::LossSeverity;
use crate::messages::Unpictured;
use crate::v0_1::{self, WriteOptions};
use crate::write::frame::WriteError;

/// Reads a conversation in the dialect `from`, or in the one that [`detect`](crate::detect()) finds.
/// Never fails: what is wrong is a diagnostic. Linear in the text.
///
/// A version in a document header counts over `from` as far as 2.0 and 2.2 are concerned, because
/// each reads as control tokens what the other may have as text. Where nothing is detected the text
/// is read as 2.2, and text outside every frame is reported.
pub fn read(bytes: &[u8], from: Option<Dialect>, _options: &ConvertOptions) -> ReadResult {
    reading::read(bytes, from)
}

/// Writes a conversation in the dialect `to`. Linear in the transcript.
///
/// # Errors
/// A frame or header that the dialect cannot hold safely: a header value that would end its value
/// or forge a frame, a body that spells a token of a dialect without escapes, a part that a frame
/// must have and has not. With [`ConvertOptions::strict`], a loss of that severity. Then nothing is written.
pub fn write(
    transcript: &Transcript,
    to: Dialect,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let place = match to {
        Dialect::V2_2 => Place::Developer,
        Dialect::V2_0 => Place::DeveloperJson,
        Dialect::Harmony => Place::Namespace,
        Dialect::V0_1 => Place::FunctionList,
        Dialect::ChatMl => Place::Nowhere,
    };
    let unpictured = (to != Dialect::V2_2).then(|| Unpictured::new(transcript));
    let transcript = unpictured
        .as_ref()
        .map_or(transcript, |one| &one.transcript);
    let (transcript, changed) = writable(transcript, to);
    let placed = PlacedTools::new(&transcript, place);
    let mut writing = match write_placed(placed.transcript(), to) {
        Ok(writing) => writing,
        Err(error) => {
            let error = placed.restore(error);
            return Err(match &unpictured {
                Some(unpictured) => unpictured.restore(error),
                None => error,
            });
        }
    };
    note_kept_reasoning(&placed.transcript().frames, options, &mut writing.losses);
    placed.finish(&mut writing.losses);
    writing.losses.extend(changed);
    if let Some(unpictured) = unpictured.as_ref() {
        unpictured.finish(&mut writing.losses);
    }
    finish(writing, options)
}

fn write_placed(transcript: &Transcript, to: Dialect) -> Result<Writing, ConvertError> {
    match to {
        Dialect::V2_2 => v2_2::write(transcript),
        Dialect::V2_0 => v2_0::write(transcript),
        Dialect::Harmony => harmony::write(transcript),
        Dialect::V0_1 | Dialect::ChatMl => {
            let layout = if to == Dialect::ChatMl {
                WriteOptions::plain()
            } else {
                WriteOptions::default()
            };
            let WriteResult { text, losses } = v0_1::write(transcript, &layout)?;
            Ok(Writing {
                text,
                losses,
                ..Writing::default()
            })
        }
    }
}

/// A frame as a line of 2.0, which must lose nothing.
pub(crate) fn frame_of_2_0(frame: &FrameBuf) -> Result<String, WriteError> {
    let options = ConvertOptions {
        strict: Some(LossSeverity::Identity),
        ..ConvertOptions::default()
    };
    let one = v2_0::write_one(frame).and_then(|writing| finish(writing, &options));
    one.map(|written| written.text)
        .map_err(|error| match error {
            ConvertError::Frame { reason, .. } => reason,
            ConvertError::Losses(losses) => WriteError::Version {
                reason: losses
                    .first()
                    .map_or_else(String::new, |loss| loss.message.clone()),
            },
            other => WriteError::Version {
                reason: other.to_string(),
            },
        })
}
