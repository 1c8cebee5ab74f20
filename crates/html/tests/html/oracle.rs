//! Comparison of the tokenizer and its table of names with html5ever.

use std::cell::RefCell;

use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token as Other, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use logue_html::{Token, tokens};
use proptest::prelude::*;

#[derive(Debug, PartialEq, Eq)]
enum Plain {
    Text(String),
    Start(String, Vec<(String, String)>, bool),
    End(String),
}

#[derive(Default)]
struct Sink(RefCell<Vec<Plain>>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Other, _line: u64) -> TokenSinkResult<()> {
        let mut found = self.0.borrow_mut();
        match token {
            Other::CharacterTokens(text) => push_text(&mut found, &text),
            Other::NullCharacterToken => push_text(&mut found, "\0"),
            Other::TagToken(tag) => {
                let name = tag.name.to_string();
                if tag.kind == TagKind::EndTag {
                    found.push(Plain::End(name));
                    return TokenSinkResult::Continue;
                }
                let attributes = tag
                    .attrs
                    .iter()
                    .map(|one| (one.name.local.to_string(), one.value.to_string()))
                    .collect();
                let raw = match name.as_str() {
                    "script" | "style" | "noscript" | "iframe" | "noembed" | "noframes" | "xmp" => {
                        TokenSinkResult::RawData(RawKind::Rawtext)
                    }
                    "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
                    "plaintext" => TokenSinkResult::Plaintext,
                    _ => TokenSinkResult::Continue,
                };
                found.push(Plain::Start(name, attributes, tag.self_closing));
                return raw;
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn push_text(found: &mut Vec<Plain>, text: &str) {
    if let Some(Plain::Text(before)) = found.last_mut() {
        before.push_str(text);
    } else if !text.is_empty() {
        found.push(Plain::Text(text.to_owned()));
    }
}

/// NUL is the one character that the two are free to treat differently.
fn same_nul(mut found: Vec<Plain>) -> Vec<Plain> {
    for one in &mut found {
        let (Plain::Text(text) | Plain::End(text) | Plain::Start(text, ..)) = one;
        *text = text.replace('\0', "\u{FFFD}");
    }
    found
}

fn theirs(html: &str) -> Vec<Plain> {
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(html.into());
    drop(tokenizer.feed(&queue));
    tokenizer.end();
    same_nul(tokenizer.sink.0.into_inner())
}

fn ours(html: &str) -> Vec<Plain> {
    let mut found = Vec::new();
    for token in tokens(html) {
        match token {
            Token::Text(text) => push_text(&mut found, &text),
            Token::Start(tag) => {
                let mut attributes: Vec<(String, String)> = Vec::new();
                for (name, value) in tag.attributes() {
                    if !attributes.iter().any(|(other, _)| *other == name) {
                        attributes.push((name.into_owned(), value.into_owned()));
                    }
                }
                let closing = tag.is_self_closing();
                found.push(Plain::Start(tag.name().into_owned(), attributes, closing));
            }
            Token::End(tag) => found.push(Plain::End(tag.name().into_owned())),
            _ => unreachable!(),
        }
    }
    same_nul(found)
}

#[test]
fn every_name_of_a_character_means_the_same() {
    let names = include_str!("../../data/entities.txt");
    for line in names.lines() {
        let name = line.split(' ').next().unwrap();
        for text in [
            format!("&{name};"),
            format!("&{name}"),
            format!("&{name}x"),
            format!("<a b='&{name};' c='&{name}' d='&{name}x' e='&{name}='>"),
        ] {
            assert_eq!(ours(&text), theirs(&text), "{text}");
        }
    }
    assert_eq!(names.lines().count(), 2125);
}

#[test]
fn numbers_mean_the_same() {
    for number in (0..0x200).chain(0xD7F0..0xE010).chain(0x10_FFF0..0x11_0010) {
        for text in [
            format!("&#{number};"),
            format!("&#x{number:X}"),
            format!("&#X{number:x}g"),
        ] {
            assert_eq!(ours(&text), theirs(&text), "{text}");
        }
    }
    for text in [
        "&#;",
        "&#x;",
        "&#",
        "&#99999999999999999999;",
        "&;",
        "&",
        "&&amp;",
    ] {
        assert_eq!(ours(text), theirs(text), "{text}");
    }
}

/// Pieces of which every state of the tokenizer is made.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<",
        ">",
        "/",
        "</",
        "!",
        "--",
        "<!--",
        "-->",
        "--!>",
        "->",
        "=",
        "\"",
        "'",
        " ",
        "\n",
        "\r",
        "\t",
        "a",
        "B",
        "&",
        "amp",
        ";",
        "#",
        "x41",
        "&lt",
        "&notit;",
        "?",
        "<!doctype html",
        "<p",
        "<A href",
        "</p>",
        "<br/>",
        "<script>",
        "</script",
        "</SCRIPT >",
        "<style>",
        "</style>",
        "<title>",
        "</title>",
        "<textarea>",
        "</textarea",
        "<plaintext>",
        "<![CDATA[",
        "]]>",
        "é",
        "\u{FEFF}",
        "\0",
        "-",
        "`",
        "\u{0C}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(1_000, 40_000)))]

    #[test]
    fn tokens_are_the_same(html in pieces()) {
        prop_assert_eq!(ours(&html), theirs(&html), "{:?}", html);
    }

    #[test]
    fn tokens_of_any_text_are_the_same(html in "\\PC{0,60}") {
        prop_assert_eq!(ours(&html), theirs(&html), "{:?}", html);
    }
}
