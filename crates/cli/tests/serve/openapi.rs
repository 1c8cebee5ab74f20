//! The description of the interface, as a document and as a page.

use crate::client::Served;
use crate::program::folder;

#[test]
fn the_document_and_its_page_describe_every_path() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let document = served.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let page = served.get("/docs");
    assert!(page.head.contains("default-src 'none'"), "{}", page.head);
    for foreign in [
        "<script", "src=", "http://", "https://", "@import", "style=",
    ] {
        assert!(
            !page.text.contains(foreign),
            "the page contains `{foreign}`"
        );
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        let text = format!("<code>{path}</code>");
        assert!(page.text.contains(&text), "the page has no {path}");
        for method in methods.as_object().unwrap().keys() {
            // A stream has no end, and the page has no file of this name.
            if path.ends_with("/events") || path == "/page/{file}" {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let answer = served.request(&method.to_ascii_uppercase(), &path, &[], "");
            let status = answer.status.to_string();
            let known = &document["paths"][path_of(&document, &path)][method]["responses"];
            assert!(
                known.get(&status).is_some(),
                "{method} {path}: {}",
                answer.head
            );
            let is_unknown = answer.text.contains("\"code\":\"path_not_found\"");
            assert!(!is_unknown, "{method} {path}: {}", answer.head);
            assert_ne!(answer.status, 405, "{method} {path}: {}", answer.head);
        }
    }
}

/// Returns the described path that a request matches.
fn path_of<'d>(document: &'d serde_json::Value, path: &str) -> &'d str {
    let mut paths = document["paths"].as_object().unwrap().keys();
    let found = paths.find(|known| known.replace(['{', '}'], "") == path);
    found.unwrap()
}
