//! ChatMD: whoever lays out, repairs or edits a text changes what was meant to be changed alone.

use chatmd::edit::Edits;
use chatmd::{Document, MemoryWorld, Tag, Tree, evaluate, format, parse, repair};
use serde_json::{Value, json};

use crate::input::Input;

/// A text that is laid out says what it said, and is not laid out again. A repaired text is not
/// repaired again, and has no errors where none remained. A changed attribute or content of one
/// element is read back, and everything else is as it was.
///
/// The first byte says which element is edited, the first line behind it what it is given; the rest
/// is the text.
pub fn chatmd_edit(data: &[u8]) {
    let mut input = Input::new(data);
    let which = usize::from(input.byte());
    let value = String::from_utf8_lossy(input.line()).into_owned();
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let tree = parse(&text);
    laid_out(&tree);
    repaired(&text);
    edited(&tree, which, &value);
}

fn laid_out(tree: &Tree<'_>) {
    let text = tree.source();
    let Ok(once) = format(text) else { return };
    assert_eq!(format(&once).as_deref(), Ok(&*once), "{text:?}");
    let again = parse(&once);
    assert_eq!(said(tree), said(&again), "{text:?}");
    let messages = |tree: &Tree<'_>| {
        let (document, _) = Document::from_tree(tree);
        evaluate(&document, &mut MemoryWorld::new()).messages
    };
    assert_eq!(messages(tree), messages(&again), "{text:?}");
}

/// The tree as JSON, without the white space that a declaration may hold.
fn said(tree: &Tree<'_>) -> Option<Value> {
    // What is nested more deeply than the reader of JSON likes is not compared.
    let mut said = serde_json::from_str(&tree.to_json()).ok()?;
    without_blanks(&mut said);
    Some(said)
}

fn without_blanks(list: &mut Value) {
    for item in list.as_array_mut().into_iter().flatten() {
        let tag = item["tag"].as_str().and_then(Tag::parse);
        let Some(children) = item.get_mut("children") else {
            continue;
        };
        without_blanks(children);
        let is_blank = |child: &Value| {
            let text = child["text"].as_str();
            text.is_some_and(|text| {
                text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}'])
                    .is_empty()
            })
        };
        if tag.is_some_and(Tag::is_stub)
            && let Some(children) = children.as_array_mut()
            && children.iter().all(is_blank)
        {
            children.clear();
        }
    }
}

fn repaired(text: &str) {
    let repair = repair(text);
    assert_eq!(repair.changes.is_empty(), repair.text == text, "{text:?}");
    for change in &repair.changes {
        assert!(change.span.text(text).is_some(), "{change:?} of {text:?}");
    }
    for found in &repair.remaining {
        assert!(found.primary.text(text).is_some(), "{found:?} of {text:?}");
    }
    let again = chatmd::repair(&repair.text);
    assert_eq!(again.changes, [], "{text:?} became {:?}", repair.text);
    if repair.remaining.is_empty() {
        assert!(
            !parse(&repair.text).has_errors(),
            "{text:?} became {:?}",
            repair.text
        );
    }
}

fn edited(tree: &Tree<'_>, which: usize, value: &str) {
    let Ok(mut edits) = Edits::new(tree) else {
        return;
    };
    let count = tree.elements().count();
    let Some(index) = which.checked_rem(count) else {
        return;
    };
    let Some(mut wanted) = said(tree) else { return };
    let Some(node) = tree.elements().nth(index) else {
        return;
    };
    let set = edits.set_attribute(node, "extra", value);
    assert_eq!(set, Ok(()));
    let element = &mut wanted[index];
    let attributes = element["attrs"].as_array_mut();
    if let Some(attributes) = attributes {
        let place = attributes.iter().rposition(|pair| pair[0] == "extra");
        match place {
            Some(place) => attributes[place] = json!(["extra", value]),
            None => attributes.push(json!(["extra", value])),
        }
    }
    if !node.tag().is_stub() {
        assert_eq!(edits.set_content(node, value), Ok(()));
        element["children"] = json!([{"text": value}]);
    }
    let text = match edits.apply() {
        Ok(text) => text,
        Err(error) => panic!("{error:?} for {:?}", tree.source()),
    };
    assert_eq!(said(&parse(&text)), Some(wanted), "{:?}", tree.source());
}
