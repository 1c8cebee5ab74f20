//! The text of PDF files, read by a process of this program.
//!
//! A PDF is untrusted, and reading it may take any time and memory. The process has limits of both, so
//! that a hostile file ends it and not the command.

use std::io::{self, Read as _, Write as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use logue_pdf::{PdfError, PdfLimits, PdfText};
use logue_source::{DiagnosticCode, escape_line};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::exit::CliError;

/// The first argument that makes the program read a PDF from standard input.
pub(crate) const PDF_ARG: &str = "__pdf";

/// The time in which a PDF is read.
const TIME: Duration = Duration::from_secs(30);
/// The memory of the process in bytes.
#[cfg(target_os = "linux")]
const MEMORY: u64 = 1 << 30;
/// The maximum report; the text may be escaped.
const MAX_REPORT: u64 = 64 << 20;

/// Returns the text of a PDF file, with a mark before each page.
///
/// # Errors
/// Returns an error if the file is damaged, requires a password, has no text or exceeds a limit.
pub(super) async fn text_of(name: &str, bytes: &[u8]) -> Result<String, CliError> {
    let failed = |message: &str| {
        let code = DiagnosticCode::SourceRead.as_str();
        CliError::user(code, format!("{name}: {message}"))
    };
    let read = tokio::time::timeout(TIME, report(bytes)).await;
    let report = match read {
        Ok(Ok(Some(report))) => report,
        Ok(Err(error)) => return Err(failed(&format!("cannot read the PDF: {error}"))),
        Ok(Ok(None)) | Err(_) => {
            return Err(failed(
                "the PDF is damaged, or reading it requires too much time or memory",
            )
            .with_help("attach its text: pdftotext FILE.pdf - | logue ask \"…\""));
        }
    };
    if let Some(error) = report["error"].as_str() {
        let code = match report["is_too_large"].as_bool() {
            Some(true) => DiagnosticCode::SourceTooLarge,
            _ => DiagnosticCode::SourceRead,
        };
        let failure = CliError::user(code.as_str(), format!("{name}: {error}"));
        let help = report["help"].as_str().into_iter();
        return Err(help.fold(failure, CliError::with_help));
    }
    let pages = report["pages"].as_array().into_iter().flatten();
    let pages: Vec<&str> = pages.filter_map(Value::as_str).collect();
    let unreadable = report["unreadable"].as_u64().unwrap_or_default();
    if pages.iter().all(|page| page.is_empty()) {
        let message = if unreadable > 0 {
            "the fonts of the PDF do not name their characters"
        } else {
            "the PDF has no text; its pages may be scans"
        };
        return Err(failed(message)
            .with_help(
                "recognize the text first (ocrmypdf FILE.pdf OUT.pdf), and attach the result",
            )
            .with_help("or attach images of its pages: pdftoppm -png FILE.pdf page"));
    }
    if unreadable > 0 {
        crate::terminal::print_error(&format!(
            "warning: {}: characters that the fonts of the PDF do not name: {unreadable}\n",
            escape_line(name)
        ));
    }
    Ok(marked(&pages))
}

/// Returns the texts of pages with their marks.
fn marked(pages: &[&str]) -> String {
    let mut text = String::new();
    for (number, page) in (1..).zip(pages) {
        if page.is_empty() {
            text.push_str(&format!("--- page {number} (no text) ---\n"));
        } else {
            text.push_str(&format!("--- page {number} ---\n{page}\n"));
        }
    }
    text
}

/// Returns the report of the process; `None` if it died.
async fn report(bytes: &[u8]) -> io::Result<Option<Value>> {
    let program = std::env::current_exe()?;
    let mut child = Command::new(program)
        .arg(PDF_ARG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A process that died reads nothing, and its status says so.
        drop(input.write_all(bytes).await);
    }
    let mut report = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_REPORT).read_to_end(&mut report).await?;
    }
    let status = child.wait().await?;
    let report = serde_json::from_slice(&report).ok();
    Ok(report.filter(|_| status.success()))
}

/// Reads a PDF from standard input and prints a report as JSON.
pub(crate) fn read_in_this_process() -> ExitCode {
    limit();
    let mut bytes = Vec::new();
    if io::stdin().lock().read_to_end(&mut bytes).is_err() {
        return ExitCode::FAILURE;
    }
    let report = match logue_pdf::pages(bytes, &PdfLimits::default()) {
        Ok(PdfText {
            pages, unreadable, ..
        }) => json!({"pages": pages, "unreadable": unreadable}),
        Err(error) => failure(error),
    };
    match io::stdout().write_all(report.to_string().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn failure(error: PdfError) -> Value {
    let is_too_large = matches!(
        error,
        PdfError::TooManyPages { .. } | PdfError::TooMuchText { .. } | PdfError::TooComplex { .. }
    );
    let help = match error {
        PdfError::PasswordRequired => {
            "attach a copy without a password: qpdf --decrypt FILE.pdf OUT.pdf"
        }
        PdfError::UnknownEncryption => "attach a copy without encryption",
        _ if is_too_large => "attach a part: qpdf FILE.pdf --pages . 1-100 -- OUT.pdf",
        _ => "check that a viewer of PDF files opens it",
    };
    json!({"error": error.to_string(), "help": help, "is_too_large": is_too_large})
}

/// Limits the memory and the processor time of this process.
fn limit() {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::resource::{Resource, setrlimit};
        let seconds = TIME.as_secs();
        for (resource, limit) in [
            (Resource::RLIMIT_AS, MEMORY),
            (Resource::RLIMIT_CPU, seconds),
            (Resource::RLIMIT_CORE, 0),
        ] {
            // Without a limit, the time of the command remains.
            let _ = setrlimit(resource, limit, limit);
        }
    }
}
