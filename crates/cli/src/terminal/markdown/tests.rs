//! Tests of rendered Markdown.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use super::*;

const PLAIN: Look = Look {
    has_styles: false,
    has_links: false,
};
const STYLED: Look = Look {
    has_styles: true,
    has_links: false,
};

fn render(text: &str, width: usize, look: Look) -> String {
    let mut renderer = Renderer::new(look);
    let mut out = renderer.push(text, width);
    out.push_str(&renderer.finish(width));
    out
}

/// Removes the sequences for styles and links.
fn visible(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\u{1b}');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = match part.strip_prefix('[') {
            Some(_) => part.find('m').map(|end| end + 1),
            None if part.starts_with(']') => Some(part.len()),
            None => Some(1),
        };
        out.push_str(part.get(end.unwrap()..).unwrap());
    }
    out
}

#[test]
fn blocks_have_their_form() {
    let text = "# Title\n\nSome **bold** and *slanted* text with `code`,\n[a link](https://a.test/x).\n\n\
        - one\n- two of **them**\n  - nested\n\n1. first\n2. second\n\n> quoted\n> text\n\n\
        | a | b |\n|---|---|\n| 1 | two words |\n\n```rust\nlet x = 1; // one\n```\nend\n\n---\n";
    let expected = "Title\n\nSome bold and slanted text with code, a\nlink (https://a.test/x).\n\n\
        • one\n• two of them\n  • nested\n\n1. first\n2. second\n\n│ quoted text\n\n\
        a │ b\n──┼──────────\n1 │ two words\n\n╭─ rust\nlet x = 1; // one\n╰─\nend\n\n\
        ────────────────────────────────────────\n";
    assert_eq!(visible(&render(text, 40, STYLED)), expected);
}

#[test]
fn styles_are_those_of_the_marks() {
    let out = render("**b** *i* ~~s~~ `c`\n", 80, STYLED);
    let expected =
        "\u{1b}[1mb\u{1b}[0m \u{1b}[3mi\u{1b}[0m \u{1b}[9ms\u{1b}[0m \u{1b}[36mc\u{1b}[0m\n";
    assert_eq!(out, expected);
    let code = "```py\nif x: # no\n    s = \"a\" + 1\n```\n";
    let out = render(code, 80, STYLED);
    assert!(
        out.contains("\u{1b}[35mif\u{1b}[0m x: \u{1b}[2m# no\u{1b}[0m\n"),
        "{out:?}"
    );
    assert!(
        out.contains("s = \u{1b}[32m\"a\"\u{1b}[0m + \u{1b}[34m1\u{1b}[0m\n"),
        "{out:?}"
    );
}

#[test]
fn without_styles_the_marks_stay() {
    let text = "## Title\n\nA **bold** [link](https://a.test).\n";
    assert_eq!(render(text, 80, PLAIN), text);
}

#[test]
fn marks_that_close_nothing_are_text() {
    for text in [
        "2 * 3 * 4\n",
        "a_b_c and _x\n",
        "**open\n",
        "[no link] (x)\n",
        "`tick\n",
        "\\*no\\*\n",
    ] {
        let expected = text.replace('\\', "");
        assert_eq!(visible(&render(text, 80, STYLED)), expected);
    }
}

#[test]
fn links_are_hyperlinks_where_the_terminal_has_them() {
    let look = Look {
        has_links: true,
        ..STYLED
    };
    let out = render("[a](https://a.test/b) [b](javascript:x)\n", 80, look);
    let link = "\u{1b}]8;;https://a.test/b\u{1b}\\\u{1b}[4ma\u{1b}[0m\u{1b}]8;;\u{1b}\\";
    assert!(out.starts_with(link), "{out:?}");
    assert!(
        out.ends_with("\u{1b}[4mb\u{1b}[0m \u{1b}[2m(javascript:x)\u{1b}[0m\n"),
        "{out:?}"
    );
}

