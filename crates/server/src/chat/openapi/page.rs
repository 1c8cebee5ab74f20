//! The document as a page without scripts and without other files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:3rem}
section{border-top:1px solid #8885;padding:.5rem 0}
h3 code{font-size:1.05em}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8883}
pre{overflow:auto;padding:.75rem;background:#8881}
.method{text-transform:uppercase;font-weight:600}
";

/// Returns the content security policy of the page: its own style and nothing else.
pub(super) fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
}

/// Returns the page of a document.
pub(super) fn render(document: &Value) -> String {
    let mut page = Page::default();
    page.text("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.text("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    page.text("<title>Logue HTTP interface</title><style>");
    page.text(STYLE);
    page.text("</style></head><body><main><h1>");
    page.escaped(&document["info"]["title"]);
    page.text(" ");
    page.escaped(&document["info"]["version"]);
    page.text("</h1><p>");
    page.escaped(&document["info"]["description"]);
    page.text(" <a href=\"openapi.json\">openapi.json</a></p>");
    let operations = operations(document);
    page.contents(&operations);
    let mut tag = None;
    for (method, path, operation) in &operations {
        if tag != Some(&operation["tags"][0]) {
            tag = Some(&operation["tags"][0]);
            page.text("<h2>");
            page.escaped(&operation["tags"][0]);
            page.text("</h2>");
        }
        page.operation(
            method,
            path,
            operation,
            &document["components"]["responses"],
        );
    }
    page.text("<h2>Schemas</h2>");
    for (name, schema) in document["components"]["schemas"]
        .as_object()
        .into_iter()
        .flatten()
    {
        page.text(&format!(
            "<section id=\"schema-{}\"><h3>{}</h3>",
            escape(name),
            escape(name)
        ));
        page.json(schema);
        page.text("</section>");
    }
    page.text("</main></body></html>\n");
    page.0
}

type Listed<'d> = (&'d str, &'d str, &'d Value);

fn operations(document: &Value) -> Vec<Listed<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let mut all: Vec<Listed<'_>> = Vec::new();
    for (path, item) in paths {
        let methods = item.as_object().into_iter().flatten();
        all.extend(methods.map(|(method, operation)| (method.as_str(), path.as_str(), operation)));
    }
    all
}

/// The text of a page.
#[derive(Default)]
struct Page(String);

impl Page {
    fn text(&mut self, html: &str) {
        self.0.push_str(html);
    }

    /// Adds a text of the document.
    fn escaped(&mut self, text: &Value) {
        let text = text.as_str().unwrap_or_default();
        self.0.push_str(&prose(text));
    }

    fn json(&mut self, value: &Value) {
        let text = format!("<pre>{}</pre>", escape(&format!("{value:#}")));
        self.text(&text);
    }

    fn contents(&mut self, operations: &[Listed<'_>]) {
        self.text("<nav><table>");
        for (method, path, operation) in operations {
            let id = escape(operation["operationId"].as_str().unwrap_or_default());
            let path = escape(path);
            self.text(&format!(
                "<tr><td class=\"method\">{method}</td><td><a href=\"#{id}\"><code>{path}</code>\
                 </a></td><td>"
            ));
            self.escaped(&operation["summary"]);
            self.text("</td></tr>");
        }
        self.text("</table></nav>");
    }

    fn operation(&mut self, method: &str, path: &str, operation: &Value, shared: &Value) {
        let id = escape(operation["operationId"].as_str().unwrap_or_default());
        self.text(&format!(
            "<section id=\"{id}\"><h3><span class=\"method\">{method}</span> <code>{}</code></h3><p>",
            escape(path)
        ));
        self.escaped(&operation["summary"]);
        self.text(". ");
        self.escaped(&operation["description"]);
        self.text("</p>");
        self.parameters(operation);
        if let Some(body) = operation.get("requestBody") {
            self.text("<h4>Body</h4>");
            self.schemas(&body["content"]);
        }
        self.text("<h4>Answers</h4><table>");
        let answers = operation["responses"].as_object();
        for (status, answer) in answers.into_iter().flatten() {
            let named = name_of(answer).map(|name| &shared[name]);
            let answer = named.unwrap_or(answer);
            self.text(&format!("<tr><td>{}</td><td>", escape(status)));
            self.escaped(&answer["description"]);
            if status.starts_with('2') {
                self.schemas(&answer["content"]);
            }
            self.text("</td></tr>");
        }
        self.text("</table></section>");
    }

    fn parameters(&mut self, operation: &Value) {
        let Some(parameters) = operation["parameters"].as_array() else {
            return;
        };
        self.text("<h4>Parameters</h4><table>");
        for parameter in parameters {
            let name = escape(parameter["name"].as_str().unwrap_or_default());
            let place = escape(parameter["in"].as_str().unwrap_or_default());
            self.text(&format!(
                "<tr><td><code>{name}</code></td><td>{place}</td><td>"
            ));
            self.escaped(&parameter["description"]);
            self.text("</td></tr>");
        }
        self.text("</table>");
    }

    fn schemas(&mut self, content: &Value) {
        for (kind, media) in content.as_object().into_iter().flatten() {
            self.text(&format!("<p><code>{}</code></p>", escape(kind)));
            let schema = &media["schema"];
            let named = schema["$ref"]
                .as_str()
                .and_then(|name| name.rsplit('/').next());
            match named {
                Some(name) => {
                    let name = escape(name);
                    self.text(&format!("<p><a href=\"#schema-{name}\">{name}</a></p>"));
                }
                None => self.json(schema),
            }
        }
    }
}

/// Returns the name of a reference.
fn name_of(reference: &Value) -> Option<&str> {
    reference["$ref"].as_str()?.rsplit('/').next()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Escapes a text and marks the parts between backquotes as code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        let part = escape(part);
        if at % 2 == 1 {
            html.push_str(&format!("<code>{part}</code>"));
        } else {
            html.push_str(&part);
        }
    }
    html
}
