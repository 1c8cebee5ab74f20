//! Each construct as plain text.

use logue_html::{HtmlOptions, to_text};

#[test]
fn words_on_lines() {
    for (html, expected) in [
        ("<p>one *<p>two", "one *\n\ntwo"),
        ("<div>one<div>two</div></div>three", "one\ntwo\nthree"),
        ("a<br>b", "a\nb"),
        ("<h1>a</h1>b", "a\n\nb"),
        ("a<hr>b", "a\n\nb"),
        ("<ul><li>a<ol><li>b</ol><li>c</ul>", "- a\n  1. b\n- c"),
        ("<b>a</b> <a href=x>b</a> <code>c</code>", "a b c"),
        ("a <img src=x alt='b c'> d", "a b c d"),
        ("<pre> a\n  b</pre>", " a\n  b"),
        ("<blockquote>a</blockquote>b", "a\n\nb"),
        ("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "a\tb\nc\td"),
        ("<script>x</script>&lt;b&gt;", "<b>"),
        ("# a <br>- b", "# a\n- b"),
    ] {
        assert_eq!(
            to_text(html, &HtmlOptions::default()).text,
            expected,
            "{html}"
        );
    }
}
