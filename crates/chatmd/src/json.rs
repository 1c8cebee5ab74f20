//! The tree as JSON, for programs in other languages and for comparing readers.

use std::fmt::Write as _;

use crate::tree::Tree;
use crate::walk::{Step, Walk};

impl Tree<'_> {
    /// The tree as one line of JSON: a list of elements
    /// `{"tag": …, "attrs": [[name, value], …], "children": […]}` and texts `{"text": …}`.
    ///
    /// Values of attributes are decoded, a flag has an empty one; adjacent text, RAW blocks
    /// included, is one text. Comments, trivia, closers that close nothing and white space between
    /// top-level elements are left out. Nothing is resolved: an `<import>` is an element.
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
        let mut json = String::from("[");
        let mut first = true;
        let mut walk = Walk::new(self);
        while let Some(step) = walk.next() {
            match step {
                Step::Enter(node) => {
                    separate(&mut json, &mut first);
                    json.push_str("{\"tag\":");
                    quote(&mut json, node.tag().as_str());
                    json.push_str(",\"attrs\":[");
                    let mut first_attribute = true;
                    for attribute in node.attributes() {
                        separate(&mut json, &mut first_attribute);
                        json.push('[');
                        quote(&mut json, attribute.name());
                        json.push(',');
                        quote(&mut json, &attribute.value());
                        json.push(']');
                    }
                    json.push_str("],\"children\":[");
                    first = true;
                }
                Step::Leave => {
                    json.push_str("]}");
                    first = false;
                }
                Step::Text(run) => {
                    let between_elements = walk.depth() == 0 && run.is_blank();
                    if !between_elements && run.pieces().next().is_some() {
                        separate(&mut json, &mut first);
                        json.push_str("{\"text\":");
                        quote(&mut json, &run.content());
                        json.push('}');
                    }
                }
                Step::Stray(_) => {}
            }
        }
        json.push(']');
        json
    }
}

fn separate(json: &mut String, first: &mut bool) {
    if !std::mem::take(first) {
        json.push(',');
    }
}

/// Appends a string of JSON.
fn quote(json: &mut String, text: &str) {
    json.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        let (plain, special) = rest.split_at(at);
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
        rest = characters.as_str();
    }
    json.push_str(rest);
    json.push('"');
}
