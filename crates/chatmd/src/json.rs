//! The tree as JSON, for programs in other languages and for comparisons of readers.

use std::fmt::Write as _;

use crate::import::expanded::{ExpandedDocument, ImportTarget};
use crate::syntax::builder::parse;
use crate::syntax::fragment::parse_fragment;
use crate::syntax::tag::Tag;
use crate::syntax::tree::{ElementNode, Tree};
use crate::syntax::walk::{Step, Walk};

impl Tree<'_> {
    /// Returns the tree as one line of JSON.
    ///
    /// It is a list of elements `{"tag": …, "attrs": [[name, value], …], "children": […]}` and texts
    /// `{"text": …}`. Attribute values are decoded, and a flag has an empty value. Adjacent text, RAW
    /// blocks included, is one text. Comments, trivia, unmatched closing tags and white space between
    /// top-level elements are omitted. An `<import>` stays an element.
    ///
    /// Linear in the size of the tree, however deep it is.
    ///
    /// ```
    /// let tree = chatmd::parse("<user>RAW|<b>|RAW<doc src=\"a&amp;b\" local/></user>");
    /// assert_eq!(
    ///     tree.to_json(),
    ///     r#"[{"tag":"user","attrs":[],"children":[{"text":"<b>"},"#.to_owned()
    ///         + r#"{"tag":"doc","attrs":[["src","a&b"],["local",""]],"children":[]}]}]"#
    /// );
    /// ```
    pub fn to_json(&self) -> String {
        let mut writer = Writer::default();
        writer.tree(self, Level::Document);
        writer.finish()
    }
}

impl ExpandedDocument<'_> {
    /// Returns the document as one line of JSON, with expanded imports.
    ///
    /// An import that was not expanded stays an element. See [`Tree::to_json`].
    ///
    /// Linear in the size of the expanded document.
    ///
    /// ```
    /// let mut world = chatmd::MemoryWorld::new().with("a.md", "x &amp; y");
    /// let loaded = chatmd::load("p.md", "<user>[<import src=\"a.md\"/>]</user>", &mut world);
    /// let text = r#"[{"tag":"user","attrs":[],"children":[{"text":"[x &amp; y]"}]}]"#;
    /// assert_eq!(loaded.to_json(), text);
    /// ```
    pub fn to_json(&self) -> String {
        let mut writer = Writer {
            loaded: Some(self),
            ..Writer::default()
        };
        writer.part(0, Level::Document);
        writer.finish()
    }
}

/// The level at which the children of a tree are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// The top level, where white space separates elements.
    Document,
    /// The inside of an element, where white space is content.
    Content,
}

#[derive(Debug, Default)]
struct Writer<'l> {
    json: String,
    /// Whether the next item is the first of its list.
    first: bool,
    /// Pending text, which further text may extend.
    text: Option<String>,
    /// Document whose imports are expanded.
    loaded: Option<&'l ExpandedDocument<'l>>,
    /// Address of the current tree.
    base: usize,
}

impl Writer<'_> {
    fn tree(&mut self, tree: &Tree<'_>, level: Level) {
        let is_outermost = self.json.is_empty();
        if is_outermost {
            self.json.push('[');
            self.first = true;
        }
        let mut walk = Walk::new(tree);
        // The depth of an import that is replaced; deeper steps are skipped.
        let mut replaced: Option<usize> = None;
        while let Some(step) = walk.next() {
            if let Some(depth) = replaced {
                if matches!(step, Step::Leave) && walk.depth() < depth {
                    replaced = None;
                }
                continue;
            }
            match step {
                Step::Enter(node) => {
                    let is_inside = walk.depth() > 1 || level == Level::Content;
                    if self.import(node, is_inside) {
                        replaced = Some(walk.depth());
                        continue;
                    }
                    self.enter(node);
                }
                Step::Leave => {
                    self.flush();
                    self.json.push_str("]}");
                    self.first = false;
                }
                Step::Text(run) => {
                    let is_layout = walk.depth() == 0 && level == Level::Document && run.is_blank();
                    if !is_layout && run.pieces().next().is_some() {
                        let text = run.content();
                        self.text.get_or_insert_default().push_str(&text);
                    }
                }
                // It separates two texts, although it is not written.
                Step::Stray(_) => self.flush(),
            }
        }
        if is_outermost {
            self.flush();
            self.json.push(']');
        }
    }

    /// Writes a part of the document; recursion ends at [`crate::MAX_IMPORT_DEPTH`].
    fn part(&mut self, index: usize, level: Level) {
        let Some(part) = self.loaded.and_then(|loaded| loaded.parts().get(index)) else {
            return;
        };
        let outer = std::mem::replace(&mut self.base, part.base);
        let tree = match level {
            Level::Document => parse(&part.text),
            Level::Content => parse_fragment(&part.text),
        };
        self.tree(&tree, level);
        self.base = outer;
    }

    /// Writes the target of an import; returns `false` if it is unknown.
    fn import(&mut self, node: ElementNode<'_>, is_inside: bool) -> bool {
        let Some(loaded) = self.loaded.filter(|_| node.tag() == Tag::Import) else {
            return false;
        };
        match loaded.target(self.base + node.span().start) {
            Some(ImportTarget::Document(part)) => {
                self.part(part, Level::Document);
                true
            }
            Some(ImportTarget::Fragment(part)) if is_inside => {
                self.part(part, Level::Content);
                true
            }
            // Text is invalid at the top level.
            Some(ImportTarget::Fragment(_)) | None => false,
        }
    }

    fn enter(&mut self, node: ElementNode<'_>) {
        self.flush();
        separate(&mut self.json, &mut self.first);
        self.json.push_str("{\"tag\":");
        quote(&mut self.json, node.tag().as_str());
        self.json.push_str(",\"attrs\":[");
        let mut first_attribute = true;
        for attribute in node.attributes() {
            separate(&mut self.json, &mut first_attribute);
            self.json.push('[');
            quote(&mut self.json, attribute.name());
            self.json.push(',');
            quote(&mut self.json, &attribute.value());
            self.json.push(']');
        }
        self.json.push_str("],\"children\":[");
        self.first = true;
    }

    fn flush(&mut self) {
        if let Some(text) = self.text.take() {
            separate(&mut self.json, &mut self.first);
            self.json.push_str("{\"text\":");
            quote(&mut self.json, &text);
            self.json.push('}');
        }
    }

    fn finish(self) -> String {
        self.json
    }
}

fn separate(json: &mut String, first: &mut bool) {
    if !std::mem::take(first) {
        json.push(',');
    }
}

/// Appends a JSON string.
fn quote(json: &mut String, text: &str) {
    json.push('"');
    let mut remaining = text;
    while let Some(at) = remaining.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        let (plain, special) = remaining.split_at(at);
        json.push_str(plain);
        let mut characters = special.chars();
        match characters.next() {
            Some('\n') => json.push_str("\\n"),
            Some('\t') => json.push_str("\\t"),
            Some('\r') => json.push_str("\\r"),
            Some(character @ ('"' | '\\')) => {
                json.push('\\');
                json.push(character);
            }
            // Writing to a string cannot fail.
            Some(character) => drop(write!(json, "\\u{:04x}", u32::from(character))),
            None => {}
        }
        remaining = characters.as_str();
    }
    json.push_str(remaining);
    json.push('"');
}
