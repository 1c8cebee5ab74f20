//! The files and pages that accompany a question.

mod files;
pub(crate) mod pdf;

use std::io::{self, IsTerminal as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logue_agent::{into_text, read_all, read_bytes};
use logue_message::{ChatMessage, ContentBlock, image_media_type};
use logue_pdf::is_pdf;
use logue_source::{DiagnosticCode, escape_line};
use logue_tools::HostRule;

use crate::exit::CliError;
use crate::setup::failures::source_failure;
use crate::setup::network::fetcher;
use crate::setup::settings::Settings;
use crate::terminal::print_error;

/// The maximum size of all attached files.
const MAX_BYTES: usize = 32 << 20;
/// The number of omitted files that a warning names.
const NAMED: usize = 10;

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
            let found = files::files(name)?;
            let mut omitted = Vec::new();
            for file in &found.files {
                let shown = file.display().to_string();
                let bytes = read_bytes(file).map_err(|error| source_failure(&error))?;
                size += bytes.len();
                if size > MAX_BYTES {
                    let message = format!("{shown}: the attachments are larger than 32 MiB");
                    let code = DiagnosticCode::SourceTooLarge.as_str();
                    return Err(
                        CliError::user(code, message).with_help("attach fewer or smaller files")
                    );
                }
                if found.is_pattern && is_binary(&bytes) {
                    omitted.push(shown);
                    continue;
                }
                self.file(shown, bytes).await?;
            }
            report_omitted(name, &omitted, found.files.len())?;
        }
        Ok(())
    }

    /// Adds the content of a file.
    async fn file(&mut self, name: String, bytes: Vec<u8>) -> Result<(), CliError> {
        if is_pdf(&bytes) {
            let text = pdf::text_of(&name, &bytes).await?;
            self.push(&named_text(&name, "", &text));
            return Ok(());
        }
        if let Some(media_type) = image_media_type(&bytes) {
            let image = ContentBlock::inline_image(media_type, STANDARD.encode(bytes));
            self.images.push((name, image));
            return Ok(());
        }
        if bytes.contains(&0) {
            let message = format!("{name}: neither text, a PDF nor a known image");
            let code = DiagnosticCode::SourceNotUtf8.as_str();
            return Err(CliError::user(code, message)
                .with_help("attach text, a PDF, PNG, JPEG, GIF or WebP"));
        }
        let text = into_text(&name, bytes).map_err(|error| source_failure(&error))?;
        self.push(&named_text(&name, language(&name), &text));
        Ok(())
    }

    /// Fetches a page, a PDF or an image; naming its address allows its host.
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
        if is_pdf(&fetched.bytes) {
            return self.file(address.to_owned(), fetched.bytes).await;
        }
        if fetched.is_html() {
            let options = logue_html::HtmlOptions::new().with_base(fetched.url.as_str());
            let page = logue_html::to_markdown(&fetched.text(), &options);
            self.push(&named_text(address, language(address), &page.text));
            return Ok(());
        }
        if fetched.is_text() {
            self.push(&named_text(address, language(address), &fetched.text()));
            return Ok(());
        }
        self.file(address.to_owned(), fetched.bytes).await
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

/// Returns whether a file is neither text nor of another known kind.
fn is_binary(bytes: &[u8]) -> bool {
    let is_known = is_pdf(bytes) || image_media_type(bytes).is_some();
    !is_known && (bytes.contains(&0) || std::str::from_utf8(bytes).is_err())
}

/// Warns of the files that a pattern named and that are not attached.
fn report_omitted(pattern: &str, omitted: &[String], found: usize) -> Result<(), CliError> {
    if omitted.is_empty() {
        return Ok(());
    }
    let mut names = omitted
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if omitted.len() > NAMED {
        names.push_str(&format!(" and {} more", omitted.len() - NAMED));
    }
    let names = escape_line(&names);
    if omitted.len() == found {
        let message = format!("`{pattern}` names only binary files: {names}");
        let code = DiagnosticCode::SourceNotUtf8.as_str();
        return Err(
            CliError::user(code, message).with_help("attach text, a PDF, PNG, JPEG, GIF or WebP")
        );
    }
    print_error(&format!(
        "warning: binary files are not attached: {names}\n"
    ));
    Ok(())
}

/// Returns the language of a fence for a file.
fn language(name: &str) -> &str {
    let extension = Path::new(name).extension().and_then(|kind| kind.to_str());
    extension.unwrap_or_default()
}

/// Returns a text in a fence, below its name.
fn named_text(name: &str, language: &str, text: &str) -> String {
    let longest = text
        .lines()
        .map(str::trim_start)
        .map(|line| line.len() - line.trim_start_matches('`').len())
        .max();
    let fence = "`".repeat(longest.unwrap_or_default().max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() {
        ""
    } else {
        "\n"
    };
    format!("{name}:\n{fence}{language}\n{text}{end}{fence}")
}
