//! Extraction of the text of PDF files.
//!
//! [`pages`] returns the text of each page. Files are untrusted: the numbers of pages, operations and
//! bytes of text are limited, and nested forms are read to a depth. Streams are unpacked without a
//! limit of their own, so a program that reads hostile files runs this crate in a process with limits
//! of memory and time.
//!
//! Text is returned in the order of the content of a page. Lines, paragraphs and spaces between words
//! follow the positions of the glyphs. Fonts with encodings that only a table of Adobe defines, and that
//! have no `ToUnicode`, have no text; such characters are counted.
//!
//! # Examples
//!
//! ```
//! use logue_pdf::{PdfError, PdfLimits, pages};
//!
//! let error = pages(b"%PDF-1.7 and nothing else".to_vec(), &PdfLimits::default()).unwrap_err();
//! assert_eq!(error, PdfError::Invalid);
//! ```
//!
//! # Features
//!
//! The crate has no features. It performs no I/O and contains no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod content;
mod encoding;
mod font;
mod glyph_names;
mod layout;
mod matrix;

use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};

use crate::content::PageReader;

/// The limits of an extraction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PdfLimits {
    /// Maximum number of pages.
    pub pages: usize,
    /// Maximum text of all pages, in bytes.
    pub text_bytes: usize,
    /// Maximum number of operations in the content of all pages.
    pub operations: usize,
}

impl PdfLimits {
    /// Creates the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of pages.
    #[must_use]
    pub fn with_pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// Sets the maximum text of all pages in bytes.
    #[must_use]
    pub fn with_text_bytes(mut self, text_bytes: usize) -> Self {
        self.text_bytes = text_bytes;
        self
    }

    /// Sets the maximum number of operations in the content of all pages.
    #[must_use]
    pub fn with_operations(mut self, operations: usize) -> Self {
        self.operations = operations;
        self
    }
}

impl Default for PdfLimits {
    fn default() -> Self {
        Self {
            pages: 2000,
            text_bytes: 8 << 20,
            operations: 20_000_000,
        }
    }
}

/// The text extracted from a PDF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PdfText {
    /// The text of each page, without white space at its ends; empty for a scan.
    pub pages: Vec<String>,
    /// The number of characters whose fonts do not name them.
    pub unreadable: usize,
}

/// A failure to extract the text of a PDF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PdfError {
    /// The file requires a password.
    #[error("the PDF requires a password")]
    PasswordRequired,
    /// The encryption is invalid or unknown.
    #[error("the PDF has an unknown encryption")]
    UnknownEncryption,
    /// The bytes are not a PDF, or are too damaged to be repaired.
    #[error("invalid PDF")]
    Invalid,
    /// The file has more pages than the limit.
    #[error("the PDF has more than {limit} pages")]
    TooManyPages {
        /// The maximum number of pages.
        limit: usize,
    },
    /// The text is larger than the limit.
    #[error("the text of the PDF is larger than {limit} bytes")]
    TooMuchText {
        /// The maximum number of bytes.
        limit: usize,
    },
    /// The content has more operations than the limit.
    #[error("the content of the PDF has more than {limit} operations")]
    TooComplex {
        /// The maximum number of operations.
        limit: usize,
    },
}

/// Returns whether the bytes begin like a PDF file.
///
/// Readers accept up to 1024 bytes before the header.
///
/// ```
/// assert!(logue_pdf::is_pdf(b"%PDF-1.7\n"));
/// assert!(!logue_pdf::is_pdf(b"a text about %PDF-1.7"));
/// ```
pub fn is_pdf(bytes: &[u8]) -> bool {
    let start = bytes.iter().position(|byte| !byte.is_ascii_whitespace());
    let start = bytes.get(start.unwrap_or_default()..).unwrap_or_default();
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.starts_with(b"%PDF-")
}

/// Extracts the text of the pages of a PDF file.
///
/// # Errors
/// Returns an error if the file is not a readable PDF, requires a password or exceeds a limit.
pub fn pages(pdf: Vec<u8>, limits: &PdfLimits) -> Result<PdfText, PdfError> {
    let pdf = Pdf::new(pdf).map_err(|error| match error {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => PdfError::PasswordRequired,
        LoadPdfError::Decryption(_) => PdfError::UnknownEncryption,
        LoadPdfError::Invalid => PdfError::Invalid,
    })?;
    let found = pdf.pages();
    if found.len() > limits.pages {
        let limit = limits.pages;
        return Err(PdfError::TooManyPages { limit });
    }
    if found.is_empty() {
        return Err(PdfError::Invalid);
    }
    let mut reader = PageReader::new(limits);
    let mut text = PdfText::default();
    for page in found.iter() {
        text.pages.push(reader.read(page)?);
    }
    text.unreadable = reader.unreadable;
    Ok(text)
}
