//! `logue tokens render`: renders a transcript as the prompt of a Harmony model.

use std::fmt::Write as _;

use logue_source::escape_line;
use openchatml::harmony::{
    self, Conversation, Form, Reasoning, RenderError, RenderOptions, Renderer,
};
use openchatml::{Dialect, FrameRole, Loss, Transcript, convert};

use crate::arguments::RenderArgs;
use crate::exit::{CliError, Exit};
use crate::files::{read_file, refuse_chatmd};
use crate::terminal::{ignore_broken_pipe, print, print_error};

pub(super) fn render(arguments: &RenderArgs) -> Result<Exit, CliError> {
    let (name, bytes) = read_file(&arguments.file)?;
    if arguments.from.is_none() {
        refuse_chatmd(&arguments.file, &bytes)?;
    }
    let (transcript, mut losses) = match arguments.from {
        Some(Dialect::V2_2 | Dialect::V2_0) => {
            (openchatml::parse(&bytes).to_transcript(), Vec::new())
        }
        Some(Dialect::Harmony) => from_harmony(&bytes),
        from => {
            let read = convert::read(&bytes, from, &convert::ConvertOptions::default());
            (read.transcript, read.losses)
        }
    };
    let (conversation, left_out) = Conversation::from_transcript(&transcript);
    losses.extend(left_out);
    for loss in &losses {
        print_error(&format!(
            "note: `{}`: {}\n",
            escape_line(&name),
            escape_line(&loss.to_string())
        ));
    }
    let form = match arguments.next_role {
        Some(role) => Form::Completion(FrameRole::from(role)),
        None if arguments.training => Form::Training,
        None => Form::Conversation,
    };
    let reasoning = if arguments.keep_reasoning {
        Reasoning::Keep
    } else {
        Reasoning::default()
    };
    let options = RenderOptions::default().with_reasoning(reasoning);
    let refused =
        |error: RenderError| CliError::user("E-WRITE-REFUSED", format!("`{name}`: {error}"));
    if arguments.text {
        let text = conversation
            .to_text(form, &options)
            .map_err(|error| refused(error).with_help("omit --text: ids have no such limit"))?;
        return ignore_broken_pipe(print(&text));
    }
    let ids = Renderer::new().ids(&conversation, form, &options);
    let ids = ids.map_err(|error| {
        refused(error).with_help("run `logue check` and correct the transcript")
    })?;
    let (open, between, close) = super::list(arguments.json);
    let mut out = open.to_owned();
    for (number, id) in ids.iter().enumerate() {
        let before = if number == 0 { "" } else { between };
        // Writing to a string cannot fail.
        let _ = write!(out, "{before}{id}");
    }
    out.push_str(close);
    ignore_broken_pipe(print(&out))
}

fn from_harmony(text: &[u8]) -> (Transcript, Vec<Loss>) {
    harmony::read(text, &harmony::HarmonyReadOptions::default()).to_transcript()
}
