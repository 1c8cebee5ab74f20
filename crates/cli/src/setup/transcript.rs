//! The settings of a transcript.

use logue_agent::{Prompt, TranscriptFile};

use crate::setup::settings::Settings;

/// Applies the settings of the prompt and the configuration to a transcript.
pub(crate) fn transcript_of(
    mut file: TranscriptFile,
    prompt: &Prompt,
    settings: &Settings,
) -> TranscriptFile {
    if prompt.is_openchatml() {
        file.write_openchatml();
    }
    if !prompt.config.show_tool_call {
        file.externalise_payloads();
    }
    file.set_inline_bytes(settings.max_inline_bytes);
    file.redact(settings.redaction.clone());
    file.set_reasoning_count(prompt.reasoning_count());
    file
}
