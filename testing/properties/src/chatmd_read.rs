//! ChatMD: any text is read, nothing of it is lost, and what is said of it has a place.

use chatmd::{Child, Document, ElementNode, MemoryWorld, Tree, check, evaluate, load, parse};
use logue_source::Diagnostic;

/// The tokens of any text tile it, its tree is sound and the same as JSON, every finding lies in
/// the text and says what to do, and so do those of the text as one that is imported.
pub fn chatmd_read(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let tree = parse(text);
    assert_tiles(&tree);
    assert_same_as_json(&tree);
    drop(tree.outline());
    assert_sound(&check(text), text.len());

    let (document, _) = Document::from_tree(&tree);
    let mut world = MemoryWorld::new().with("a.md", text).with("b.chatmd", text);
    drop(evaluate(&document, &mut world));

    // The text imports what it names, and is imported, inside a message and outside of one.
    let importing = "<import src=\"b.chatmd\"/><user><import src=\"a.md\"/></user>";
    for (name, text) in [("a.md", text), ("c.md", importing)] {
        let loaded = load(name, text, &mut world);
        let last = loaded.parts().last();
        let end = last.map_or(0, |part| part.base + part.text.len());
        assert_sound(loaded.diagnostics(), end);
        let map = loaded.source_map();
        for found in loaded.diagnostics() {
            assert!(map.locate(found.primary.start).is_some(), "{found:?}");
        }
        drop(evaluate(loaded.document(), &mut world));
    }
}

fn assert_tiles(tree: &Tree<'_>) {
    let mut at = 0;
    for token in tree.tokens() {
        assert!(
            token.span.start == at && !token.span.is_empty(),
            "{token:?}"
        );
        at = token.span.end;
    }
    assert_eq!(at, tree.source().len());
    assert_eq!(tree.print(), tree.source());
}

fn assert_sound(findings: &[Diagnostic], end: usize) {
    for found in findings {
        assert!(found.primary.start <= found.primary.end && found.primary.end <= end);
        for label in &found.labels {
            assert!(label.span.start <= label.span.end && label.span.end <= end);
        }
        assert!(!found.help.is_empty(), "{found:?}");
    }
}

/// The walk through the tree and the nodes of the tree see the same elements and texts.
fn assert_same_as_json(tree: &Tree<'_>) {
    // What is nested more deeply than the reader of JSON likes is not compared.
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&tree.to_json()) else {
        return;
    };
    let walked = list(tree.children());
    assert_eq!(json, walked, "{:?}", tree.source());
}

fn list<'t>(children: impl Iterator<Item = Child<'t>>) -> serde_json::Value {
    let json = |child| match child {
        Child::Node(inner) => node(inner),
        Child::Text(run) => serde_json::json!({"text": run.content()}),
    };
    children.map(json).collect()
}

fn node(node: ElementNode<'_>) -> serde_json::Value {
    let span = node.span();
    for place in [node.opener()].into_iter().chain(node.closer()) {
        assert!(span.start <= place.start && place.end <= span.end);
    }
    let attributes: Vec<_> = node
        .attributes()
        .map(|attribute| serde_json::json!([attribute.name(), attribute.value()]))
        .collect();
    let children = list(node.children());
    serde_json::json!({"tag": node.tag().as_str(), "attrs": attributes, "children": children})
}
