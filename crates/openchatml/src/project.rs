//! Conversations as JSON: the interchange forms of OpenChatML, and what providers and data sets use.
//!
//! | form | looks like | keeps |
//! |---|---|---|
//! | [`JsonFormat::Json`] | 2.2 §10, one object per frame | everything |
//! | [`JsonFormat::Json2_0`] | 2.0 §10, one object per turn | text, reasoning, calls |
//! | [`JsonFormat::OpenAi`] | Chat Completions messages | text, calls, replies |
//! | [`JsonFormat::ShareGpt`] | `{"conversations": [{"from", "value"}]}` | text, calls, replies |
//! | [`JsonFormat::Anthropic`] | Messages with blocks | text, calls, replies, signed reasoning |
//! | [`JsonFormat::Responses`] | `{"input": [items]}` | text, calls, replies, reasoning items |
//!
//! Three more are read: [`JsonFormat::HarmonyJson`], [`JsonFormat::Instruction`] and
//! [`JsonFormat::Preference`]. [`recognize`] finds the form of a text.
//!
//! [`read()`] takes an array of messages or an object that holds one; [`conversations`] finds the
//! conversations of a text that holds several. [`write()`] gives a document, or one line
//! ([`ConvertOptions::line`](crate::convert::ConvertOptions::line)).
//!
//! No form raises a rank or shows what was hidden. What has no place in a form is listed as a
//! [`Loss`](crate::Loss); a frame that could only be kept by raising or showing it is left out, and listed.
//!
//! ```
//! use openchatml::convert::ConvertOptions;
//! use openchatml::project::{self, JsonFormat};
//!
//! let text = br#"[{"role": "user", "content": "Hi <|end|>"}]"#;
//! let options = ConvertOptions::default();
//! let read = project::read(text, JsonFormat::OpenAi, &options);
//! assert!(read.diagnostics.is_empty());
//!
//! let written = project::write(&read.transcript, JsonFormat::ShareGpt, &options)?;
//! assert_eq!(written.text, "{\"conversations\":[\n  {\"from\":\"human\",\"value\":\"Hi <|end|>\"}\n]}\n");
//! # Ok::<(), openchatml::convert::ConvertError>(())
//! ```

mod anthropic_read;
mod anthropic_write;
mod blocks;
mod format;
mod frames;
mod frames_read;
mod harmony_read;
mod header;
mod history_read;
mod images;
mod long_values;
mod messages_read;
mod messages_write;
mod node;
mod outline;
mod places;
mod read;
mod reading;
mod reasoning_details;
mod responses_read;
mod responses_write;
mod rows;
mod settings;
mod sharegpt;
mod sharegpt_read;
mod tools;
mod turns;
mod unknown_shape;

use crate::convert::{
    ConvertError, ConvertOptions, Place, PlacedTools, WriteResult, distinct_ids, finish,
    note_kept_reasoning,
};
use crate::document::owned::Transcript;
use crate::messages::Unpictured;

pub use format::{JsonFormat, Projected};
pub use messages_write::terminator_losses;
pub use outline::{conversations, detect, is_message_line, recognize};
pub use places::{check, check_with};
pub use read::{read, read_all, read_part, read_recognized};
pub use unknown_shape::{LogShape, UnknownShape};

/// Writes one conversation, with a newline at its end. Linear in the transcript.
///
/// # Errors
/// With [`ConvertOptions::strict`], a loss of that severity, and a form that is only read. Nothing
/// else: JSON can hold every text.
pub fn write(
    transcript: &Transcript,
    to: JsonFormat,
    options: &ConvertOptions,
) -> Result<WriteResult, ConvertError> {
    let place = match to {
        JsonFormat::Json => Place::Developer,
        JsonFormat::Json2_0 => Place::DeveloperJson,
        _ => Place::Row,
    };
    let has_images = !matches!(to, JsonFormat::Json2_0 | JsonFormat::ShareGpt);
    let unpictured = (!has_images).then(|| Unpictured::new(transcript));
    let transcript = unpictured
        .as_ref()
        .map_or(transcript, |one| &one.transcript);
    let (transcript, changed) = distinct_ids(transcript);
    let placed = PlacedTools::new(&transcript, place);
    let transcript = placed.transcript();
    let mut writing = match to {
        JsonFormat::Json => frames::write(transcript, options),
        JsonFormat::Json2_0 => turns::write(transcript, options),
        JsonFormat::OpenAi => messages_write::write(transcript, options),
        JsonFormat::ShareGpt => sharegpt::write(transcript, options),
        JsonFormat::Anthropic => anthropic_write::write(transcript, options),
        JsonFormat::Responses => responses_write::write(transcript, options),
        JsonFormat::HarmonyJson | JsonFormat::Instruction | JsonFormat::Preference => {
            return Err(ConvertError::ReadOnly { form: to.as_str() });
        }
    };
    note_kept_reasoning(&transcript.frames, options, &mut writing.losses);
    placed.finish(&mut writing.losses);
    writing.losses.extend(changed);
    if let Some(unpictured) = unpictured.as_ref() {
        unpictured.finish(&mut writing.losses);
    }
    finish(writing, options)
}
