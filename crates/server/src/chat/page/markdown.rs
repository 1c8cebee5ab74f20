//! Markdown of messages as nodes, so that a page never interprets text as HTML.

use axum::body::Bytes;
use axum::{Extension, Json};
use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, Options, Parser, Tag, TagEnd, TextMergeWithOffset,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::access::{Caller, TokenScope};
use super::super::api::{body, require};
use super::super::problem::Problem;
use super::nodes::NodeTree;

/// The longest text that is read as Markdown, in bytes.
///
/// A longer one is shown without formatting.
const MAX_TEXT: usize = 1 << 20;

/// The longest address of a link, in bytes.
const MAX_LINK: usize = 2_048;

/// The schemes of links.
const SCHEMES: [&str; 3] = ["http", "https", "mailto"];

/// The types of images that a message may contain as data.
const PICTURES: [&str; 4] = ["png", "jpeg", "gif", "webp"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkdownBody {
    text: String,
}

/// `POST /v1/markdown`: the nodes of a text.
pub(crate) async fn render(
    Extension(caller): Extension<Caller>,
    bytes: Bytes,
) -> Result<Json<Value>, Problem> {
    require(&caller, TokenScope::Read)?;
    let request: MarkdownBody = body(&bytes)?;
    Ok(Json(json!({ "nodes": nodes_of(&request.text) })))
}

/// Returns the nodes of a text.
pub(super) fn nodes_of(text: &str) -> Vec<Value> {
    if text.len() > MAX_TEXT {
        return vec![json!({"tag": "pre", "children": [text]})];
    }
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let mut writer = MarkdownWriter::new();
    let events = Parser::new_ext(text, options).into_offset_iter();
    let mut end = 0;
    for (event, range) in TextMergeWithOffset::new(events) {
        if writer.tree.is_full() {
            let rest = text.get(end.max(range.start)..).unwrap_or_default();
            let mut nodes = writer.tree.finish();
            nodes.push(json!({"tag": "pre", "children": [rest]}));
            return nodes;
        }
        end = end.max(range.start);
        writer.event(event);
    }
    writer.tree.finish()
}

/// Writes the events of a parser into a tree.
struct MarkdownWriter {
    tree: NodeTree,
    /// The number of open links, inside which addresses stay text.
    links: usize,
    /// Whether the text is code.
    is_code: bool,
    alignments: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl MarkdownWriter {
    fn new() -> Self {
        Self {
            tree: NodeTree::new(),
            links: 0,
            is_code: false,
            alignments: Vec::new(),
            column: 0,
            is_head: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code || self.links > 0 => self.tree.text(&text),
            Event::Text(text) => self.linked_text(&text),
            Event::Code(text) => {
                self.tree.open("code", Value::Null);
                self.tree.text(&text);
                self.tree.close();
            }
            // HTML is text like any other, and formulas have no elements.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => self.tree.text(&text),
            Event::FootnoteReference(name) => {
                self.tree.open("sup", Value::Null);
                self.tree.text(&format!("[{name}]"));
                self.tree.close();
            }
            Event::SoftBreak => self.tree.text("\n"),
            Event::HardBreak => self.tree.leaf("br", Value::Null),
            Event::Rule => self.tree.leaf("hr", Value::Null),
            Event::TaskListMarker(is_done) => {
                self.tree.leaf("task", json!({ "done": is_done }));
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.tree.open("p", Value::Null),
            Tag::Heading { level, .. } => {
                let tags = ["h1", "h2", "h3", "h4", "h5", "h6"];
                let tag = tags.get(level as usize - 1).copied().unwrap_or("h6");
                self.tree.open(tag, Value::Null);
            }
            Tag::BlockQuote(_) => self.tree.open("blockquote", Value::Null),
            Tag::CodeBlock(kind) => {
                self.is_code = true;
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split_whitespace().next(),
                    CodeBlockKind::Indented => None,
                };
                let attributes = language.map(|language| json!({ "language": language }));
                self.tree.open("pre", attributes.unwrap_or_default());
            }
            Tag::List(Some(1)) => self.tree.open("ol", Value::Null),
            Tag::List(Some(start)) => self.tree.open("ol", json!({ "start": start })),
            Tag::List(None) => self.tree.open("ul", Value::Null),
            Tag::Item => self.tree.open("li", Value::Null),
            Tag::FootnoteDefinition(name) => {
                self.tree.open("footnote", json!({ "name": &*name }));
            }
            Tag::Table(alignments) => {
                self.alignments = alignments;
                self.tree.open("table", Value::Null);
            }
            Tag::TableHead => {
                (self.is_head, self.column) = (true, 0);
                self.tree.open("tr", Value::Null);
            }
            Tag::TableRow => {
                (self.is_head, self.column) = (false, 0);
                self.tree.open("tr", Value::Null);
            }
            Tag::TableCell => {
                let align = match self.alignments.get(self.column) {
                    Some(Alignment::Center) => json!({"align": "center"}),
                    Some(Alignment::Right) => json!({"align": "right"}),
                    _ => Value::Null,
                };
                self.column += 1;
                self.tree
                    .open(if self.is_head { "th" } else { "td" }, align);
            }
            Tag::Emphasis => self.tree.open("em", Value::Null),
            Tag::Strong => self.tree.open("strong", Value::Null),
            Tag::Strikethrough => self.tree.open("del", Value::Null),
            Tag::Image { dest_url, .. } if is_picture(&dest_url) => {
                self.links += 1;
                self.tree.open("img", json!({ "src": &*dest_url }));
            }
            // An image elsewhere could report to its server what the model has read.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open_link(&dest_url);
            }
            _ => self.tree.open_nothing(),
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::CodeBlock => self.is_code = false,
            TagEnd::Link | TagEnd::Image => self.links = self.links.saturating_sub(1),
            _ => {}
        }
        self.tree.close();
    }

    /// Opens a link, or nothing if its address may not be opened.
    fn open_link(&mut self, address: &str) {
        self.links += 1;
        if self.links == 1 && is_link(address) {
            self.tree.open("a", json!({ "href": address }));
        } else {
            self.tree.open_nothing();
        }
    }

    /// Adds a text whose addresses become links.
    fn linked_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, address, after)) = next_address(rest) {
            self.tree.text(before);
            self.tree.open("a", json!({ "href": address }));
            self.tree.text(address);
            self.tree.close();
            rest = after;
        }
        self.tree.text(rest);
    }
}

