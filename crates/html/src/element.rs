//! The role of an element: block, mark, container or hidden.

use std::borrow::Cow;

/// The role of an element in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The content is part of the surrounding text.
    Inline,
    /// The content has lines of its own.
    Block,
    /// The content has lines of its own, with blank lines around.
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
    /// A group of rows in a table.
    Section,
    Link,
    Image,
    Mark(Mark),
    Code,
    /// The content is the title of the page.
    Title,
    /// The content is hidden; except in `template` and `svg`, it is raw text.
    Hidden,
    /// The base address of the links.
    Base,
}

/// A mark around part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Emphasis,
    Strong,
    Strike,
}

/// Returns the role of an element by its name in lower case.
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

/// Returns whether an element cannot occur in a drawing, so the drawing is unclosed.
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

/// Returns the language from the classes of a code block, such as `language-rust`.
pub(crate) fn language(classes: Option<Cow<'_, str>>) -> Option<String> {
    const MAX_LANGUAGE_LEN: usize = 32;
    let classes = classes?;
    let named = classes.split_ascii_whitespace().find_map(|class| {
        ["language-", "lang-", "highlight-source-"]
            .iter()
            .find_map(|prefix| class.strip_prefix(prefix))
    })?;
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
    let good = !named.is_empty() && named.len() <= MAX_LANGUAGE_LEN && named.bytes().all(sound);
    good.then(|| named.to_owned())
}
