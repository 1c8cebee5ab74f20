//! The description of the interface, as a document and as a page.

use serde_json::Value;

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

/// Returns the codes of a status that the document lists for an operation.
fn codes<'d>(document: &'d Value, path: &str, method: &str, status: &str) -> Vec<&'d str> {
    let answer = &document["paths"][path][method]["responses"][status];
    let Some(name) = answer["$ref"].as_str() else {
        return Vec::new();
    };
    let answer = document.pointer(name.trim_start_matches('#')).unwrap();
    let schema = &answer["content"]["application/problem+json"]["schema"]["allOf"][1];
    let code = &schema["properties"]["code"];
    let codes = code["enum"].as_array().or(code["examples"].as_array());
    let codes = codes.unwrap().iter();
    codes.map(|code| code.as_str().unwrap()).collect()
}

/// A response that runs or waits is cancelled; only one of another store is not.
#[test]
fn the_document_lists_the_conflicts_of_operations() {
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    let document = served.get("/openapi.json").json();
    let moved = ["session_moved", "session_arriving"];
    for (method, path, further) in [
        ("post", "/v1/responses/{response}/cancel", None),
        ("post", "/v1/sessions/{session}/cancel", None),
        ("get", "/v1/signals/{signal}", None),
        ("delete", "/v1/responses/{response}", Some("session_busy")),
        ("delete", "/v1/sessions/{session}", Some("session_busy")),
    ] {
        let mut expected = moved.to_vec();
        expected.extend(further);
        let found = codes(&document, path, method, "409");
        assert_eq!(found, expected, "{method} {path}");
    }
    for path in [
        "/v1/sessions/{session}/retry",
        "/v1/sessions/{session}/send",
    ] {
        let found = codes(&document, path, "post", "409");
        assert!(found.starts_with(&moved), "{path}: {found:?}");
    }
}

/// Returns the described path that a request matches.
fn path_of<'d>(document: &'d serde_json::Value, path: &str) -> &'d str {
    let mut paths = document["paths"].as_object().unwrap().keys();
    let found = paths.find(|known| known.replace(['{', '}'], "") == path);
    found.unwrap()
}
