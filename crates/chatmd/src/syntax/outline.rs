//! Printing a tree as compact text, for tests and bug reports.

use std::fmt::Write as _;

use crate::syntax::tree::Tree;
use crate::syntax::walk::{Step, Walk};

/// Maximum depth that is shown by indentation.
///
/// Deeper levels are shown by number, so that the outline of a deep tree stays linear in its size.
const INDENTED: usize = 16;

impl Tree<'_> {
    /// Returns an outline with one line per element and text, indented by depth.
    ///
    /// An element is `tag name="value" flag`, a text is quoted. White space between top-level
    /// elements, comments and trivia are omitted.
    ///
    /// ```
    /// let tree = chatmd::parse("<!-- c --><tool name=\"rg\"/>\n<user>RAW|<b>|RAW</user>");
    /// assert_eq!(tree.outline(), "tool name=\"rg\"\nuser\n  \"<b>\"\n");
    /// ```
    pub fn outline(&self) -> String {
        let mut outline = String::new();
        let mut walk = Walk::new(self);
        loop {
            let depth = walk.depth();
            let Some(step) = walk.next() else {
                return outline;
            };
            match step {
                Step::Enter(node) => {
                    indent(&mut outline, depth);
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
                }
                Step::Text(run) => {
                    let between_elements = depth == 0 && run.is_blank();
                    if !between_elements && run.pieces().next().is_some() {
                        indent(&mut outline, depth);
                        let _ = writeln!(outline, "{:?}", run.content());
                    }
                }
                Step::Stray(tag) => {
                    indent(&mut outline, depth);
                    let _ = writeln!(outline, "stray </{tag}>");
                }
                Step::Leave => {}
            }
        }
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
