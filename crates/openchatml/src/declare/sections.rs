//! Tools that are described in words: a section of `# Tools` without a namespace in it.
//!
//! Harmony shows `python` so: its heading, then how to use it. There is nothing to check a call
//! against, but the tool is declared.

use logue_source::Span;

use super::{Declarations, DeclaredTool};

/// Follows the headings of a text.
#[derive(Default)]
pub(super) struct Sections {
    /// Whether the text is in `# Tools`.
    is_in_tools: bool,
    open: Option<Section>,
}

/// A section that may turn out to be a tool.
struct Section {
    name: String,
    heading: Span,
    /// Number of earlier declarations: a section with declarations of its own is not a tool.
    declared: usize,
}

impl Sections {
    /// The next line, from `start` to `end`.
    pub(super) fn line(&mut self, text: &str, start: usize, end: usize, found: &mut Declarations) {
        let line = text.get(start..end).unwrap_or_default().trim_end();
        if !line.starts_with('#') {
            return;
        }
        self.close(text, start, found);
        if let Some(title) = line.strip_prefix("# ") {
            self.is_in_tools = title.trim() == "Tools";
        } else if let Some(name) = line.strip_prefix("## ").map(str::trim)
            && self.is_in_tools
            && is_name(name)
        {
            self.open = Some(Section {
                name: name.to_owned(),
                heading: Span::new(start, start + line.len()),
                declared: found.declared(),
            });
        }
    }

    /// The end of a section.
    pub(super) fn close(&mut self, text: &str, end: usize, found: &mut Declarations) {
        let Some(section) = self.open.take() else {
            return;
        };
        let section_text = text.get(section.heading.end..end).unwrap_or_default();
        let section_text = section_text.trim();
        if section.declared == found.declared() && !section_text.is_empty() {
            found.add(DeclaredTool {
                name: section.name,
                description: Some(section_text.to_owned()),
                schema: None,
                span: section.heading,
            });
        }
    }
}

/// Returns whether a heading may name a tool. An empty section of functions does not.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name != "functions" && name.bytes().all(plain)
}
