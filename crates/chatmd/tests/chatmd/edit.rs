//! An edit changes the node that it names and nothing else.

use chatmd::edit::{EditError, Edits, Replacement, apply};
use chatmd::{Child, ElementNode, Tag, Tree, parse, write};
use proptest::prelude::*;

/// Every node of a tree, in the order of the text.
fn nodes<'t>(tree: &'t Tree<'_>) -> Vec<ElementNode<'t>> {
    let mut found: Vec<ElementNode<'t>> = Vec::new();
    let mut waiting: Vec<ElementNode<'t>> = tree.elements().collect();
    while let Some(node) = waiting.pop() {
        found.push(node);
        waiting.extend(node.children().filter_map(|child| match child {
            Child::Node(inner) => Some(inner),
            Child::Text(_) => None,
        }));
    }
    found.sort_by_key(|node| node.span().start);
    found
}

/// A change of an attribute.
#[derive(Clone, Copy)]
enum To {
    Value(&'static str),
    Flag,
    Nothing,
}

#[test]
fn attributes_change_in_place() {
    let table = [
        ("<user/>", "id", To::Value("a"), "<user id=\"a\"/>"),
        (
            "<user>x</user>",
            "id",
            To::Value("a"),
            "<user id=\"a\">x</user>",
        ),
        (
            "<user id='a' >x</user >",
            "id",
            To::Value("b"),
            "<user id=\"b\" >x</user >",
        ),
        (
            "<user id=a>x</user>",
            "id",
            To::Value("b"),
            "<user id=\"b\">x</user>",
        ),
        ("<doc src=a/>", "local", To::Flag, "<doc src=a local/>"),
        (
            "<doc  local   src='a' />",
            "local",
            To::Value("yes"),
            "<doc  local=\"yes\"   src='a' />",
        ),
        (
            "<doc a='1' a='2'/>",
            "a",
            To::Value("3"),
            "<doc a='1' a=\"3\"/>",
        ),
        ("<doc a='1' b a='2'/>", "a", To::Nothing, "<doc b/>"),
        ("<doc a='1'b/>", "a", To::Nothing, "<doc b/>"),
        (
            "<doc b=c a='1' local/>",
            "a",
            To::Nothing,
            "<doc b=c local/>",
        ),
        ("<doc b a='1' = c/>", "a", To::Nothing, "<doc b c/>"),
        ("<doc b= />", "a", To::Value("1"), "<doc b a=\"1\" />"),
        ("<doc b='1'/>", "a", To::Nothing, "<doc b='1'/>"),
        (
            "<user/>",
            "id",
            To::Value("<&>\"'\\"),
            "<user id=\"&lt;&amp;&gt;&quot;'&#92;\"/>",
        ),
    ];
    for (text, name, to, expected) in table {
        let tree = parse(text);
        let node = tree.elements().next().unwrap();
        let mut edits = Edits::new(&tree).unwrap();
        match to {
            To::Value(value) => edits.set_attribute(node, name, value),
            To::Flag => edits.set_flag(node, name),
            To::Nothing => edits.remove_attribute(node, name),
        }
        .unwrap();
        let after = edits.apply().unwrap();
        assert_eq!(after, expected, "of {text:?}");
        let tree = parse(&after);
        let node = tree.elements().next().unwrap();
        match to {
            To::Value(value) => assert_eq!(node.value(name).as_deref(), Some(value)),
            To::Flag => assert!(node.attribute(name).is_some_and(|found| found.is_flag())),
            To::Nothing => assert!(!node.has(name)),
        }
    }
}

#[test]
fn elements_are_put_in_on_lines_of_their_own_or_exactly_there() {
    let text = "<tool name=\"a\"/>\n<user>see <doc src=\"b\" local/>, please</user>\n";
    let tree = parse(text);
    let [tool, user, doc] = nodes(&tree)[..] else {
        panic!("three nodes")
    };
    let mut edits = Edits::new(&tree).unwrap();
    edits
        .insert_before(tool, "<config model=\"m\"/>\n")
        .unwrap();
    edits
        .insert_after(user, &write::assistant("Yes.", None))
        .unwrap();
    edits.insert_before(doc, "<img src=\"i\"/>").unwrap();
    edits.insert_after(doc, " <doc src=\"c\"/> ").unwrap();
    edits.set_flag(doc, "strip").unwrap();
    insta::assert_snapshot!(edits.apply().unwrap(), @r#"
    <config model="m"/>
    <tool name="a"/>
    <user>see <img src="i"/><doc src="b" local strip/><doc src="c"/>, please</user>
    <assistant>
    RAW|Yes.|RAW</assistant>
    "#);

    let mut edits = Edits::new(&tree).unwrap();
    edits.remove(tool).unwrap();
    edits.replace(doc, "<agent src=\"d\"/>").unwrap();
    assert_eq!(
        edits.apply().unwrap(),
        "<user>see <agent src=\"d\"/>, please</user>\n"
    );
}

#[test]
fn what_is_removed_does_not_make_markup_of_its_neighbours() {
    for (text, said) in [
        ("<user>RAW<doc src=\"a\"/>|x|RAW</user>", "RAW|x|RAW"),
        (
            "<user>R<doc src=\"a\"/>A<doc src=\"a\"/>W|x</user>",
            "RAW|x",
        ),
        ("<user></<doc src=\"a\"/>user> x</user>", "</user> x"),
        ("<user><!-<doc src=\"a\"/>- x --></user>", "<!-- x -->"),
    ] {
        let tree = parse(text);
        let mut edits = Edits::new(&tree).unwrap();
        for node in nodes(&tree).into_iter().skip(1) {
            edits.remove(node).unwrap();
        }
        let after = edits.apply().unwrap();
        assert_eq!(
            parse(&after).outline(),
            format!("user\n  {said:?}\n"),
            "{after}"
        );
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let broken = parse("<user>x</assistant>");
    assert!(matches!(Edits::new(&broken), Err(EditError::Malformed(_))));

    let tree = parse("<user>x <doc src=\"a\"/></user>");
    let other = parse("<user/>");
    let [user, doc] = nodes(&tree)[..] else {
        panic!("two nodes")
    };
    let mut edits = Edits::new(&tree).unwrap();
    let foreign = other.elements().next().unwrap();
    assert_eq!(edits.remove(foreign), Err(EditError::OtherTree));
    assert_eq!(
        edits.set_flag(user, "a b"),
        Err(EditError::InvalidName("a b".to_owned()))
    );
    assert_eq!(
        edits.set_content(doc, "x"),
        Err(EditError::NoContent(Tag::Doc))
    );
    for bad in [
        "",
        " ",
        "text",
        "<user>",
        "</user>",
        "<user/> x",
        "<!-- -->",
        "<doc src=\"",
        "\u{FEFF}<user/>",
    ] {
        let refused = edits.replace(user, bad);
        assert!(matches!(refused, Err(EditError::NotElements(_))), "{bad:?}");
    }
    assert!(edits.replacements().is_empty());

    edits.set_content(user, "y").unwrap();
    edits.set_flag(doc, "local").unwrap();
    assert!(matches!(edits.apply(), Err(EditError::Overlap(..))));

    let change = |start, end| Replacement::new(start..end, String::new());
    assert!(matches!(
        apply("é", vec![change(0, 1)]),
        Err(EditError::OutOfText(_))
    ));
    assert!(matches!(
        apply("é", vec![change(2, 3)]),
        Err(EditError::OutOfText(_))
    ));
}

/// Documents with elements in all kinds of text.
fn document() -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec![
        "",
        "text",
        "a <b",
        "a > b",
        " ",
        "\n",
        "RAW|<user>|RAW",
        "<!-- <doc> -->",
        "RAW",
        "|",
        "<",
        "| ",
        "</",
        "user>",
        "W|",
        "!--",
    ]);
    let tag = prop::sample::select(vec![
        "<doc src='a b' local/>",
        "<doc src=a />",
        "<img  src=\"&lt;\"/>",
        "<agent src=\"a\" , x= >hi <doc src=\"b\"/></agent>",
        "<doc src=\"c\"></doc>",
    ]);
    let content = prop::collection::vec((text, tag), 0..4).prop_map(|parts| {
        parts
            .into_iter()
            .map(|(text, tag)| [text, tag].concat())
            .collect::<String>()
    });
    prop::collection::vec(content, 1..4).prop_map(|contents| {
        contents
            .iter()
            .flat_map(|content| ["<user id=u>", content, "</user>\n<tool name=\"t\"/>"])
            .collect()
    })
}

/// The tag and attributes of an element, and whether it was changed.
fn described(text: &str) -> Vec<String> {
    let tree = parse(text);
    nodes(&tree)
        .into_iter()
        .map(|node| {
            let attributes: Vec<String> = node
                .attributes()
                .map(|found| format!("{}={:?}", found.name(), found.value()))
                .collect();
            format!("{} {}", node.tag(), attributes.join(" "))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]

    #[test]
    fn a_value_reads_back_and_no_other_node_changes(
        text in document(), pick in any::<prop::sample::Index>(), value in any::<String>(),
        name in prop::sample::select(vec!["src", "id", "local", "new"])
    ) {
        let tree = parse(&text);
        if tree.has_errors() {
            return Ok(());
        }
        let found = nodes(&tree);
        let index = pick.index(found.len());
        let mut edits = Edits::new(&tree).unwrap();
        edits.set_attribute(found[index], name, &value).unwrap();
        let after = edits.apply().unwrap();
        let opener = found[index].opener();
        prop_assert!(after.starts_with(&text[..opener.start]));
        prop_assert!(after.ends_with(&text[opener.end..]));
        let new = parse(&after);
        prop_assert!(!new.has_errors(), "{after}");
        prop_assert_eq!(nodes(&new)[index].value(name), Some(value.into()));
        let (mut before, mut now) = (described(&text), described(&after));
        before.remove(index);
        now.remove(index);
        prop_assert_eq!(before, now);
    }

    #[test]
    fn content_reads_back_and_what_stands_around_stays(
        text in document(), pick in any::<prop::sample::Index>(), payload in any::<String>()
    ) {
        let tree = parse(&text);
        if tree.has_errors() {
            return Ok(());
        }
        let found: Vec<_> = nodes(&tree)
            .into_iter()
            .filter(|node| !node.tag().is_stub())
            .collect();
        let node = found[pick.index(found.len())];
        let mut edits = Edits::new(&tree).unwrap();
        edits.set_content(node, &payload).unwrap();
        let after = edits.apply().unwrap();
        let closer = node.closer().unwrap();
        prop_assert!(after.starts_with(&text[..node.opener().end]));
        prop_assert!(after.ends_with(&text[closer.start..]));
        let new = parse(&after);
        prop_assert!(!new.has_errors(), "{after}");
        let now = nodes(&new)
            .into_iter()
            .find(|now| now.span().start == node.span().start)
            .unwrap();
        let said: String = now.children().map(|child| match child {
            Child::Text(run) => run.content().into_owned(),
            Child::Node(inner) => inner.source().to_owned(),
        }).collect();
        prop_assert_eq!(said, payload);
    }

    #[test]
    fn removing_and_putting_in_leaves_the_other_nodes(
        text in document(), pick in any::<prop::sample::Index>()
    ) {
        let tree = parse(&text);
        if tree.has_errors() {
            return Ok(());
        }
        let found = nodes(&tree);
        let node = found[pick.index(found.len())];
        let outside = |other: &&ElementNode<'_>| {
            other.span().start < node.span().start || other.span().start >= node.span().end
        };
        let others: Vec<String> = found.iter().filter(outside).map(|node| node.opener().text(&text).unwrap().to_owned()).collect();
        let mut edits = Edits::new(&tree).unwrap();
        edits.remove(node).unwrap();
        let after = edits.apply().unwrap();
        let new = parse(&after);
        prop_assert!(!new.has_errors(), "{after}");
        let now: Vec<String> = nodes(&new).iter().map(|node| node.opener().text(&after).unwrap().to_owned()).collect();
        prop_assert_eq!(&now, &others, "{}", after);

        let mut edits = Edits::new(&tree).unwrap();
        edits.insert_before(node, "<img src=\"new\"/>").unwrap();
        edits.insert_after(node, "<img src=\"new\"/>").unwrap();
        let after = edits.apply().unwrap();
        let new = parse(&after);
        prop_assert!(!new.has_errors(), "{after}");
        prop_assert_eq!(nodes(&new).len(), found.len() + 2, "{}", after);
    }
}
