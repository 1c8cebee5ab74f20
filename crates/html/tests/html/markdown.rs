//! Each construct in Markdown.

use logue_html::{HtmlOptions, to_markdown};

fn markdown(html: &str) -> String {
    to_markdown(html, &HtmlOptions::default()).text
}

fn check(cases: &[(&str, &str)]) {
    for (html, expected) in cases {
        assert_eq!(markdown(html), *expected, "{html}");
    }
}

#[test]
fn blocks() {
    check(&[
        ("", ""),
        ("one\n two", "one two"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<div>one<div>two</div></div>three", "one\n\ntwo\n\nthree"),
        ("a<br>b<br/>c", "a\\\nb\\\nc"),
        ("<p>a<br></p><br><p>b", "a\n\nb"),
        (
            "<h1>One</h1>x<h3>a<br>b</h3>y",
            "# One\n\nx\n\n### a b\n\ny",
        ),
        ("<h2></h2>x", "x"),
        ("<h2>C#</h2>", "## C\\#"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("<hr>b", "b"),
        ("<blockquote>a<p>b</blockquote>c", "> a\n>\n> b\n\nc"),
        (
            "<blockquote>a<blockquote>b</blockquote></blockquote>",
            "> a\n>\n> > b",
        ),
        (
            "<blockquote>a</blockquote><blockquote>b</blockquote>",
            "> a\n\n> b",
        ),
    ]);
}

#[test]
fn lists() {
    check(&[
        ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
        (
            "x<ol start=9><li>a</li> <li>b</li></ol>",
            "x\n\n9. a\n10. b",
        ),
        ("<ol start=-1><li>a</ol>", "1. a"),
        (
            "<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>",
            "- a\n  - b\n    1. c\n- d",
        ),
        ("<ol><li>a<p>b</p></ol>", "1. a\n\n   b"),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b"),
        ("<ul><li></li><li>b</ul>", "- b"),
        ("<ul><li><ul><li>a</ul></ul>", "- - a"),
        ("<li>a<li>b", "- a\n\n- b"),
        ("<ul><li>a</ul></ul></li><p>b", "- a\n\nb"),
        ("<ul><li><pre>x\ny</pre></ul>", "- ```\n  x\n  y\n  ```"),
        ("<ul><li><blockquote>a</blockquote>b</ul>", "- > a\n\n  b"),
    ]);
}

#[test]
fn marks() {
    check(&[
        ("a <b>b</b> <i>c</i> <del>d</del>", "a **b** *c* ~~d~~"),
        ("a<b> b </b>c", "a **b** c"),
        ("<b></b><b> </b>a", "a"),
        ("<b>a</b><b>b</b>", "**ab**"),
        ("<b>a</b> <b>b</b>", "**a** **b**"),
        ("<b>a<i>b</b>c</i>", "**a*b***c"),
        ("<b><b>a</b>b</b>", "**a**b"),
        ("<b>a<p>b</b>c", "**a**\n\nbc"),
        ("<b><p>a</p></b>", "**a**"),
        ("<code>a  b</code>", "`a b`"),
        ("<code>a`b</code> <code>`</code>", "``a`b`` `` ` ``"),
        ("<code></code>x<code> y </code>z", "x `y` z"),
        ("<kbd>a<b>b</b></kbd>", "`ab`"),
        ("<code>a", "`a`"),
    ]);
}

#[test]
fn preformatted() {
    check(&[
        (
            "<pre>\n a\n\n  b &lt;\n</pre>c",
            "```\n a\n\n  b <\n```\n\nc",
        ),
        (
            "<pre><code class='hljs language-rust'>fn</code></pre>",
            "```rust\nfn\n```",
        ),
        ("<pre class=lang-c++>x</pre>", "```c++\nx\n```"),
        ("<pre class='language-a`b'>x</pre>", "```\nx\n```"),
        ("<pre>a```b</pre>", "````\na```b\n````"),
        ("<pre>a<br>b<div>c</div></pre>", "```\na\nb\nc\n```"),
        ("<pre>a\r\nb<b>*</b></pre>", "```\na\nb*\n```"),
        ("<pre> </pre>x<pre>y", "x\n\n```\ny\n```"),
        ("<plaintext><b>", "```\n<b>\n```"),
    ]);
}

#[test]
fn links_and_images() {
    check(&[
        (
            "<a href='/a?b=1&amp;c=2'>x <b>y</b></a>",
            "[x **y**](/a?b=1&c=2)",
        ),
        ("<a href=x>  a </a>b", "[a](x) b"),
        ("<a href=x></a>b", "b"),
        ("<a name=x>a</a>", "a"),
        ("<a href='java\nscript:x'>a</a>", "a"),
        ("<a href=' JavaScript:x'>a</a>", "a"),
        (
            "<a href='data:text/html,x'>a</a> <a href=vbscript:x>b</a>",
            "a b",
        ),
        ("<a href='mailto:a@b'>a</a>", "[a](mailto:a@b)"),
        ("<a href='a b(c)\\'>x</a>", "[x](a%20b%28c%29%5C)"),
        ("<a href=a>x<a href=b>y</a>", "[x](a)[y](b)"),
        ("<a href=a><h2>x</h2><p>y</p></a>", "## [x](a)\n\ny"),
        ("wow!<a href=a>x</a>", "wow\\![x](a)"),
        ("<img src=a.png alt='a [b]  c'>", "![a \\[b\\] c](a.png)"),
        ("a<img src=a.png alt=''>b", "ab"),
        ("<img src=a.png>", "![](a.png)"),
        ("<img src='data:image/png;base64,AAAA' alt=chart>", "chart"),
        ("<a href=b><img src=a alt=x></a>", "[![x](a)](b)"),
    ]);
    let long = format!("<a href={}>a</a>", "x".repeat(3_000));
    assert_eq!(markdown(&long), "a");
}

#[test]
fn links_lead_from_the_page() {
    // The examples of RFC 3986, §5.4, but for those that name other schemes.
    for (reference, expected) in [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"),
        ("g#s", "http://a/b/c/g#s"),
        ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"),
        (".", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("https://o/x", "https://o/x"),
    ] {
        let options = HtmlOptions::new().with_base("http://a/b/c/d;p?q");
        let found = to_markdown(&format!("<a href='{reference}'>x</a>"), &options).text;
        assert_eq!(found, format!("[x]({expected})"), "{reference}");
    }
    let options = HtmlOptions::new().with_base("http://a/b");
    let found = to_markdown("<base href=/c/><a href=d>x</a>", &options).text;
    assert_eq!(found, "[x](http://a/c/d)");
}

#[test]
fn tables() {
    check(&[
        (
            "<table><tr><th>a<th>b<tr><td>1<td>2|3</table>x",
            "| a | b |\n| --- | --- |\n| 1 | 2\\|3 |\n\nx",
        ),
        (
            "<table><caption>c</caption><thead><tr><td>a</td></tr></thead><tbody><tr><td>1<br>2</td>\
             <td><p>b</p></td></tr></tbody></table>",
            "c\n\n| a |  |\n| --- | --- |\n| 1 2 | b |",
        ),
        (
            "<table><tr><td colspan=2>a<td>b<tr><td>1<td>2<td>3</table>",
            "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
        ),
        (
            "<table><tr><td>a|<code>b|c</code><td><code>\\|</code><tr><td>1<td>2</table>",
            "| a\\|`b\\|c` | \\\\\\| |\n| --- | --- |\n| 1 | 2 |",
        ),
        ("<table><tr><td>a<td>b</table>", "a b"),
        ("<table><tr><td>a<tr><td>b</table>", "a\n\nb"),
        (
            "<table><tr><td>side<td><h1>T</h1><table><tr><td>1<td>2<tr><td>3<td>4</table></table>z",
            "side\n\n# T\n\n| 1 | 2 |\n| --- | --- |\n| 3 | 4 |\n\nz",
        ),
        ("<table><tr><td><ul><li>a</ul><td>b</table>", "- a\n\nb"),
        ("<td>a<td>b", "a b"),
        (
            "<table><tr><td>a<td>b<tr><td>c",
            "| a | b |\n| --- | --- |\n| c |",
        ),
    ]);
}

#[test]
fn what_is_not_shown() {
    check(&[
        ("<head><title>T</title><style>s</style></head>a", "a"),
        ("a<script>b<p></script>c<noscript>d</noscript>", "ac"),
        ("a<template>b<template>c</template>d</template>e", "ae"),
        ("a<!-- b --><![CDATA[c]]><?d?>e", "ae"),
        ("a<svg><title>b</title><path/></svg>c", "ac"),
        ("a<svg><title/><style/>b</svg>c<svg/>d", "acd"),
        ("a<svg><g>b<p>c", "a\n\nc"),
        ("a<script>b", "a"),
        ("a<iframe><b></iframe>b", "ab"),
    ]);
    let title = to_markdown("<title> a\n&amp; b </title>", &HtmlOptions::default());
    assert_eq!(title.title.as_deref(), Some("a & b"));
}

#[test]
fn text_stays_text() {
    check(&[
        ("# a", "\\# a"),
        ("1. a", "1\\. a"),
        ("1) a", "1\\) a"),
        ("1.5 a", "1.5 a"),
        ("- a", "\\- a"),
        ("-5", "-5"),
        ("+ a", "\\+ a"),
        ("&gt; a", "\\> a"),
        ("a<br>---", "a\\\n\\---"),
        ("a<br>==", "a\\\n\\=="),
        ("a|b<br>-|-", "a|b\\\n\\-|-"),
        (
            "*a* _b_ c_d `e` ~~f~~",
            "\\*a\\* \\_b\\_ c_d \\`e\\` \\~\\~f\\~\\~",
        ),
        ("[a](b)", "\\[a\\](b)"),
        ("&lt;b&gt; a &lt; b", "\\<b> a \\< b"),
        ("&amp;amp; &amp; &amp;", "\\&amp; \\& \\&"),
        ("\\", "\\\\"),
        ("```<br>a", "\\`\\`\\`\\\na"),
        ("a\u{A0}\u{2028}\0b", "a b"),
    ]);
}

#[test]
fn the_limit_cuts_and_says_so() {
    for bytes in [0, 1, 5, 10, 50] {
        let options = HtmlOptions::new().with_output_bytes(bytes);
        for html in [
            "é".repeat(100),
            "<p>é".repeat(100),
            format!("<pre>{}", "é\n".repeat(100)),
            format!("<table>{}", "<tr><td>é<td>b".repeat(100)),
        ] {
            let found = to_markdown(&html, &options);
            assert!(found.cut && found.text.len() <= bytes, "{bytes}: {found:?}");
        }
    }
    assert!(!to_markdown("<p>a", &HtmlOptions::default()).cut);
}

#[test]
fn links_have_numbers_that_no_page_can_forge() {
    let options = HtmlOptions::new()
        .with_base("http://a/b/")
        .with_numbered_links();
    let page = "<a href=one>first <b>link</b></a> <a href=''></a><a href='javascript:x'>no</a> \
        【7†forged】 &#x3010;8†also&#x3011; <code>【9†code】</code> <img src=x alt='【5†picture】'> \
        <a href='http://o/?【6†x】'>second</a><pre>【10†pre】</pre>";
    let found = to_markdown(page, &options);
    assert_eq!(
        found.text,
        "【0†first **link**】 no \\[7†forged\\] \\[8†also\\] `[9†code]` \\[5†picture\\] 【1†second】\n\n\
        ```\n[10†pre]\n```"
    );
    assert_eq!(found.links.len(), 2);
    assert_eq!(found.links[0], "http://a/b/one");
    assert!(found.links[1].starts_with("http://o/?"));
    let plain = HtmlOptions::default();
    assert!(to_markdown(page, &plain).links.is_empty());
}
