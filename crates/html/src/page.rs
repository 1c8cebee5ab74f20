//! The token sink, which writes blocks in one pass.
//!
//! There is no tree. Open elements are tracked only if they change the text: marks and links of the
//! current line, quotes and lists around it, the table whose cells are collected. Each of these is
//! bounded, so depth and invalid nesting have no cost.

use std::borrow::Cow;

use crate::address;
use crate::blocks::{Blocks, ContainerKind, Separator};
use crate::element::{self, Role};
use crate::inline::{Inline, Span};
use crate::table::Table;
use crate::token::{Tag, Token, tokens};
use crate::{ExtractedText, HtmlOptions};

/// Maximum nesting of tables; deeper ones are text.
const MAX_TABLE_DEPTH: usize = 16;

/// Maximum length of a title in bytes.
const MAX_TITLE_LEN: usize = 1_024;

/// Reads a page up to its end or the limit.
pub(crate) fn read(html: &str, markdown: bool, options: &HtmlOptions) -> ExtractedText {
    let mut page = Page {
        markdown,
        limit: options.output_bytes,
        base: options.base.clone().filter(|base| base.len() <= 2_048),
        blocks: Blocks::new(markdown, options.output_bytes),
        inline: Inline::new(markdown, options.output_bytes, options.number_links),
        brackets: markdown && options.number_links,
        heading: None,
        code: None,
        tables: Vec::new(),
        span: 1,
        hidden: Hidden::Nothing,
        title: None,
    };
    let mut cut = false;
    for token in tokens(html) {
        match token {
            Token::Text(text) => page.text(&text),
            Token::Start(tag) => page.start(&tag),
            Token::End(tag) => page.end(&tag),
        }
        if page.is_full() {
            cut = true;
            break;
        }
    }
    page.finish(cut)
}

/// Content that is omitted at its position.
#[derive(Debug, PartialEq, Eq)]
enum Hidden {
    Nothing,
    /// The content of this element, with its nesting depth.
    Element(String, usize),
    Title,
}

#[derive(Debug)]
struct Preformatted {
    text: String,
    /// Whether the text contains more than white space.
    begun: bool,
    language: Option<String>,
}

/// A table that is open.
#[derive(Debug)]
enum Grid {
    /// Its cells are collected.
    Cells(Table),
    /// It contains blocks or tables, so its cells are written as blocks.
    Layout,
}

#[derive(Debug)]
struct Page {
    markdown: bool,
    limit: usize,
    base: Option<String>,
    blocks: Blocks,
    inline: Inline,
    /// Whether the brackets of numbered links are reserved.
    brackets: bool,
    heading: Option<u8>,
    code: Option<Preformatted>,
    tables: Vec<Grid>,
    /// The column span of the open cell.
    span: usize,
    hidden: Hidden,
    title: Option<String>,
}

impl Page {
    /// Returns whether the pending text exceeds the remaining space.
    fn is_full(&self) -> bool {
        let code = self.code.as_ref().map_or(0, |code| code.text.len());
        let cells = match self.tables.last() {
            Some(Grid::Cells(table)) => table.len(),
            _ => 0,
        };
        code + cells + self.inline.len() > self.blocks.room()
    }

    fn text(&mut self, text: &str) {
        let text = &*self.own(text);
        match &self.hidden {
            Hidden::Nothing => {}
            Hidden::Title => {
                if self.title.is_none() {
                    let mut title = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let end = (0..=MAX_TITLE_LEN.min(title.len())).rev();
                    let end = end.into_iter().find(|at| title.is_char_boundary(*at));
                    title.truncate(end.unwrap_or(0));
                    self.title = Some(title).filter(|title| !title.is_empty());
                }
                return;
            }
            Hidden::Element(..) => return,
        }
        let Some(code) = &mut self.code else {
            if !self.in_cell() && text.contains(|character: char| !character.is_whitespace()) {
                self.lay_out();
            }
            return self.inline.push(text);
        };
        let sound = |character: &char| matches!(character, '\n' | '\t') || !character.is_control();
        let plain = |character| match character {
            '\u{A0}' => ' ',
            _ => character,
        };
        // Text beyond the limit is not stored.
        for character in text.chars().filter(sound).map(plain) {
            code.begun |= !character.is_whitespace();
            code.text.push(character);
            if code.text.len() > self.limit {
                break;
            }
        }
    }

