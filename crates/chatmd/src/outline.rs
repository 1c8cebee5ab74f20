//! The tree as a compact text, for tests and bug reports.

use std::fmt::Write as _;

use crate::lexer::TokenKind;
use crate::tree::{Node, TextRun, Tree};

/// Levels that are shown by indentation; deeper ones are named by their number, so that the text
/// of a deep tree stays linear in its size.
const INDENTED: usize = 16;

impl Tree<'_> {
    /// One line for each element, `tag name="value" flag`, and each text, in quotes, indented by
    /// depth. White space between top-level elements is left out, comments and trivia are too.
    ///
    /// ```
    /// let tree = chatmd::parse("<!-- c --><tool name=\"rg\"/>\n<user>RAW|<b>|RAW</user>");
    /// assert_eq!(tree.outline(), "tool name=\"rg\"\nuser\n  \"<b>\"\n");
    /// ```
    pub fn outline(&self) -> String {
        let mut outline = String::new();
        let mut ends: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < self.slots().len() {
            while ends.last().is_some_and(|end| *end <= at) {
                ends.pop();
            }
            let limit = ends.last().copied().unwrap_or(self.slots().len());
            if let Some(node) = Node::at(self, at) {
                indent(&mut outline, ends.len());
                outline.push_str(node.tag().as_str());
                for attribute in node.attributes() {
                    outline.push(' ');
                    outline.push_str(attribute.name());
                    if !attribute.is_flag() {
                        // Writing to a string cannot fail.
                        let _ = write!(outline, "={:?}", attribute.value());
                    }
                }
                outline.push('\n');
                if let Some(slot) = self.slots().get(at) {
                    ends.push(slot.end());
                }
                at += 1;
            } else if let Some(run) = TextRun::at(self, at, limit) {
                let between_elements = ends.is_empty() && run.is_blank();
                if !between_elements && run.pieces().next().is_some() {
                    indent(&mut outline, ends.len());
                    let _ = writeln!(outline, "{:?}", run.content());
                }
                at = run.end();
            } else {
                if let Some(TokenKind::Stray(tag)) = self.slots().get(at).map(|slot| slot.kind) {
                    indent(&mut outline, ends.len());
                    let _ = writeln!(outline, "stray </{tag}>");
                }
                at += 1;
            }
        }
        outline
    }
}

fn indent(outline: &mut String, depth: usize) {
    for _ in 0..depth.min(INDENTED) {
        outline.push_str("  ");
    }
    if depth > INDENTED {
        let _ = write!(outline, "({depth}) ");
    }
}
