//! Hostile HTML to readable text or Markdown.
//!
//! A page comes from anywhere and may be anything: broken, endless, nested two hundred thousand
//! deep. So there is no tree here and no recursion. [`tokens`] splits the text into tags and
//! characters, and one pass over them writes the output: [`strip`] gives the words on lines,
//! [`to_markdown`] keeps headings, lists, links, code, quotes and tables. Both are linear in the
//! page, hold no more than their output, and stop at a limit.
//!
//! Scripts, styles, templates and the like are not shown; characters of the page that Markdown
//! would read as structure are escaped, so what looks like a heading is one.
//!
//! ```
//! use logue_html::{Options, to_markdown};
//!
//! let page = "<title>News</title><h1>Today</h1><p>All <b>well</b>, <a href=/more>more</a>.";
//! let options = Options { base: Some("https://example.org/a/b".into()), ..Options::default() };
//! let found = to_markdown(page, &options);
//! assert_eq!(found.title.as_deref(), Some("News"));
//! assert_eq!(found.text, "# Today\n\nAll **well**, [more](https://example.org/more).");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod blocks;
mod element;
mod entity;
mod escape;
mod inline;
mod page;
mod sniff;
mod table;
mod token;

pub use sniff::{decode, is_html};
pub use token::{Attributes, Tag, Token, Tokens, tokens};

/// How a page is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of output; what would follow is dropped. 1 MiB by default.
    pub output_bytes: usize,
    /// The page's own address. Relative links are written as they are without one.
    pub base: Option<String>,
    /// Whether a link in Markdown is written as `【3†its words】` with its place in [`Text::links`],
    /// and a picture as its text. The page's own `【` and `】` become `[` and `]` then, so nothing in
    /// it looks like a link that is none.
    pub number_links: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            output_bytes: 1024 * 1024,
            base: None,
            number_links: false,
        }
    }
}

/// What a page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text, without white space at its ends.
    pub text: String,
    /// The content of `<title>`, on one line, at most 1 KiB of it.
    pub title: Option<String>,
    /// Where the numbered links lead, by their numbers; together no more bytes than the text may
    /// have.
    pub links: Vec<String>,
    /// Whether the limit cut it.
    pub cut: bool,
}

/// The words of a page: blocks on lines of their own, items of lists with their markers, cells of a
/// row separated by tabs, preformatted text as it is. Nothing is escaped. Linear in the page.
///
/// ```
/// use logue_html::{Options, strip};
///
/// let page = "<p>One &amp; two<script>no()</script></p><ul><li>three</ul>";
/// assert_eq!(strip(page, &Options::default()).text, "One & two\n\n- three");
/// ```
pub fn strip(html: &str, options: &Options) -> Text {
    page::read(html, false, options)
}

/// A page as Markdown (`CommonMark` and pipe tables). Linear in the page.
///
/// Links to anything but `http`, `https`, `mailto`, `tel` and `ftp` lose their address and keep
/// their words; images without a usable address are their text.
pub fn to_markdown(html: &str, options: &Options) -> Text {
    page::read(html, true, options)
}