/// Returns the first address in a text, with the text before and after it.
fn next_address(text: &str) -> Option<(&str, &str, &str)> {
    let at = ["https://", "http://"]
        .iter()
        .filter_map(|scheme| text.find(scheme))
        .min()?;
    let (before, rest) = text.split_at(at);
    let end = rest.find(|c: char| c.is_whitespace() || c.is_control() || "<>\"`|".contains(c));
    let address = rest.get(..end.unwrap_or(rest.len()))?;
    let address =
        address.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '*', '_']);
    let name = address.split_once("://").map_or("", |(_, name)| name);
    if name.is_empty() || !is_link(address) {
        return None;
    }
    Some((before, address, rest.get(address.len()..)?))
}

/// Returns whether an address may be opened from a message.
fn is_link(address: &str) -> bool {
    let scheme = address.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_known = SCHEMES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(scheme));
    is_known && address.len() <= MAX_LINK && !address.chars().any(char::is_control)
}

/// Returns whether an address contains an image as data.
fn is_picture(address: &str) -> bool {
    let rest = address.strip_prefix("data:image/");
    let kind = rest.and_then(|rest| rest.split_once(";base64,"));
    kind.is_some_and(|(kind, data)| {
        let is_base64 = |c: u8| c.is_ascii_alphanumeric() || b"+/=".contains(&c);
        PICTURES.contains(&kind) && data.bytes().all(is_base64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(nodes: &[Value]) -> String {
        let texts = nodes.iter().map(|node| match node {
            Value::String(text) => text.clone(),
            node => text_of(node["children"].as_array().map_or(&[], Vec::as_slice)),
        });
        texts.collect()
    }

    #[test]
    fn html_is_text() {
        let text = "<script>alert(1)</script>\n\na <img src=x onerror=alert(1)> b <b>c</b>";
        let nodes = nodes_of(text);
        let json = Value::Array(nodes.clone()).to_string();
        assert!(
            !json.contains("\"tag\":\"img\"") && !json.contains("script\":"),
            "{json}"
        );
        let shown = text_of(&nodes);
        assert!(shown.contains("<script>alert(1)</script>"), "{shown}");
        assert!(shown.contains("<img src=x onerror=alert(1)>"), "{shown}");
    }

    #[test]
    fn only_harmless_schemes_are_links() {
        let cases = [
            ("[a](https://x.example)", true),
            ("[a](HTTP://x.example)", true),
            ("[a](mailto:a@x.example)", true),
            ("<https://x.example>", true),
            ("see https://x.example/a_b.", true),
            ("![a](https://x.example/?q=secret)", true),
            ("[a](javascript:alert(1))", false),
            ("[a](java&#115;cript:alert(1))", false),
            ("[a](data:text/html,x)", false),
            ("[a](//x.example)", false),
            ("[a](/v1/logout)", false),
            ("[a](#x)", false),
            ("`https://x.example`", false),
        ];
        for (text, expected) in cases {
            let json = Value::Array(nodes_of(text)).to_string();
            assert_eq!(json.contains("\"href\""), expected, "{text}: {json}");
            assert!(!json.contains("\"src\""), "{text}: {json}");
        }
    }

    #[test]
    fn only_pictures_as_data_are_shown() {
        let shown = |address: &str| {
            let text = format!("![a]({address})");
            Value::Array(nodes_of(&text))
                .to_string()
                .contains("\"tag\":\"img\"")
        };
        assert!(shown("data:image/png;base64,iVBORw0KGgo="));
        assert!(!shown("data:image/svg+xml;base64,iVBORw0KGgo="));
        assert!(!shown("data:image/png;base64,\"x"));
        assert!(!shown("https://x.example/a.png"));
        assert!(!shown("a.png"));
    }

    #[test]
    fn blocks_of_github_are_read() {
        let text = "| a | b |\n|---|--:|\n| 1 | ~~2~~ |\n\n- [x] done[^n]\n\n3. c\n\n[^n]: note";
        let json = Value::Array(nodes_of(text)).to_string();
        for part in [
            r#""tag":"table""#,
            r#"{"tag":"td","align":"right""#,
            r#""tag":"del""#,
            r#"{"tag":"task","done":true}"#,
            r#"{"tag":"ol","start":3"#,
            r#"{"tag":"footnote","name":"n""#,
        ] {
            assert!(json.contains(part), "{part} not in {json}");
        }
    }

    #[test]
    fn depth_and_size_are_bounded() {
        fn depth(node: &Value) -> usize {
            let children = node["children"].as_array();
            1 + children
                .into_iter()
                .flatten()
                .map(depth)
                .max()
                .unwrap_or_default()
        }
        let deep = format!("{} text", ">".repeat(5_000));
        let nodes = nodes_of(&deep);
        assert!(nodes.iter().map(depth).max().unwrap_or_default() < 30);
        assert_eq!(text_of(&nodes).trim(), "text");
        let wide = "*a* ".repeat(30_000);
        let nodes = nodes_of(&wide);
        let count = Value::Array(nodes.clone())
            .to_string()
            .matches("\"tag\"")
            .count();
        assert!(count <= super::super::nodes::MAX_NODES + 2, "{count}");
        assert!(text_of(&nodes).matches('a').count() >= 30_000);
    }
}
