//! Conversion of hostile HTML to readable text or Markdown.
//!
//! Pages are untrusted: malformed, endless or nested two hundred thousand levels deep. The crate
//! builds no tree and does not recurse. [`tokens`] splits a page into tags and characters, and one
//! pass over them writes the output. [`to_text`] writes words on lines; [`to_markdown`] keeps
//! headings, lists, links, code, quotes and tables. Both are linear in the page, use no more memory
//! than their output, and stop at a limit.
//!
//! Scripts, styles, templates and similar elements are omitted. Characters of the page that Markdown
//! would read as structure are escaped.
//!
//! # Examples
//!
//! ```
//! use logue_html::{HtmlOptions, to_markdown};
//!
//! let page = "<title>News</title><h1>Today</h1><p>All <b>well</b>, <a href=/more>more</a>.";
//! let options = HtmlOptions::new().with_base("https://example.org/a/b");
//! let found = to_markdown(page, &options);
//! assert_eq!(found.title.as_deref(), Some("News"));
//! assert_eq!(found.text, "# Today\n\nAll **well**, [more](https://example.org/more).");
//! ```
//!
//! # Features
//!
//! The crate has no features. It performs no I/O and contains no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod blocks;
mod charset;
mod detect;
mod element;
mod entity;
mod escape;
mod inline;
mod page;
mod table;
mod token;

pub use charset::decode;
pub use detect::is_html;
pub use entity::decode_references;
pub use token::{Attributes, Tag, Token, Tokens, tokens};

/// The options of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HtmlOptions {
    /// Maximum output in bytes; the remainder is dropped. The default is 1 MiB.
    pub output_bytes: usize,
    /// The address of the page; without one, relative links stay relative.
    pub base: Option<String>,
    /// Whether links in Markdown are numbers: `【3†words】`.
    ///
    /// The number is an index of [`ExtractedText::links`]. Images become their alternative text. The
    /// page's own `【` and `】` become `[` and `]`, so ordinary text cannot imitate a link.
    pub number_links: bool,
}

impl HtmlOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum output in bytes.
    #[must_use]
    pub fn with_output_bytes(mut self, output_bytes: usize) -> Self {
        self.output_bytes = output_bytes;
        self
    }

    /// Sets the address of the page.
    #[must_use]
    pub fn with_base(mut self, base: impl Into<String>) -> Self {
        self.base = Some(base.into());
        self
    }

    /// Writes links in Markdown as numbers.
    #[must_use]
    pub fn with_numbered_links(mut self) -> Self {
        self.number_links = true;
        self
    }
}

impl Default for HtmlOptions {
    fn default() -> Self {
        Self {
            output_bytes: 1024 * 1024,
            base: None,
            number_links: false,
        }
    }
}

/// The text extracted from a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtractedText {
    /// The text, without white space at its ends.
    pub text: String,
    /// The content of `<title>`, on one line, at most 1 KiB of it.
    pub title: Option<String>,
    /// The targets of numbered links, by number.
    ///
    /// Their total length has the same limit as the text.
    pub links: Vec<String>,
    /// Whether the limit cut the text.
    pub cut: bool,
}

/// Converts a page to plain text.
///
/// Each block begins a line, list items have markers, the cells of a row are separated by tabs, and
/// preformatted text is unchanged. Nothing is escaped. Linear in the page.
///
/// ```
/// use logue_html::{HtmlOptions, to_text};
///
/// let page = "<p>One &amp; two<script>no()</script></p><ul><li>three</ul>";
/// assert_eq!(to_text(page, &HtmlOptions::default()).text, "One & two\n\n- three");
/// ```
pub fn to_text(html: &str, options: &HtmlOptions) -> ExtractedText {
    page::read(html, false, options)
}

/// Converts a page to Markdown (`CommonMark` and pipe tables).
///
/// Links with schemes other than `http`, `https`, `mailto`, `tel`, `ftp` and `ftps` lose their
/// address and keep their words. Images without a usable address become their alternative text.
/// Linear in the page.
pub fn to_markdown(html: &str, options: &HtmlOptions) -> ExtractedText {
    page::read(html, true, options)
}
