//! The prompt and the message of a run, and the file that it writes.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logue_agent::{
    History, PromptLanguage, PromptOrigin, PromptSource, TranscriptFile, into_text, read_all,
    read_bytes,
};
use logue_source::{DiagnosticCode, escape_line, quote_word};

use crate::arguments::RunArgs;
use crate::exit::{CliError, Exit};
use crate::files::folder_of;
use crate::language::Language;
use crate::setup::evaluation::{TranscriptOrigin, TranscriptText, base_of, recorded_origin};
use crate::setup::failures::{source_failure, transcript_failure};
use crate::setup::question::{self, Question};
use crate::terminal::print_error;

/// The text of a run and the transcript that it may append to.
#[derive(Debug)]
pub(crate) struct Input {
    /// The name of the text in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    /// The language of the text.
    pub(crate) language: Language,
    /// The locked transcript; `None` if nothing is written.
    pub(crate) transcript: Option<TranscriptFile>,
    prompt: Option<PathBuf>,
    /// The file that paths count from, if it is not the prompt.
    base: Option<PathBuf>,
    transcript_folder: PathBuf,
    /// The transcript that a run would write, if this one only shows its request.
    planned: Option<PathBuf>,
}

impl Input {
    /// Opens what the command line names. `waiting` is called if another run holds the transcript.
    pub(crate) fn open(
        arguments: &RunArgs,
        timeout: Duration,
        waiting: impl Fn(&Path),
    ) -> Result<Self, CliError> {
        let stdin = arguments.file == "-";
        if stdin && arguments.message.iter().any(|word| word == "-") {
            return Err(CliError::new(
                Exit::Usage,
                "usage",
                "standard input cannot be both the prompt and the message",
            )
            .with_help("name a file for one of them"));
        }
        let prompt = (!stdin).then(|| PathBuf::from(&arguments.file));
        let name = if stdin {
            "<stdin>".to_owned()
        } else {
            arguments.file.clone()
        };
        let bytes = match &prompt {
            Some(path) => read_bytes(path),
            None => read_all(&name, io::stdin().lock()),
        };
        let bytes = bytes.map_err(|error| source_failure(&error))?;
        let open = |path: &Path| {
            TranscriptFile::open(path, timeout, || waiting(path))
                .map_err(|error| transcript_failure(&error))
        };
        // Payloads are beside the file itself, not beside links to it.
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let prompt_folder = prompt.as_ref().map(|path| folder_of(&real(path)));
        let output = arguments.output.as_ref();
        let is_new = output.is_some_and(|path| std::fs::symlink_metadata(path).is_err());
        let transcript = match (output, &prompt) {
            _ if arguments.dry_run => None,
            (Some(path), _) if is_new => Some(created(path, &bytes, prompt_folder.as_deref())?),
            (Some(path), _) => Some(open(path)?),
            (None, Some(path)) if !arguments.no_save => Some(open(path)?),
            _ => None,
        };
        let planned = output.filter(|_| arguments.dry_run).map(real);
        let content = match (&transcript, &planned) {
            (Some(file), _) => file.content().to_vec(),
            (None, Some(path)) if !is_new => {
                read_bytes(path).map_err(|error| source_failure(&error))?
            }
            (None, _) => bytes.clone(),
        };
        let name = output.map_or(name, |path| path.display().to_string());
        let text = into_text(&name, content).map_err(|error| source_failure(&error))?;
        let transcript_folder = match (&transcript, prompt_folder) {
            // The payloads of a new transcript are still beside its prompt.
            (Some(file), None) => folder_of(file.path()),
            (Some(file), _) if !is_new => folder_of(file.path()),
            (None, _) if planned.is_some() && !is_new => {
                planned.as_deref().map(folder_of).unwrap_or_default()
            }
            (_, Some(folder)) => folder,
            (None, None) => PathBuf::from("."),
        };
        let language = arguments
            .from
            .unwrap_or_else(|| Language::detect(Some(Path::new(&name)), text.as_bytes()));
        // With `-o`, the text is not that of the prompt.
        let base = match (&prompt, output) {
            (Some(path), None) => base_of(path, &text, language),
            (Some(path), Some(output)) => {
                let is_begun = is_new || text.is_empty() || text.as_bytes().starts_with(&bytes);
                let own =
                    into_text(&arguments.file, bytes).map_err(|error| source_failure(&error))?;
                let language = Language::detect(Some(path), own.as_bytes());
                let base = base_of(path, &own, language);
                if !is_begun {
                    let prompt = base.as_deref().unwrap_or(path);
                    require_prompt(output, prompt, &arguments.file)?;
                }
                base
            }
            (None, _) => None,
        };
        if let Some(base) = &base {
            let base = base.display().to_string();
            let base = escape_line(&base);
            print_error(&format!(
                "note: paths count from {base}, which the transcript began with\n"
            ));
        }
        Ok(Self {
            name,
            text,
            language,
            transcript,
            prompt,
            base,
            transcript_folder,
            planned,
        })
    }