    /// Words of the page without the brackets that are ours.
    fn own<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.brackets && text.contains(['【', '】']) {
            Cow::Owned(text.replace('【', "[").replace('】', "]"))
        } else {
            Cow::Borrowed(text)
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let name = tag.name();
        match &mut self.hidden {
            Hidden::Nothing => {}
            Hidden::Element(hidden, depth) => {
                if hidden != "svg" || !element::leaves_svg(element::role(&name)) {
                    if *hidden == *name && !tag.is_self_closing() {
                        *depth = depth.saturating_add(1);
                    }
                    return;
                }
                self.hidden = Hidden::Nothing;
            }
            Hidden::Title => self.hidden = Hidden::Nothing,
        }
        let role = element::role(&name);
        if self.code.is_some() {
            return self.start_in_code(role, tag);
        }
        match role {
            Role::Inline => {}
            Role::Block => self.block(Separator::Line),
            Role::Paragraph => self.block(Separator::Blank),
            Role::Heading(level) => {
                self.block_content();
                self.heading = Some(level);
            }
            Role::Break if self.heading.is_some() || self.in_cell() => self.inline.push_space(),
            Role::Break => self.inline.break_line(),
            Role::Rule => {
                self.block_content();
                self.blocks.rule();
            }
            Role::Preformatted => {
                self.block_content();
                let language = element::language(tag.attribute("class"));
                self.code = Some(Preformatted {
                    text: String::new(),
                    begun: false,
                    language,
                });
            }
            Role::Quote => {
                self.block_content();
                self.blocks.require(Separator::Blank);
                self.blocks.open_quote();
            }
            Role::List => {
                self.block_content();
                let first = tag.attribute("start").and_then(|start| start.parse().ok());
                let first = first
                    .filter(|first: &u64| *first < 100_000_000)
                    .unwrap_or(1);
                self.blocks.open_list((name == "ol").then_some(first));
            }
            Role::Item => {
                self.block_content();
                self.blocks.open_item();
            }
            Role::Table => self.open_table(),
            Role::Section => self.end_row(),
            Role::Row => {
                self.end_row();
                if let Some(Grid::Cells(table)) = self.tables.last_mut() {
                    table.open_row();
                }
            }
            Role::Cell | Role::HeadCell => self.open_cell(tag),
            Role::Link => self.open_link(tag),
            Role::Image => self.image(tag),
            Role::Mark(mark) => self.inline.open(Span::Mark(mark)),
            Role::Code => self.inline.open_code(),
            Role::Title => self.hidden = Hidden::Title,
            Role::Hidden => self.hide(tag),
            Role::Base => {
                if let Some((base, to)) = self.base.as_ref().zip(tag.attribute("href"))
                    && to.len() <= 2_048
                {
                    self.base = Some(address::resolve(base, to.trim()));
                }
            }
        }
    }

    fn hide(&mut self, tag: &Tag<'_>) {
        if !tag.is_self_closing() || tag.name() != "svg" {
            self.hidden = Hidden::Element(tag.name().into_owned(), 1);
        }
    }

