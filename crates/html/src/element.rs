//! What an element means for the text: a block, a mark, a container, or nothing to show.

use std::borrow::Cow;

/// The part that an element plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing: its content is shown where it stands.
    Inline,
    /// It stands on lines of its own.
    Block,
    /// So does it, with space around.
    Paragraph,
    Heading(u8),
    Break,
    Rule,
    Preformatted,
    Quote,
    List,
    Item,
    Table,
    Row,
    Cell,
    HeadCell,
    /// A part of a table that holds rows.
    Section,
    Link,
    Image,
    Mark(Mark),
    Code,
    /// Its content is the title of the page.
    Title,
    /// Its content is not shown. All of them but `template` and `svg` hold raw text.
    Hidden,
    /// Where the links of the page count from.
    Base,
}

/// A mark around a piece of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Emphasis,
    Strong,
    Strike,
}

/// The part that the element of this name (in lower case) plays.
pub(crate) fn role(name: &str) -> Role {
    match name {
        "p" | "dl" | "figure" | "fieldset" | "details" | "caption" => Role::Paragraph,
        "address" | "article" | "aside" | "body" | "center" | "dd" | "dialog" | "dir" | "div"
        | "dt" | "figcaption" | "footer" | "form" | "head" | "header" | "hgroup" | "html"
        | "legend" | "main" | "nav" | "optgroup" | "option" | "search" | "section" | "select"
        | "summary" | "textarea" | "frameset" | "marquee" => Role::Block,
        "h1" => Role::Heading(1),
        "h2" => Role::Heading(2),
        "h3" => Role::Heading(3),
        "h4" => Role::Heading(4),
        "h5" => Role::Heading(5),
        "h6" => Role::Heading(6),
        "br" => Role::Break,
        "hr" => Role::Rule,
        "pre" | "listing" | "plaintext" | "xmp" => Role::Preformatted,
        "blockquote" => Role::Quote,
        "ul" | "ol" | "menu" => Role::List,
        "li" => Role::Item,
        "table" => Role::Table,
        "tr" => Role::Row,
        "td" => Role::Cell,
        "th" => Role::HeadCell,
        "thead" | "tbody" | "tfoot" => Role::Section,
        "a" => Role::Link,
        "img" => Role::Image,
        "em" | "i" | "cite" | "dfn" | "var" => Role::Mark(Mark::Emphasis),
        "strong" | "b" => Role::Mark(Mark::Strong),
        "del" | "s" | "strike" => Role::Mark(Mark::Strike),
        "code" | "kbd" | "samp" | "tt" => Role::Code,
        "title" => Role::Title,
        "script" | "style" | "noscript" | "iframe" | "noembed" | "noframes" | "template"
        | "svg" => Role::Hidden,
        "base" => Role::Base,
        _ => Role::Inline,
    }
}

/// Whether an element cannot be part of a drawing: then the drawing was never closed.
pub(crate) fn leaves_svg(role: Role) -> bool {
    matches!(
        role,
        Role::Block
            | Role::Paragraph
            | Role::Heading(_)
            | Role::Rule
            | Role::Preformatted
            | Role::Quote
            | Role::List
            | Role::Item
            | Role::Table
    )
}

/// The language that the classes of a code block name: `language-rust`, `lang-rust`.
pub(crate) fn language(classes: Option<Cow<'_, str>>) -> Option<String> {
    const LONGEST: usize = 32;
    let classes = classes?;
    let named = classes.split_ascii_whitespace().find_map(|class| {
        ["language-", "lang-", "highlight-source-"]
            .iter()
            .find_map(|prefix| class.strip_prefix(prefix))
    })?;
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
    let good = !named.is_empty() && named.len() <= LONGEST && named.bytes().all(sound);
    good.then(|| named.to_owned())
}