    /// Reads the prompt of an agent; its file is not written.
    pub(crate) fn for_agent(path: &Path) -> Result<Self, CliError> {
        let bytes = read_bytes(path).map_err(|error| source_failure(&error))?;
        Self::for_agent_text(path, bytes)
    }

    /// Returns the prompt of an agent with a content that was read before.
    pub(crate) fn for_agent_text(path: &Path, bytes: Vec<u8>) -> Result<Self, CliError> {
        let name = path.display().to_string();
        let text = into_text(&name, bytes).map_err(|error| source_failure(&error))?;
        let language = Language::detect(Some(path), text.as_bytes());
        let base = base_of(path, &text, language);
        Ok(Self {
            language,
            name,
            text,
            transcript: None,
            prompt: Some(path.to_owned()),
            base,
            transcript_folder: folder_of(path),
            planned: None,
        })
    }

    /// Returns the prompt of `logue ask`. Its paths count from the directory of the first question.
    pub(crate) fn for_question(question: &Question) -> Self {
        Self {
            name: question::NAME.to_owned(),
            text: question.prompt.clone(),
            language: Language::Chatmd,
            transcript: None,
            prompt: None,
            base: Some(question.directory.join("-")),
            transcript_folder: question.directory.clone(),
            planned: None,
        }
    }

    /// Opens a transcript to continue, with the prompt that it started from.
    pub(crate) fn for_transcript(
        prompt: &Path,
        transcript: &Path,
        timeout: Duration,
        waiting: impl Fn(&Path),
    ) -> Result<Self, CliError> {
        let file = TranscriptFile::open(transcript, timeout, || waiting(transcript))
            .map_err(|error| transcript_failure(&error))?;
        let name = transcript.display().to_string();
        let text = into_text(&name, file.content().to_vec());
        let text = text.map_err(|error| source_failure(&error))?;
        let language = Language::detect(Some(transcript), text.as_bytes());
        let recorded = TranscriptOrigin::of(TranscriptText {
            path: file.path(),
            text: &text,
            language,
        });
        let base = match recorded {
            TranscriptOrigin::Prompt(base) => Some(base),
            TranscriptOrigin::Refused => Some(file.path().to_owned()),
            TranscriptOrigin::Own => base_of_file(prompt),
        };
        Ok(Self {
            language,
            text,
            name,
            transcript_folder: folder_of(file.path()),
            transcript: Some(file),
            base,
            prompt: Some(prompt.to_owned()),
            planned: None,
        })
    }

    /// Returns the source of a turn with this history.
    ///
    /// # Errors
    /// Returns an error for a transcript in a dialect that cannot be continued.
    pub(crate) fn source(&self, history: History) -> Result<PromptSource, CliError> {
        let mut source = PromptSource::new(&self.name, &self.text).with_history(history);
        source.language = match self.language {
            Language::Chatmd => PromptLanguage::ChatMd,
            Language::Openchatml => PromptLanguage::OpenChatMl,
            Language::Harmony | Language::Ocml0_1 | Language::Chatml => {
                return Err(self.not_continued());
            }
        };
        if let Some(path) = &self.prompt {
            source.origin = PromptOrigin::File(path.clone());
        }
        source.base.clone_from(&self.base);
        source.transcript = self.transcript_path();
        source.payloads = Some(self.transcript_folder.clone());
        Ok(source)
    }

