//! Imports: what they contribute where, and what is said of those that cannot be expanded.

use chatmd::{
    ImportRequest, ImportTarget, ImportedText, MemoryWorld, World, WorldError, evaluate, load,
};
use logue_source::{ColorMode, DiagnosticCode};

fn world(files: &[(&str, &str)]) -> MemoryWorld {
    files
        .iter()
        .fold(MemoryWorld::new(), |world, (path, text)| {
            world.with(*path, *text)
        })
}

/// The roles and texts of the messages, and the codes of the findings.
fn outcome(text: &str, files: &[(&str, &str)]) -> (Vec<String>, Vec<DiagnosticCode>) {
    let mut world = world(files);
    let loaded = load("prompt.md", text, &mut world);
    let evaluation = evaluate(loaded.document(), &mut world);
    let said = evaluation
        .messages
        .iter()
        .map(|message| format!("{}: {}", message.role, message.text()))
        .collect();
    let found = loaded.diagnostics().iter().chain(&evaluation.diagnostics);
    (said, found.map(|finding| finding.code).collect())
}

#[test]
fn what_an_import_contributes_depends_on_what_it_names_and_where_it_stands() {
    let files = [
        ("prose.md", "Be *brief*; write a < b, never `<user>`.\n"),
        ("raw.md", "RAW|a <user>|RAW"),
        ("empty.md", "<!-- nothing -->\n"),
        ("mixed.md", "Read this:\n<doc src=\"d.txt\" local/>\n"),
        (
            "docs.md",
            "<doc src=\"d.txt\" local/>\n<doc src=\"d.txt\" local/>\n",
        ),
        ("talk.md", "<user>one</user>\n<assistant>two</assistant>\n"),
        (
            "mentions.md",
            "Open `<user>` or </agent>, <doc/>, <img src=\"\"/>, <!-- a\n<doc src=\"d.txt\"/> -->`RAW|`, \
             `<!--`; <user>x</user> <doc src=\"d.txt\" local/> </doc> <agent src=\"a\">\n",
        ),
        (
            "quotes.md",
            "<doc src=\"a <!-- secret --> <doc src='d.txt' local></doc> <user>open",
        ),
        (
            "begins.md",
            "<user> is a tag. <!-- secret --><doc src=\"d.txt\" local/>",
        ),
        (
            "nested.md",
            "<agent src=\"x\"><doc src=\"d.txt\" local></doc></doc>\
             <doc src=\"d.txt\" local/>",
        ),
        ("d.txt", "data"),
        ("sub/outer.md", "<import src=\"inner.md\"/>"),
        ("sub/inner.md", "<user>inner</user>"),
        ("inner.md", "<user>wrong</user>"),
    ];
    let cases: &[(&str, &[&str], &[DiagnosticCode])] = &[
        (
            "<system><import src=\"prose.md\"/></system>",
            &["system: Be *brief*; write a < b, never `<user>`.\n"],
            &[],
        ),
        (
            "<developer>[<import src=\"./raw.md\"/>]</developer>",
            &["system: [a <user>]"],
            &[],
        ),
        (
            "<user>x<import src=\"empty.md\"/></user>",
            &["user: x"],
            &[],
        ),
        (
            "<msg role=\"user\"><import src=\"mixed.md\"/></msg>",
            &["user: Read this:\ndata\n"],
            &[],
        ),
        (
            "<user><import src=\"docs.md\"/></user>",
            &["user: datadata"],
            &[],
        ),
        (
            "<import src=\"talk.md\"/>\n<user>three</user>",
            &["user: one", "assistant: two", "user: three"],
            &[],
        ),
        (
            "<user>x<import src=\"talk.md\"/></user>",
            &["user: x"],
            &[
                DiagnosticCode::ContentDropped,
                DiagnosticCode::ContentDropped,
            ],
        ),
        // Relative to the importing file, not to the prompt.
        ("<import src=\"sub/outer.md\"/>", &["user: inner"], &[]),
        (
            "<import src=\"prose.md\"/>",
            &[],
            &[DiagnosticCode::MdTopLevelText],
        ),
        (
            "<user>x<import src=\"absent.md\"/></user>",
            &["user: x"],
            &[DiagnosticCode::MdDocumentUnreadable],
        ),
        // Tags that prose mentions are text; what is complete counts, and comments never do.
        (
            "<system><import src=\"mentions.md\"/></system>",
            &[
                "system: Open `<user>` or </agent>, <doc/>, <img src=\"\"/>, \
                 `RAW|`, `<!--`; <user>x</user> data </doc> <agent src=\"a\">\n",
            ],
            &[],
        ),
        (
            "<system><import src=\"quotes.md\"/></system>",
            &["system: <doc src=\"a  data <user>open"],
            &[],
        ),
        (
            "<system><import src=\"begins.md\"/></system>",
            &["system: <user> is a tag. data"],
            &[],
        ),
        (
            "<system><import src=\"nested.md\"/></system>",
            &["system: <agent src=\"x\">data</doc>data"],
            &[],
        ),
        // Elsewhere an import is text.
        (
            "<assistant><import src=\"prose.md\"/></assistant>",
            &["assistant: <import src=\"prose.md\"/>"],
            &[],
        ),
    ];
    for (text, said, codes) in cases {
        let (found, diagnostics) = outcome(text, &files);
        assert_eq!(
            (found.as_slice(), diagnostics.as_slice()),
            (
                said.iter()
                    .map(|&line| line.to_owned())
                    .collect::<Vec<_>>()
                    .as_slice(),
                *codes
            ),
            "{text}"
        );
    }
}

