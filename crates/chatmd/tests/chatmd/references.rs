//! References of a document are found in every place.

use chatmd::{Document, ReferenceKind, parse};

#[test]
fn every_kind_is_found_in_order_with_its_place() {
    let text = "<import src=\"i1\"/>\
        <tool name=\"t\" agent=\"a1\" local/><tool name=\"u\" agent=\"https://a\"/>\
        <tool name=\"rg\" command=\"rg\"/>\
        <user>x <doc src=\"d1\" local/><img src=\"p1\"/>\
        <agent src=\"a2\" local>y <doc src=\"d2\"/></agent><import src=\"i2\"/></user>\
        <tool_call tool_call_id=\"c\" function_name=\"rg\"><doc src=\"d3\" local/></tool_call>\
        <tool_response tool_call_id=\"c\"><doc src=\"d4\" local/></tool_response>\
        <assistant><img src=\"p2\" local/><import src=\"no\"/> RAW|<doc src=\"no\"/>|RAW</assistant>\
        <doc src=\"no\" local/>";
    let tree = parse(text);
    let (document, _) = Document::from_tree(&tree);
    let found: Vec<_> = document
        .references()
        .map(|reference| {
            let named = format!("\"{}\"", reference.src);
            let place = reference.span.text(text).unwrap();
            assert!(place.contains(&named), "{place}");
            (reference.kind, reference.src, reference.local)
        })
        .collect();
    assert_eq!(
        found,
        [
            (ReferenceKind::Import, "i1", true),
            (ReferenceKind::AgentTool, "a1", true),
            (ReferenceKind::AgentTool, "https://a", false),
            (ReferenceKind::Document, "d1", true),
            (ReferenceKind::Image, "p1", false),
            (ReferenceKind::Agent, "a2", true),
            (ReferenceKind::Document, "d2", false),
            (ReferenceKind::Import, "i2", true),
            (ReferenceKind::Document, "d3", true),
            (ReferenceKind::Document, "d4", true),
            (ReferenceKind::Image, "p2", true),
        ]
    );
}

#[test]
fn what_names_nothing_is_left_out() {
    let tree = parse("<user><doc local/><img src=\"\"/></user><import/>");
    let (document, _) = Document::from_tree(&tree);
    assert_eq!(document.references().count(), 0);
}
