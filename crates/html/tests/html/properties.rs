//! Properties of every page.

use logue_html::{HtmlOptions, decode, is_html, to_markdown, to_text};
use proptest::prelude::*;
use pulldown_cmark::{Event, Options as Extensions, Parser, Tag};

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<p>",
        "</p>",
        "<div>",
        "</div>",
        "<ul>",
        "</ul>",
        "<ol start=3>",
        "</ol>",
        "<li>",
        "</li>",
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<a href='x y'>",
        "</a>",
        "<code>",
        "</code>",
        "<pre>",
        "</pre>",
        "<table>",
        "</table>",
        "<tr>",
        "</tr>",
        "<td>",
        "</td>",
        "<th>",
        "<h2>",
        "</h2>",
        "<blockquote>",
        "</blockquote>",
        "<br>",
        "<hr>",
        "<img src=a alt='b'>",
        "<script>",
        "</script>",
        "<template>",
        "</template>",
        "<title>",
        "</title>",
        "<svg>",
        "</svg>",
        "<!--",
        "-->",
        " ",
        "\n",
        "word",
        "one two",
        "*",
        "_",
        "`",
        "#",
        "|",
        "-",
        "1.",
        ">",
        "&lt;",
        "&amp;",
        "[x](y)",
        "é",
        "\\",
        "<td colspan=3>",
        "~",
        "=",
        "!",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Characters of which Markdown makes structure, amid words and white space.
fn marked_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "#",
        "##",
        "-",
        "--",
        "---",
        "+",
        "*",
        "**",
        "_",
        "`",
        "```",
        "~",
        "~~~",
        ">",
        "<b>",
        "<",
        "1.",
        "1)",
        "12.",
        "|",
        "a|b",
        "-|-",
        ":-",
        "=",
        "==",
        "[",
        "]",
        "(",
        ")",
        "![x](y)",
        "[x]: y",
        "&amp;",
        "&",
        "\\",
        "a",
        "word",
        " ",
        "  ",
        "    ",
        "\n",
        "\t",
        "http://a.b",
        "<!--",
        "$",
        "!",
        "{",
        "^",
        "- [ ]",
        "[^1]",
    ]);
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

/// The text as HTML that means it, each line end a `<br>` or a space.
fn as_html(text: &str, breaks: bool) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    if breaks {
        escaped.replace('\n', "<br>")
    } else {
        escaped
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn extensions() -> Extensions {
    Extensions::ENABLE_TABLES | Extensions::ENABLE_STRIKETHROUGH
}

/// Text with marks that is not blank; assuming so in the test would reject too many cases.
fn filled_text() -> impl Strategy<Value = String> {
    marked_text().prop_filter("blank", |text| !text.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(500, 20_000)))]

    #[test]
    fn no_page_breaks_anything(html in pieces(), limit in 0_usize..200) {
        let options = HtmlOptions::new().with_output_bytes(limit).with_base("http://a/b");
        for found in [to_markdown(&html, &options), to_text(&html, &options)] {
            prop_assert!(found.text.len() <= limit);
        }
        let unbounded = to_markdown(&html, &HtmlOptions::default());
        prop_assert!(!unbounded.cut);
    }

    #[test]
    fn no_bytes_break_anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        is_html(&bytes);
        let text = decode(&bytes, None);
        to_markdown(&text, &HtmlOptions::default());
        to_text(&text, &HtmlOptions::default());
    }

    #[test]
    fn words_keep_their_order(
        parts in prop::collection::vec((pieces(), "[a-z]{3}"), 0..8),
    ) {
        // What may hide or quote words is left out, the rest is in any order and never closed.
        let mut html = String::new();
        let mut expected = Vec::new();
        for (number, (noise, word)) in parts.iter().enumerate() {
            let tags: String = noise
                .split_inclusive('>')
                .filter(|tag| tag.starts_with('<'))
                .filter(|tag| !["script", "template", "title", "svg", "!--", "img"].iter().any(|no| tag.contains(no)))
                .collect();
            let word = format!("{word}{number}x");
            html.push_str(&format!("{tags} {word} "));
            expected.push(word);
        }
        let text = to_text(&html, &HtmlOptions::default()).text;
        let found: Vec<&str> = words(&text).into_iter().filter(|word| word.ends_with('x')).collect();
        prop_assert_eq!(found, expected, "{}\n{}", html, text);
    }

    #[test]
    fn stripping_text_gives_the_text(text in marked_text()) {
        let stripped = to_text(&as_html(&text, false), &HtmlOptions::default()).text;
        prop_assert_eq!(stripped, words(&text).join(" "));
    }

    #[test]
    fn text_never_becomes_structure(text in marked_text(), breaks: bool) {
        let markdown = to_markdown(&as_html(&text, breaks), &HtmlOptions::default()).text;
        let mut read = String::new();
        for event in Parser::new_ext(&markdown, extensions()) {
            match event {
                Event::Text(text) => read.push_str(&text),
                Event::SoftBreak | Event::HardBreak => read.push(' '),
                Event::Start(Tag::Paragraph) | Event::End(_) => {}
                other => prop_assert!(false, "{other:?} in {markdown:?}"),
            }
        }
        prop_assert_eq!(words(&read), words(&text), "{:?}", markdown);
    }

    #[test]
    fn code_stays_as_it_is(text in "[`a \n|*<&\\\\#-]{1,30}") {
        let html = format!("<pre>\n{}</pre>", as_html(&text, false));
        let markdown = to_markdown(&html, &HtmlOptions::default()).text;
        let read: String = Parser::new_ext(&markdown, extensions())
            .filter_map(|event| match event {
                Event::Text(text) => Some(text.into_string()),
                _ => None,
            })
            .collect();
        prop_assert_eq!(read.trim_end(), text.trim_end(), "{:?}", markdown);
    }

    #[test]
    fn a_cell_never_becomes_two(cells in prop::collection::vec(filled_text(), 2..5)) {
        let cells_of_row: Vec<String> = cells.iter().map(|cell| as_html(cell, true)).collect();
        let row = format!("<td>{}", cells_of_row.join("<td>"));
        let markdown = to_markdown(&format!("<table><tr>{row}<tr>{row}</table>"), &HtmlOptions::default()).text;
        let read = Parser::new_ext(&markdown, extensions())
            .filter(|event| matches!(event, Event::Start(Tag::TableCell)))
            .count();
        prop_assert_eq!(read, 2 * cells.len(), "{}", markdown);
    }
}