#[test]
fn wide_and_combining_characters_have_their_width() {
    let text = "漢字かな交じり文は空白なしで折り返される。それでも幅は正しい。 e\u{301}te\u{301} 👩\u{200d}👩\u{200d}👧 fin\n";
    for width in 40..60 {
        for line in render(text, width, PLAIN).lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn a_large_table_is_written_in_parts_with_their_heading() {
    let row = format!("| {} |\n", "x".repeat(60));
    let out = render(&format!("| a |\n|---|\n{}", row.repeat(2_000)), 80, PLAIN);
    let rows = |text: &str| out.lines().filter(|line| line.trim_end() == text).count();
    assert_eq!(rows(&"x".repeat(60)), 2_000);
    assert_eq!(rows("a"), 2);
}

#[test]
fn columns_are_aligned_and_shrink_to_their_longest_word() {
    let text = "| name | count | mid |\n|:---|---:|:-:|\n| one two three | 5 | x |\n| b | 12345 | `y` z |\n";
    let wide = "name          │ count │ mid\n──────────────┼───────┼────\none two three │     5 │  x\n\
        b             │ 12345 │ y z\n";
    assert_eq!(visible(&render(text, 60, STYLED)), wide);
    let narrow = "name  │ count │ mid\n──────┼───────┼────\none   │     5 │  x\ntwo   │       │ \n\
        three │       │ \nb     │ 12345 │ y z\n";
    assert_eq!(visible(&render(text, 19, STYLED)), narrow);
}

#[test]
fn a_table_whose_words_do_not_fit_is_a_block_for_each_row() {
    let long = "x".repeat(30);
    let text =
        format!("| key | value | note |\n|---|---|---|\n| {long} | {long} | two |\n| b | c | |\n");
    let expected = format!("key: {long}\nvalue: {long}\nnote: two\n────────\nkey: b\nvalue: c\n");
    assert_eq!(visible(&render(&text, 40, STYLED)), expected);
}

#[test]
fn rows_without_a_rule_are_text() {
    let text = "| not | a table |\n| of any | kind |\nend\n";
    assert_eq!(visible(&render(text, 40, STYLED)), text);
}

#[test]
fn words_come_when_they_are_complete() {
    let mut renderer = Renderer::new(STYLED);
    assert_eq!(renderer.push("two words and", 40), "two words");
    assert_eq!(renderer.push(" ", 40), " and");
    assert_eq!(renderer.push("**bo", 40), "");
    assert_eq!(renderer.push("ld** x", 40), " \u{1b}[1mbold\u{1b}[0m");
    assert_eq!(renderer.push("y 2 * 3 a_b [c] d", 40), " xy 2 * 3 a_b [c]");
    assert_eq!(renderer.push("\n- [x", 40), " d");
    assert_eq!(
        renderer.push("] done now", 40),
        "\n\u{1b}[2m☑ \u{1b}[0mdone"
    );
    assert_eq!(
        renderer.push("\n\n# A title #", 40),
        " now\n\n\u{1b}[1mA\u{1b}[0m\u{1b}[1m title\u{1b}[0m"
    );
    assert_eq!(renderer.push("\n漢字かな", 40), "\n漢字");
    assert_eq!(renderer.interrupt(), "\n");
    assert_eq!(renderer.push(" b", 40), "かな");
    assert_eq!(renderer.finish(40), " b\n");
}

#[test]
fn a_word_that_does_not_fit_begins_the_next_line() {
    let mut renderer = Renderer::new(STYLED);
    let out = renderer.push("many words that are longer than one line of two", 40);
    assert_eq!(out, "many words that are longer than one line\nof");
    // The line is narrower now.
    assert_eq!(renderer.push(" three", 10), " two");
    assert_eq!(renderer.finish(10), "\nthree\n");
}

#[test]
fn underlines_make_headings() {
    let text = "Title one\n=====\n\nTwo\n---\ntext\n\n---\n- a\n---\n";
    let rule = "─".repeat(40);
    let expected = format!("Title one\n═════════\n\nTwo\n───\ntext\n\n{rule}\n• a\n{rule}\n");
    assert_eq!(visible(&render(text, 40, STYLED)), expected);
    assert_eq!(render("Title\n====\n", 40, PLAIN), "Title\n====\n");
}

#[test]
fn marks_of_every_kind_are_read() {
    for (text, expected) in [
        (
            "a &amp; b &lt;c&gt; &#x41; &nosuch; &\n",
            "a & b <c> A &nosuch; &\n",
        ),
        ("&#27;[2J\n", "\\u{1b}[2J\n"),
        ("#### four ####\n", "four\n"),
        ("# C#\n", "C#\n"),
        ("#tag\n", "#tag\n"),
        (
            "hard  \nbreak\\\nhere<br>and<br />there\n",
            "hard\nbreak\nhere\nand\nthere\n",
        ),
        ("<https://a.test/x> and a<b\n", "https://a.test/x and a<b\n"),
        (
            "[a [b] c](https://e.test/x_(y)) z\n",
            "a [b] c (https://e.test/x_(y)) z\n",
        ),
        (
            "text[^1] and [see][ref].\n\n[^1]: The note.\n",
            "text[1] and see [ref].\n\n[1] The note.\n",
        ),
        (
            "- [ ] open\n- [x] done\n- [y] no\n",
            "☐ open\n☑ done\n• [y] no\n",
        ),
        (
            "1. a\n   - b\n     1. c\n2. d\n",
            "1. a\n   • b\n     1. c\n2. d\n",
        ),
        ("In\n1986. It was.\n", "In 1986. It was.\n"),
        ("> a\n>\n> b\nlazy\n>> c\n", "│ a\n│\n│ b lazy\n│ │ c\n"),
        ("**a *b*** and *c **d** e* ~f~\n", "a b and c d e f\n"),
        ("a ***b*** c**d\n", "a b c**d\n"),
    ] {
        assert_eq!(visible(&render(text, 60, STYLED)), expected, "{text}");
    }
}

#[test]
fn a_wide_line_of_code_continues_after_a_mark() {
    let text = "```sh\n  cargo run --release -- --input a.txt --output b.txt\n\tx\n```\n";
    let expected = "╭─ sh\n  cargo run --release -- --input a.txt \n  ↪ --output b.txt\n\tx\n╰─\n";
    assert_eq!(visible(&render(text, 40, STYLED)), expected);
    let text = "```\nlet file = BufReader::new(File::open(\"my-notes.txt\")?);\n```\n";
    let expected = "╭─\nlet file = BufReader::new(File::open(\n↪ \"my-notes.txt\")?);\n╰─\n";
    assert_eq!(visible(&render(text, 40, STYLED)), expected);
    let word = format!("```\n{}\n```\n", "x".repeat(50));
    let expected = format!("╭─\n{}\n↪ {}\n╰─\n", "x".repeat(40), "x".repeat(10));
    assert_eq!(visible(&render(&word, 40, STYLED)), expected);
}

fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("word ".to_owned()),
        Just("**bold** ".to_owned()),
        Just("*it* ".to_owned()),
        Just("`co de` ".to_owned()),
        Just("\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("- ".to_owned()),
        Just("1. ".to_owned()),
        Just("> ".to_owned()),
        Just("# ".to_owned()),
        Just("| a | b |\n|---|---|\n| c | d |\n".to_owned()),
        Just("```rs\nlet a = 1;\n```\n".to_owned()),
        Just("[x](http://y) ".to_owned()),
        Just("漢字 ".to_owned()),
        Just("*".to_owned()),
        Just("_".to_owned()),
        Just("---".to_owned()),
        Just("    ".to_owned()),
        Just("  \n".to_owned()),
        Just("漢字かな".to_owned()),
        Just("===\n".to_owned()),
        Just("- [x] ".to_owned()),
        Just("[^1]: ".to_owned()),
        Just("&amp;".to_owned()),
        Just("<br />".to_owned()),
        Just(" ## \n".to_owned()),
        "[ -~\n]{0,6}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Returns each character with the style in which it is shown.
///
/// Words of one style may have one mark or several.
fn shown(text: &str) -> Vec<(char, String)> {
    let mut shown = Vec::new();
    let mut style = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            shown.push((letter, style.clone()));
            continue;
        }
        let mut mark = String::new();
        for one in letters.by_ref() {
            mark.push(one);
            if one.is_ascii_alphabetic() {
                break;
            }
        }
        if mark == "[0m" {
            style.clear();
        } else {
            style.push_str(&mark);
        }
    }
    shown
}

proptest! {
    #[test]
    fn every_split_gives_the_same_lines(text in markdown(), cuts in proptest::collection::vec(0..200_usize, 0..20)) {
        let whole = render(&text, 50, STYLED);
        let mut renderer = Renderer::new(STYLED);
        let mut out = String::new();
        let mut rest = text.as_str();
        for cut in cuts {
            let at = (0..=cut.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at));
            let (piece, after) = rest.split_at(at.unwrap_or(0));
            out.push_str(&renderer.push(piece, 50));
            rest = after;
        }
        out.push_str(&renderer.push(rest, 50));
        out.push_str(&renderer.finish(50));
        prop_assert_eq!(shown(&out), shown(&whole));
    }

    #[test]
    fn no_letter_but_that_of_a_task_is_lost(text in "[a-z0-9 *_`#>|\\[\\]()\n.-]{0,200}") {
        let letters = |text: &str| text.chars().filter(|one| one.is_ascii_alphabetic() && *one != 'x').collect::<String>();
        prop_assert_eq!(letters(&visible(&render(&text, 60, STYLED))), letters(&text));
    }
}
