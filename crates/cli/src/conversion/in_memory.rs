//! Conversion of one conversation in memory.

use std::path::Path;

use openchatml::convert::{ConvertError, ConvertOptions};

use crate::conversion::form::Form;
use crate::exit::CliError;

/// Returns the conversation in another form, and the losses of the conversion.
pub(crate) fn converted(
    text: &[u8],
    from: Form,
    to: Form,
    folder: Option<&Path>,
) -> Result<(String, Vec<String>), CliError> {
    let options = ConvertOptions::default().with_thinking(true);
    let read = from.read(text, true, folder, &options);
    if read.broken {
        let first = read.diagnostics.iter().find(|found| found.is_error());
        return Err(match first {
            Some(found) => CliError::user(found.code.as_str(), found.message.clone()),
            None => CliError::user("E-SOURCE-READ", "it could not be read as a whole"),
        });
    }
    let written = to
        .write(&read.transcript, &options)
        .map_err(|error| CliError::user("outside-capabilities", reason(&error)))?;
    let losses = read.losses.iter().chain(&written.losses);
    Ok((written.text, losses.map(ToString::to_string).collect()))
}

/// Describes a failed conversion; losses are omitted, since they are listed separately.
pub(crate) fn reason(error: &ConvertError) -> String {
    match error {
        ConvertError::Losses(_) => "something would be lost, and --strict forbids it".to_owned(),
        other => other.to_string(),
    }
}
