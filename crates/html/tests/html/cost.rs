//! Pages of one construct, repeated or nested.
//!
//! No test measures time: quadratic work on these pages would exceed any test timeout.

use logue_html::{HtmlOptions, to_markdown, to_text};

const BYTES: usize = 400_000;

fn read(html: &str) {
    let options = HtmlOptions::default();
    let found = to_markdown(html, &options);
    assert!(found.text.len() <= options.output_bytes);
    assert!(to_text(html, &options).text.len() <= options.output_bytes);
}

#[test]
fn two_hundred_thousand_elements_inside_each_other() {
    for name in [
        "div",
        "blockquote",
        "ul",
        "li",
        "ul><li",
        "ol><li><p",
        "b",
        "b><i",
        "a href=x",
        "code",
        "pre",
        "table",
        "table><tr><td",
        "template",
        "svg",
        "math",
        "h1",
        "p",
        "span",
        "x",
    ] {
        let open = format!("<{name}>").repeat(200_000);
        let html = format!("{open}word");
        read(&html);
        let close = name.split("><").last().unwrap_or(name);
        let close = close.split(' ').next().unwrap_or(close);
        read(&format!("{html}{}", format!("</{close}>").repeat(200_000)));
    }
    let deep = "<div>".repeat(200_000) + "word" + &"</div>".repeat(200_000);
    assert_eq!(to_markdown(&deep, &HtmlOptions::default()).text, "word");
}

#[test]
fn one_construct_over_and_over() {
    for piece in [
        "<",
        "</",
        "<!",
        "<!--",
        "<!-",
        "--",
        "&",
        "&#",
        "&#x",
        "&a",
        "&notit",
        "<a ",
        "<a b",
        "a ",
        "<p>x",
        "<br>",
        "<hr>",
        "x<br>",
        "\n",
        " ",
        "\r",
        "\0",
        "*",
        "_",
        "`",
        "[",
        "![",
        "|",
        "<b>x",
        "<b>x</b>",
        "</b>",
        "</p>",
        "</li>",
        "</ul>",
        "</table>",
        "<li>x",
        "<tr>",
        "<td>",
        "<td>x",
        "<table>x",
        "<td colspan=64>x",
        "<title>",
        "<title>x</title>",
        "</title",
        "<script>",
        "</script",
        "<script></script>",
        "<a href=x>y",
        "<a href=x>",
        "<img src=x>",
        "<code>",
        "<code>`",
        "<pre>",
        "<pre> ",
        "<pre>x</pre>",
        "<h1>x",
        "<blockquote>x",
        "<svg>",
        "<svg/>",
        "<base href=x>",
        "<textarea>",
        "é",
        "<A B='",
        "<a b=\"\">",
    ] {
        let many = piece.repeat(BYTES / piece.len());
        read(&many);
        for before in [
            "<a ",
            "<a b='",
            "<!--",
            "<script>",
            "<title>",
            "<pre>",
            "<table><tr><td>",
            "<li><code>",
        ] {
            let html = format!(
                "{before}{}",
                many.get(..BYTES / 10 / piece.len() * piece.len()).unwrap()
            );
            read(&html);
        }
    }
}

#[test]
fn a_tag_with_very_many_attributes() {
    let mut html = String::from("<a");
    for number in 0..200_000 {
        html.push_str(&format!(" a{number}"));
    }
    html.push_str(" href=x>word</a>");
    assert_eq!(
        to_markdown(&html, &HtmlOptions::default()).text,
        "[word](x)"
    );
}

#[test]
fn an_address_that_many_links_share_is_not_multiplied_past_the_limit() {
    let html = format!(
        "<base href='/{}/'>{}",
        "x".repeat(2_000),
        "<a href=y>z</a>".repeat(50_000)
    );
    let options = HtmlOptions::new().with_base("http://a/");
    let found = to_markdown(&html, &options);
    assert!(found.cut && found.text.len() <= options.output_bytes);
    let numbered = options.with_numbered_links();
    let found = to_markdown(&html, &numbered);
    let addresses: usize = found.links.iter().map(String::len).sum();
    assert!(addresses <= numbered.output_bytes + 4_096, "{addresses}");
}