    fn start_in_code(&mut self, role: Role, tag: &Tag<'_>) {
        let Some(code) = &mut self.code else { return };
        let block = matches!(role, Role::Block | Role::Paragraph | Role::Item | Role::Row);
        match role {
            Role::Break => code.text.push('\n'),
            Role::Code if !code.begun && code.language.is_none() => {
                code.language = element::language(tag.attribute("class"));
            }
            Role::Hidden => self.hide(tag),
            Role::Title => self.hidden = Hidden::Title,
            _ if block && !code.text.is_empty() && !code.text.ends_with('\n') => {
                code.text.push('\n');
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: &Tag<'_>) {
        let name = tag.name();
        match &mut self.hidden {
            Hidden::Nothing => {}
            Hidden::Title => {
                self.hidden = Hidden::Nothing;
                return;
            }
            Hidden::Element(hidden, depth) => {
                if *hidden == *name {
                    *depth -= 1;
                    if *depth == 0 {
                        self.hidden = Hidden::Nothing;
                    }
                }
                return;
            }
        }
        let role = element::role(&name);
        if self.code.is_some() && role != Role::Preformatted {
            return;
        }
        match role {
            Role::Block => self.block(Separator::Line),
            Role::Paragraph => self.block(Separator::Blank),
            Role::Heading(_) => self.flush(),
            Role::Preformatted => self.end_code(),
            Role::Quote => {
                self.flush();
                self.blocks.close(ContainerKind::Quote);
                self.blocks.require(Separator::Blank);
            }
            Role::List => {
                self.flush();
                self.blocks.close(ContainerKind::List);
            }
            Role::Item => {
                self.flush();
                self.blocks.close(ContainerKind::Item);
            }
            Role::Table => self.end_table(),
            Role::Row | Role::Section => self.end_row(),
            Role::Cell | Role::HeadCell => self.end_cell(),
            Role::Link => self.inline.close(|span| matches!(span, Span::Link(_))),
            Role::Mark(mark) => self.inline.close(|span| *span == Span::Mark(mark)),
            Role::Code => {
                let in_cell = self.in_cell();
                self.inline.close_code(in_cell);
            }
            // Pages contain `</br>` for `<br>`.
            Role::Break if self.in_cell() => self.inline.push_space(),
            Role::Break => self.inline.break_line(),
            Role::Inline | Role::Rule | Role::Image | Role::Title | Role::Hidden | Role::Base => {}
        }
    }

    fn in_cell(&self) -> bool {
        matches!(self.tables.last(), Some(Grid::Cells(table)) if table.is_in_cell())
    }

    /// Ends the current block; in a cell, only separates words.
    fn block(&mut self, gap: Separator) {
        if self.in_cell() {
            self.inline.push_space();
            return;
        }
        self.flush();
        self.blocks.require(gap);
    }

    /// Ends the current block before a block that a cell cannot contain.
    fn block_content(&mut self) {
        self.lay_out();
        self.flush();
    }

    fn flush(&mut self) {
        if self.in_cell() {
            self.inline.push_space();
            return;
        }
        let heading = self.heading.take();
        if self.inline.is_empty() {
            return;
        }
        let text = self.inline.take(false);
        match heading {
            Some(level) => self.blocks.heading(level, &text),
            None => self.blocks.paragraph(&text),
        }
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let text = code
            .text
            .strip_prefix('\n')
            .unwrap_or(&code.text)
            .trim_end();
        if text.trim().is_empty() {
            return;
        }
        self.blocks
            .code(text, code.language.as_deref().unwrap_or_default());
    }

    fn open_table(&mut self) {
        self.block_content();
        self.blocks.require(Separator::Blank);
        if self.tables.len() < MAX_TABLE_DEPTH {
            self.tables.push(Grid::Cells(Table::default()));
        }
    }

    /// Converts the innermost table to layout.
    ///
    /// Called for content that a table cannot contain: a block in a cell, or words between cells.
    fn lay_out(&mut self) {
        let Some(Grid::Cells(table)) = self.tables.last_mut() else {
            return;
        };
        if !table.is_in_cell() && table.is_empty() {
            return;
        }
        let mut table = std::mem::take(table);
        self.tables.pop();
        self.tables.push(Grid::Layout);
        // The words of the open cell stay in the line; the cells before it come first.
        table.close_row();
        self.write_as_text(&table);
    }

    fn open_cell(&mut self, tag: &Tag<'_>) {
        self.end_cell();
        let columns = tag.attribute("colspan").and_then(|span| span.parse().ok());
        self.span = columns.unwrap_or(1).clamp(1, 64);
        match self.tables.last_mut() {
            Some(Grid::Cells(table)) => {
                table.open_cell();
                // Text between cells is written before the table.
                if !self.inline.is_empty() {
                    let text = self.inline.take(false);
                    self.blocks.paragraph(&text);
                }
            }
            Some(Grid::Layout) => self.flush(),
            None => self.inline.push_space(),
        }
    }

    fn end_cell(&mut self) {
        match self.tables.last_mut() {
            Some(Grid::Cells(table)) if table.is_in_cell() => {
                table.close_cell(self.inline.take(true), self.span - 1);
            }
            Some(Grid::Layout) => self.flush(),
            _ => {}
        }
    }

    fn end_row(&mut self) {
        self.end_cell();
        match self.tables.last_mut() {
            Some(Grid::Cells(table)) => table.close_row(),
            Some(Grid::Layout) => self.flush(),
            None => self.block(Separator::Line),
        }
    }

    fn end_table(&mut self) {
        self.end_row();
        self.flush();
        if let Some(Grid::Cells(table)) = self.tables.pop() {
            let lines = table.markdown().filter(|_| self.markdown);
            match lines {
                Some(lines) => self.blocks.lines(lines.into_iter()),
                None => self.write_as_text(&table),
            }
        }
        self.blocks.require(Separator::Blank);
    }

    fn write_as_text(&mut self, table: &Table) {
        let separator = if self.markdown { " " } else { "\t" };
        for line in table.text(separator) {
            self.blocks.paragraph(&line);
        }
    }

    fn open_link(&mut self, tag: &Tag<'_>) {
        self.inline.close(|span| matches!(span, Span::Link(_)));
        if !self.markdown {
            return;
        }
        let href = tag.attribute("href");
        if let Some(to) = href.and_then(|href| address::keep(&href, self.base.as_deref())) {
            self.inline.open(Span::Link(to));
        }
    }

    fn image(&mut self, tag: &Tag<'_>) {
        let alt = tag.attribute("alt");
        let alt = alt.as_deref().map(|alt| self.own(alt));
        let source = tag.attribute("src").unwrap_or_default();
        let source = address::keep(&source, self.base.as_deref());
        match alt {
            // An empty alternative text marks a decorative image.
            Some(alt) if alt.trim().is_empty() => {}
            Some(alt) => self.inline.image(&alt, source.as_deref()),
            None => self.inline.image("", source.as_deref()),
        }
    }

    fn finish(mut self, cut: bool) -> ExtractedText {
        self.end_code();
        while !self.tables.is_empty() {
            self.end_table();
        }
        self.flush();
        let (text, over) = self.blocks.finish();
        ExtractedText {
            links: self.inline.take_links(),
            text,
            title: self.title,
            cut: cut || over,
        }
    }
}
