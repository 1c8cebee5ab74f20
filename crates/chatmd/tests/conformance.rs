//! Runs cases of other implementations where they are at hand: the folder that `LOGUE_SHARED`
//! names, or `shared` beside the repository. Without it there is nothing to run.

use std::path::PathBuf;

use chatmd::{Child, Node, Tag, parse};
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    let folder = std::env::var_os("LOGUE_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let Ok(text) = std::fs::read_to_string(folder.join("fixtures/chatmd/cases.jsonl")) else {
        eprintln!("no cases in {}", folder.display());
        return Vec::new();
    };
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn node(node: Node<'_>) -> Value {
    let attrs: Vec<Value> = node
        .attributes()
        .map(|attribute| {
            let value = (!attribute.is_flag()).then(|| attribute.value());
            json!([attribute.name(), value])
        })
        .collect();
    let children: Vec<Value> = node.children().map(child).collect();
    json!({"tag": node.tag().as_str(), "attrs": attrs, "children": children})
}

fn child(child: Child<'_>) -> Value {
    match child {
        Child::Node(inner) => node(inner),
        Child::Text(run) => json!({"text": run.content()}),
    }
}

/// Whether an expected tree holds only elements of the language that is read here.
fn is_ours(tree: &Value) -> bool {
    match tree {
        Value::Array(items) => items.iter().all(is_ours),
        Value::Object(object) => {
            let known = object
                .get("tag")
                .is_none_or(|tag| Tag::parse(tag.as_str().unwrap()).is_some());
            known && object.get("children").is_none_or(is_ours)
        }
        _ => true,
    }
}

/// Values are compared after the backslash before a quote is gone.
fn without_backslashes(value: &Value) -> Value {
    let text = value.to_string();
    serde_json::from_str(&text.replace("\\\\\\\"", "\\\"").replace("\\\\'", "'")).unwrap()
}

#[test]
fn raw_trees_match_the_cases() {
    let mut failures = Vec::new();
    let mut passed = 0;
    for case in cases() {
        if case["layer"] != "ast" || case["free"] == true {
            continue;
        }
        let mut expect = &case["expect"];
        if !case["expect_seed"].is_null() && !is_ours(&expect["tree"]) {
            expect = &case["expect_seed"];
        }
        let input = case["input"].as_str().unwrap();
        let tree = parse(input);
        assert_eq!(tree.print(), input);
        let found: Value = tree.children().map(child).collect();
        let agrees = if expect["ok"] == true {
            let wanted = if case["backslash_decoded"] == true {
                without_backslashes(&expect["tree"])
            } else {
                expect["tree"].clone()
            };
            !tree.has_errors() && found == wanted
        } else {
            tree.has_errors()
        };
        if agrees {
            passed += 1;
        } else {
            failures.push(format!(
                "{}: {input:?}\n  wanted {expect}\n  found  {found}\n  {:?}",
                case["name"],
                tree.diagnostics()
            ));
        }
    }
    eprintln!("{passed} passed, {} failed", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
