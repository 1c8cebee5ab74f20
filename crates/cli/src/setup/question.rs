//! The prompt of `logue ask`, which has no file.

use std::path::{Path, PathBuf};

use chatmd::write::{self as element, UserPart};
use chatmd::{BUILTINS, BuiltinDeclaration};
use logue_agent::Redaction;
use logue_message::{ContentBlock, ImageSource};
use logue_source::escape_line;
use serde_json::{Value, json};

use crate::exit::{CliError, Exit};
use crate::setup::attachments::Asked;

/// The name of the prompt in messages.
pub(crate) const NAME: &str = "the question";

/// The label with the prompt of `logue ask`.
pub(crate) const QUESTION: &str = "question";

/// The beginning of the session ids of questions.
pub(crate) const ASKED: &str = "ask-";

/// A prompt that only its session keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The system message and the tools, as ChatMD.
    pub(crate) prompt: String,
    /// The directory that paths of tools count from.
    pub(crate) directory: PathBuf,
}

impl Question {
    /// Creates the prompt of a question that is asked in the current directory.
    pub(crate) fn new(
        system: Option<&str>,
        tools: &[String],
        redaction: &Redaction,
    ) -> Result<Self, CliError> {
        let mut prompt = String::new();
        for name in tools {
            check_tool(name)?;
            prompt.push_str(&element::builtin_tool(name));
        }
        if let Some(system) = system {
            // The session stores it.
            prompt.push_str(&element::system(&redaction.text(system)));
        }
        let directory = std::env::current_dir().and_then(|path| path.canonicalize());
        let directory = directory.map_err(|error| {
            CliError::user("E-SOURCE-READ", format!("no current directory: {error}"))
        })?;
        if directory.to_str().is_none() {
            let message =
                "the path of the current directory is not UTF-8, so no session can keep it";
            return Err(
                CliError::user("E-SOURCE-NOT-UTF8", message).with_help("ask in another directory")
            );
        }
        Ok(Self { prompt, directory })
    }

    /// Returns a prompt file in `folder` that asks the same after a conversation.
    ///
    /// Images below the folder are named, and others are part of the file.
    pub(crate) fn to_file(
        &self,
        model: Option<&str>,
        conversation: &str,
        asked: &Asked,
        folder: &Path,
    ) -> String {
        let model = element::ConfigRecord::default().with_model(model);
        let mut text = String::new();
        if model != element::ConfigRecord::default() {
            text.push_str(&element::config(&model));
        }
        text.push_str(&self.prompt);
        text.push_str(conversation);
        let names: Option<Vec<String>> = asked
            .images
            .iter()
            .map(|(name, _)| path_below(folder, name))
            .collect();
        if let Some(names) = names {
            text.push_str("<user>");
            if !asked.text.is_empty() {
                text.push('\n');
                text.push_str(&element::raw(&asked.text));
            }
            for name in names {
                // White space beside an image would be a text.
                text.push_str(element::local_image(&name).trim_end());
            }
            text.push_str("</user>\n");
            return text;
        }
        let mut parts = Vec::new();
        if !asked.text.is_empty() {
            parts.push(UserPart::Text(&asked.text));
        }
        let addresses = asked.images.iter().filter_map(|(_, image)| address(image));
        let addresses: Vec<String> = addresses.collect();
        parts.extend(addresses.iter().map(|address| UserPart::Image(address)));
        text.push_str(&element::user_parts(&parts, None));
        text
    }

    /// Returns the prompt in the label of a session.
    pub(crate) fn from_json(label: &Value) -> Option<Self> {
        let text = |key| label.get(key)?.as_str();
        Some(Self {
            prompt: text("prompt")?.to_owned(),
            directory: text("directory")?.into(),
        })
    }

    /// Checks that the directory is still the one of the first question.
    ///
    /// Its path had no links then, so a link in it leads to another directory.
    pub(crate) fn check_directory(&self) -> Result<(), CliError> {
        let real = self.directory.canonicalize();
        if real.is_ok_and(|real| real == self.directory) {
            return Ok(());
        }
        let shown = escape_line(&self.directory.to_string_lossy()).into_owned();
        let message = format!("{shown}: the directory of the question is gone or another one");
        Err(CliError::user("E-OUTSIDE-ROOTS", message)
            .with_help("bring the directory back, or ask again without --continue"))
    }

    /// Returns the label of a session.
    pub(crate) fn to_json(&self) -> Value {
        json!({"prompt": self.prompt, "directory": self.directory.display().to_string()})
    }
}

/// Returns an image as an address with its data.
fn address(image: &ContentBlock) -> Option<String> {
    match image {
        ContentBlock::Image {
            source: ImageSource::Inline(data),
            media_type: Some(media_type),
            ..
        } => Some(format!("data:{media_type};base64,{data}")),
        _ => None,
    }
}

/// Returns the path of a file relative to a directory above it.
fn path_below(folder: &Path, name: &str) -> Option<String> {
    let file = Path::new(name).canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    let path = file.strip_prefix(folder).ok()?;
    path.to_str().map(str::to_owned)
}

fn check_tool(name: &str) -> Result<(), CliError> {
    if BuiltinDeclaration::find(name).is_some() {
        return Ok(());
    }
    let message = format!("`{name}` is not a built-in tool");
    let error = CliError::new(Exit::Usage, "usage", message);
    let known: Vec<&str> = BUILTINS.iter().map(|known| known.declared).collect();
    let error = match chatmd::suggest(name, known.iter().copied()) {
        Some(known) => error.with_help(format!("did you mean `{known}`?")),
        None => error.with_help(format!("the built-in tools are {}", known.join(", "))),
    };
    Err(error.with_help("other tools are declared in a prompt file, see `logue run`"))
}