#[test]
fn a_finding_in_an_imported_file_names_that_file_and_the_imports_that_led_there() {
    let mut world = world(&[
        ("sub/a.md", "\n<import src=\"b.md\"/>\n"),
        ("sub/b.md", "<user>ok</user>\n<user>open"),
    ]);
    let text = "<system>s</system>\n<import src=\"sub/a.md\"/>";
    let loaded = load("prompt.md", text, &mut world);
    let [finding] = loaded.diagnostics() else {
        panic!("{:?}", loaded.diagnostics());
    };
    insta::assert_snapshot!(loaded.source_map().render(finding, ColorMode::Plain), @r#"
    error[E-MD-UNCLOSED-TAG]: `<user>` is never closed
     --> sub/b.md:2:1
      |
    2 | <user>open
      | ^^^^^^ expected a `</user>` further down
      |
      = note: imported at sub/a.md:2:1
      = note: imported at prompt.md:2:1
      = help: add `</user>`, or write `RAW|<user>|RAW` if it is meant as text
      = help: run `logue fix FILE` to repair it
    "#);
}

#[test]
fn a_cycle_is_an_error_that_shows_its_imports() {
    let mut world = world(&[
        ("a.md", "<import src=\"sub/b.md\"/>"),
        ("sub/b.md", "<user>x</user>\n<import src=\"../a.md\"/>"),
    ]);
    let loaded = load("prompt.md", "<import src=\"a.md\"/>", &mut world);
    let [finding] = loaded.diagnostics() else {
        panic!("{:?}", loaded.diagnostics());
    };
    insta::assert_snapshot!(loaded.source_map().render(finding, ColorMode::Plain), @r#"
    error[E-MD-IMPORT-CYCLE]: "a.md" imports itself
     --> sub/b.md:2:1
      |
    2 | <import src="../a.md"/>
      | ^^^^^^^^^^^^^^^^^^^^^^^
      |
      = note: a.md:1:1: imports "sub/b.md"
      = note: imported at prompt.md:1:1
      = help: move the shared text into a separate file
    "#);
    // What was read before the cycle is kept.
    assert_eq!(loaded.document().elements.len(), 1);
}

/// Imports without end, each of another file.
struct Endless(usize);

impl World for Endless {
    fn document(
        &mut self,
        request: &chatmd::DocumentRequest<'_>,
    ) -> Result<chatmd::DocumentText, WorldError> {
        MemoryWorld::new().document(request)
    }

    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        self.0 += 1;
        Ok(ImportedText::new(
            self.0.to_string(),
            format!("{}.md", self.0),
            format!("<import src=\"{0}\"/>", request.src).repeat(2),
        ))
    }
}

#[test]
fn imports_without_end_are_cut_off() {
    let mut world = Endless(0);
    let loaded = load("prompt.md", "<import src=\"x\"/>", &mut world);
    let codes: Vec<DiagnosticCode> = loaded
        .diagnostics()
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert!(!codes.is_empty());
    assert!(
        codes
            .iter()
            .all(|code| *code == DiagnosticCode::MdImportLimit),
        "{codes:?}"
    );
    let deepest = loaded
        .diagnostics()
        .iter()
        .map(|finding| finding.labels.len())
        .max();
    assert_eq!(deepest, Some(chatmd::MAX_IMPORT_DEPTH));
    assert!(world.0 <= 3000, "{}", world.0);
}

#[test]
fn calls_and_tools_are_checked_over_all_files_together() {
    let (_, codes) = outcome(
        "<tool name=\"read_file\"/><import src=\"t.md\"/>\
         <tool_response tool_call_id=\"c\">RAW|x|RAW</tool_response>",
        &[(
            "t.md",
            "<tool name=\"get_contents\"/>\
             <tool_call tool_call_id=\"c\" function_name=\"read_file\">RAW|{}|RAW</tool_call>",
        )],
    );
    assert_eq!(codes, [DiagnosticCode::MdDuplicateTool]);
}

#[test]
fn each_import_says_what_it_stands_for() {
    let mut world = world(&[("a.md", "words"), ("b.md", "<user>x</user>")]);
    let text = "<user><import src=\"a.md\"/></user><import src=\"b.md\"/>";
    let loaded = load("prompt.md", text, &mut world);
    assert_eq!(loaded.target(6), Some(ImportTarget::Fragment(1)));
    assert_eq!(
        loaded.target(text.rfind('<').unwrap_or(0)),
        Some(ImportTarget::Document(2))
    );
    let names: Vec<&str> = loaded
        .parts()
        .iter()
        .map(|part| part.name.as_ref())
        .collect();
    assert_eq!(names, ["prompt.md", "a.md", "b.md"]);
}

#[test]
fn the_expanded_tree_has_what_is_imported_in_its_place() {
    let mut world = world(&[
        ("talk.md", "\n<user>one <import src=\"prose.md\"/></user>\n"),
        ("prose.md", "two <b>"),
    ]);
    let text = "<import src=\"talk.md\"/>\n<import src=\"prose.md\"/><import src=\"gone.md\"/>";
    let loaded = load("prompt.md", text, &mut world);
    let expected = concat!(
        r#"[{"tag":"user","attrs":[],"children":[{"text":"one two <b>"}]},"#,
        r#"{"tag":"import","attrs":[["src","prose.md"]],"children":[]},"#,
        r#"{"tag":"import","attrs":[["src","gone.md"]],"children":[]}]"#,
    );
    assert_eq!(loaded.to_json(), expected);
}
