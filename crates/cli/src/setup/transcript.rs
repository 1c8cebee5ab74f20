//! The form of a transcript, from the prompt and the configuration.

use logue_agent::{Prompt, TranscriptFile};

use crate::setup::config::Config;

/// A transcript that is written as the prompt and the configuration want it.
pub(crate) fn transcript_of(
    mut file: TranscriptFile,
    prompt: &Prompt,
    config: &Config,
) -> TranscriptFile {
    if prompt.is_openchatml() {
        file.write_openchatml();
    }
    if !prompt.config.show_tool_call {
        file.externalise_payloads();
    }
    file.set_inline_bytes(config.inline_bytes());
    file.redact(config.redaction().clone());
    file.set_reasoning_count(prompt.reasoning_count());
    file
}
