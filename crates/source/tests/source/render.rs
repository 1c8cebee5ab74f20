//! Rendered reports.

use insta::assert_snapshot;
use logue_source::{ColorMode, Diagnostic, DiagnosticCode, Source, Span};
use proptest::prelude::*;

fn report(text: &[u8], diagnostic: &Diagnostic) -> String {
    Source::new("prompt.md", text).render(diagnostic, ColorMode::Plain)
}

#[test]
fn a_report_names_place_text_expectation_and_remedy() {
    let text = b"<system>be brief</system>\n<user>Hello\n</assistant>\n";
    let diagnostic = Diagnostic::error(
        DiagnosticCode::MdMismatchedTag,
        "`</assistant>` closes `<user>`",
        Span::new(38, 50),
    )
    .with_expected("`</user>`")
    .with_label(Span::new(26, 32), "opened here")
    .with_help("write `</user>` here");
    assert_snapshot!(report(text, &diagnostic), @r"
    error[E-MD-MISMATCHED-TAG]: `</assistant>` closes `<user>`
     --> prompt.md:3:1
      |
    2 | <user>Hello
      | ------ opened here
    3 | </assistant>
      | ^^^^^^^^^^^^ expected `</user>`
      |
      = help: write `</user>` here
    ");
}

#[test]
fn a_long_line_is_cut_around_the_finding() {
    let mut text = vec![b'a'; 100_000];
    text[50_000] = b'<';
    let diagnostic = Diagnostic::warning(
        DiagnosticCode::ContentDropped,
        "here",
        Span::new(50_000, 50_001),
    );
    let report = report(&text, &diagnostic);
    assert!(report.len() < 2_000, "{}", report.len());
    assert!(report.contains("prompt.md:1:50001"), "{report}");
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let text = b"<user>\x1b[2J</user>";
    let diagnostic = Diagnostic::error(DiagnosticCode::MdUnclosedTag, "x", Span::new(6, 10));
    assert!(!report(text, &diagnostic).contains('\x1b'));
}

#[test]
fn hidden_characters_of_the_source_are_escaped_and_the_marks_stay_below_their_text() {
    let text = "<user>a\u{202e}\u{200b}\u{9b}\u{e0041}b ❤\u{fe0f}</user>";
    let start = text.find('b').unwrap();
    let span = Span::new(start, start + 1);
    let diagnostic = Diagnostic::error(DiagnosticCode::MdUnclosedTag, "x", span);
    assert_snapshot!(report(text.as_bytes(), &diagnostic), @r"
    error[E-MD-UNCLOSED-TAG]: x
     --> prompt.md:1:12
      |
     ::: 
    1 | <user>a\u{202e}\u{200b}\u{9b}\u{e0041}b ❤️</user>
      |                                       ^
    ");
}

proptest! {
    #[test]
    fn any_bytes_and_any_spans_give_a_report(
        text in proptest::collection::vec(any::<u8>(), 0..300),
        start in 0usize..400,
        len in 0usize..50,
        label in 0usize..400,
    ) {
        let diagnostic = Diagnostic::error(DiagnosticCode::MdUnclosedTag, "x", Span::new(start, start + len))
            .with_expected("y")
            .with_label(Span::new(label, label + 3), "z");
        prop_assert!(report(&text, &diagnostic).contains("E-MD-UNCLOSED-TAG"));
    }
}
