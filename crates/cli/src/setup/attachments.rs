//! The files and pages that accompany a question.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logue_agent::{into_text, read_all, read_bytes};
use logue_message::{ChatMessage, ContentBlock, image_media_type};
use logue_source::DiagnosticCode;
use logue_tools::HostRule;

use crate::exit::CliError;
use crate::setup::failures::source_failure;
use crate::setup::network::fetcher;
use crate::setup::settings::Settings;

/// The maximum number of files that one pattern may name.
const MAX_FILES: usize = 1000;
/// The maximum size of all attachments.
const MAX_BYTES: usize = 32 << 20;

/// A question with its attachments.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The question and the attached texts.
    pub(crate) text: String,
    /// The attached images with their names.
    pub(crate) images: Vec<(String, ContentBlock)>,
}

impl Asked {
    /// Returns the message of the user.
    pub(crate) fn message(&self) -> ChatMessage {
        if self.images.is_empty() {
            return ChatMessage::user(self.text.as_str());
        }
        let text = (!self.text.is_empty()).then(|| ContentBlock::text(self.text.as_str()));
        let images = self.images.iter().map(|(_, image)| image.clone());
        ChatMessage::user(text.into_iter().chain(images).collect::<Vec<_>>())
    }

    /// Appends a text after an empty line.
    pub(crate) fn push(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(text);
    }

    /// Reads attachments in their order.
    pub(crate) async fn attach(
        &mut self,
        named: &[String],
        hosts: &[HostRule],
        settings: &Settings,
    ) -> Result<(), CliError> {
        let mut size = 0;
        for name in named {
            if is_address(name) {
                self.page(name, hosts, settings).await?;
                continue;
            }
            for file in files(name)? {
                let shown = file.display().to_string();
                let bytes = read_bytes(&file).map_err(|error| source_failure(&error))?;
                size += bytes.len();
                if size > MAX_BYTES {
                    let message = format!("{shown}: the attachments are larger than 32 MiB");
                    let code = DiagnosticCode::SourceTooLarge.as_str();
                    return Err(
                        CliError::user(code, message).with_help("attach fewer or smaller files")
                    );
                }
                self.file(shown, bytes)?;
            }
        }
        Ok(())
    }

    /// Adds the content of a file.
    fn file(&mut self, name: String, bytes: Vec<u8>) -> Result<(), CliError> {
        if let Some(media_type) = image_media_type(&bytes) {
            let image = ContentBlock::inline_image(media_type, STANDARD.encode(bytes));
            self.images.push((name, image));
            return Ok(());
        }
        if bytes.contains(&0) {
            let message = format!("{name}: neither text nor a known image");
            let code = DiagnosticCode::SourceNotUtf8.as_str();
            return Err(
                CliError::user(code, message).with_help("attach text, PNG, JPEG, GIF or WebP")
            );
        }
        let text = into_text(&name, bytes).map_err(|error| source_failure(&error))?;
        self.push(&named_text(&name, &text));
        Ok(())
    }

    /// Fetches a page or an image; naming its address allows its host.
    async fn page(
        &mut self,
        address: &str,
        hosts: &[HostRule],
        settings: &Settings,
    ) -> Result<(), CliError> {
        let denied = |message: String| {
            let code = DiagnosticCode::NetworkDenied.as_str();
            CliError::user(code, format!("{address}: {message}"))
        };
        let host = address.split(['/', '?', '#']).nth(2).unwrap_or_default();
        let host = host.parse().map_err(|error| denied(format!("{error}")))?;
        let hosts: Vec<HostRule> = hosts.iter().cloned().chain([host]).collect();
        let Some(fetcher) = fetcher(&hosts, settings)? else {
            return Err(denied("the network is off".to_owned()));
        };
        let fetched = fetcher.get(address).await.map_err(|error| {
            let code = DiagnosticCode::NetworkDenied.as_str();
            let failure = CliError::user(code, error.message);
            error.help.into_iter().fold(failure, CliError::with_help)
        })?;
        if fetched.is_html() {
            let options = logue_html::HtmlOptions::new().with_base(fetched.url.as_str());
            let page = logue_html::to_markdown(&fetched.text(), &options);
            self.push(&named_text(address, &page.text));
            return Ok(());
        }
        if fetched.is_text() {
            self.push(&named_text(address, &fetched.text()));
            return Ok(());
        }
        self.file(address.to_owned(), fetched.bytes)
    }
}

/// Returns the text of piped standard input, if there is some.
pub(crate) fn piped() -> Result<Option<String>, CliError> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let bytes = read_all("<stdin>", io::stdin().lock());
    let bytes = bytes.map_err(|error| source_failure(&error))?;
    let text = into_text("<stdin>", bytes).map_err(|error| source_failure(&error))?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn is_address(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// Returns the files that a path or pattern names, in the order of their names.
fn files(name: &str) -> Result<Vec<PathBuf>, CliError> {
    let path = Path::new(name);
    if path.exists() || !name.contains(['*', '?', '[']) {
        return Ok(vec![path.to_owned()]);
    }
    let refused = |message: String| CliError::user(DiagnosticCode::SourceRead.as_str(), message);
    let found = glob::glob(name).map_err(|error| refused(format!("`{name}`: {error}")))?;
    let mut files = Vec::new();
    for file in found {
        let file = file.map_err(|error| refused(error.to_string()))?;
        if file.is_file() {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            let message = format!("`{name}` names more than {MAX_FILES} files");
            return Err(refused(message).with_help("choose a narrower pattern"));
        }
    }
    if files.is_empty() {
        return Err(refused(format!("no file fits `{name}`"))
            .with_help("check the pattern; `**` stands for any directories"));
    }
    Ok(files)
}

/// Returns a text in a fence, below its name.
fn named_text(name: &str, text: &str) -> String {
    let longest = text
        .lines()
        .map(str::trim_start)
        .map(|line| line.len() - line.trim_start_matches('`').len())
        .max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    let language = Path::new(name).extension().and_then(|kind| kind.to_str());
    let language = language.unwrap_or_default();
    let end = if text.ends_with('\n') || text.is_empty() {
        ""
    } else {
        "\n"
    };
    format!("{name}:\n{fence}{language}\n{text}{end}{fence}")
}
