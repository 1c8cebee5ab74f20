//! Conversion between one conversation in memory and messages.

use std::path::Path;

use logue_message::ChatMessage;
use logue_source::Diagnostic;
use openchatml::convert::{ConvertError, ConvertOptions};
use openchatml::{Transcript, frames_from_messages, messages_from_frames};

use crate::conversion::form::Form;
use crate::exit::CliError;
use crate::setup::failures::rendered;

/// Returns the messages of a conversation, and the losses of the conversion.
///
/// Reports call it `name`; `folder` is the directory of its file, if it has one.
pub(crate) fn read_messages(
    name: &str,
    text: &[u8],
    from: Form,
    folder: Option<&Path>,
) -> Result<(Vec<ChatMessage>, Vec<String>), CliError> {
    let options = ConvertOptions::default().with_thinking(true);
    let read = from.read(text, true, folder, &options);
    if read.broken {
        let errors = read.diagnostics.into_iter().filter(Diagnostic::is_error);
        return Err(rendered(name, text, &errors.collect::<Vec<_>>()));
    }
    let (messages, losses) = messages_from_frames(&read.transcript.frames);
    let losses = read.losses.iter().chain(&losses);
    let mut losses: Vec<String> = losses.map(ToString::to_string).collect();
    if !read.transcript.tools.is_empty() {
        losses.push("the declarations of the tools dropped".to_owned());
    }
    Ok((messages, losses))
}

/// Returns messages in a form, and the losses of the conversion.
pub(crate) fn write_messages(
    messages: &[ChatMessage],
    to: Form,
) -> Result<(String, Vec<String>), CliError> {
    let (frames, losses) = frames_from_messages(messages);
    let options = ConvertOptions::default().with_thinking(true);
    let written = to
        .write(&Transcript::new(frames), &options)
        .map_err(|error| CliError::user("outside-capabilities", reason(&error)))?;
    let losses = losses.iter().chain(&written.losses);
    Ok((written.text, losses.map(ToString::to_string).collect()))
}

/// Describes a failed conversion; losses are omitted, since they are listed separately.
pub(crate) fn reason(error: &ConvertError) -> String {
    match error {
        ConvertError::Losses(_) => "something would be lost, and --strict forbids it".to_owned(),
        other => other.to_string(),
    }
}