    fn not_continued(&self) -> CliError {
        let name = &self.name;
        let message = format!(
            "`{name}` is a transcript in a dialect without an escape and without call ids, so it \
             cannot be continued"
        );
        CliError::user(DiagnosticCode::WriteRefused.as_str(), message).with_help(format!(
            "convert it to OpenChatML 2.2: `logue convert --to ocml2.2 {name}`"
        ))
    }

    /// Returns the prompt that a new transcript begins with, in a directory without links.
    pub(crate) fn started_from(&self) -> Option<PathBuf> {
        in_real_folder(self.base.as_ref().or(self.prompt.as_ref())?)
    }

    /// Returns the transcript's path and text, for its record.
    pub(crate) fn recorded_text<'i>(&'i self, path: &'i Path) -> TranscriptText<'i> {
        TranscriptText {
            path,
            text: &self.text,
            language: self.language,
        }
    }

    /// Returns the path of the transcript.
    pub(crate) fn transcript_path(&self) -> Option<PathBuf> {
        let file = self.transcript.as_ref();
        file.map(|file| file.path().to_owned())
    }

    /// Returns the file that the record of evaluation is beside, with links followed.
    pub(crate) fn recorded_file(&self) -> Option<PathBuf> {
        let written = self.transcript_path().or_else(|| self.planned.clone());
        written.or_else(|| {
            let prompt = self.prompt.as_ref()?;
            prompt.canonicalize().ok()
        })
    }

    /// Returns the file that identifies the conversation: the transcript, else the prompt.
    pub(crate) fn conversation(&self) -> PathBuf {
        self.transcript_path()
            .or_else(|| self.prompt.clone())
            .unwrap_or_else(|| PathBuf::from("-"))
    }
}

/// Returns the path in a directory without links.
fn in_real_folder(path: &Path) -> Option<PathBuf> {
    // Paths count from the directory of a link, not of its target.
    let folder = folder_of(path).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}

/// Refuses a transcript that was begun with another prompt.
fn require_prompt(transcript: &Path, prompt: &Path, named: &str) -> Result<(), CliError> {
    let recorded = recorded_origin(transcript);
    if recorded.is_some() && recorded == in_real_folder(prompt) {
        return Ok(());
    }
    let shown = transcript.display().to_string();
    let message = format!("`{shown}` does not begin with the text of `{named}`");
    Err(CliError::new(Exit::Usage, "usage", message)
        .with_help(format!(
            "`logue run {}` continues it with its own prompt",
            quote_word(&shown)
        ))
        .with_help(format!("name a new file with -o to begin with `{named}`")))
}

/// Prepares a new transcript that begins with the text and the payloads of a prompt.
fn created(
    path: &Path,
    content: &[u8],
    prompt_folder: Option<&Path>,
) -> Result<TranscriptFile, CliError> {
    let mut file =
        TranscriptFile::create(path, content).map_err(|error| transcript_failure(&error))?;
    if let Some(folder) = prompt_folder {
        let adopted = file.adopt_payloads(folder);
        adopted.map_err(|error| transcript_failure(&error))?;
    }
    Ok(file)
}

/// Returns the prompt in another directory that the paths of a readable file count from.
fn base_of_file(path: &Path) -> Option<PathBuf> {
    let text = into_text("", read_bytes(path).ok()?).ok()?;
    let language = Language::detect(Some(path), text.as_bytes());
    base_of(path, &text, language)
}

/// Returns the message of the command line or of standard input.
pub(crate) fn message(words: &[String]) -> Result<Option<String>, CliError> {
    let text = match words {
        [] => return Ok(None),
        [only] if only == "-" => {
            let bytes = read_all("<stdin>", io::stdin().lock());
            let bytes = bytes.map_err(|error| source_failure(&error))?;
            into_text("<stdin>", bytes).map_err(|error| source_failure(&error))?
        }
        words => words.join(" "),
    };
    // The final newline of `echo` or of a file does not belong to the message.
    let text = text
        .strip_suffix('\n')
        .map_or_else(|| text.clone(), str::to_owned);
    if text.trim().is_empty() {
        return Err(
            CliError::user("chat_message_shape_invalid", "the message is empty")
                .with_help("pass a message, or omit it to let the model continue"),
        );
    }
    Ok(Some(text))
}
