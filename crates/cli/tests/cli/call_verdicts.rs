//! `check` reports exactly the calls that `run` refuses for their arguments.

use serde_json::{Value, json};
use testkit::Answer;

use crate::program::{folder, run};
use crate::transcript::{say, serve};

#[test]
fn check_reports_exactly_the_calls_that_run_refuses() {
    for (arguments, is_refused) in [
        (r#"{"file":"notes.txt"}"#, false),
        (r#"{"file":"notes.txt","offset":0}"#, false),
        (r#"{"file":"notes.txt","deadline_ms":5000}"#, false),
        (r#"{"file":"notes.txt","deadline_ms":0}"#, true),
        (r#"{"file":"notes.txt","deadline_ms":"5"}"#, true),
        (r#"{"file":1}"#, true),
        (r#"{"file":null}"#, true),
        (r#"{"file":"notes.txt","offset":"x"}"#, true),
        (r#"{"file":"notes.txt","offset":1.5}"#, true),
        (r#"{"file":"notes.txt","offset":1e999}"#, true),
        ("{}", true),
        ("[1]", true),
        (r#"{"file":"#, true),
    ] {
        let prompt = "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<user>Read.</user>\n";
        let directory = folder(&[("p.md", prompt), ("notes.txt", "a\n")]);
        let server = serve(vec![
            Answer::text("").with_call("c1", "read_file", arguments),
            Answer::text("Done."),
        ]);
        let ran = say(directory.path(), &server, &["run", "--trust", "p.md"]);
        assert_eq!(ran.status, 0, "{arguments}: {}", ran.stderr);
        let requests = server.received();
        let messages = requests[1].body["messages"].as_array().unwrap();
        let result = messages.last().unwrap()["content"].to_string();
        let refused = ["E-CALL-SCHEMA", "the arguments are"]
            .iter()
            .any(|words| result.contains(words));
        assert_eq!(refused, is_refused, "{arguments}: {result}");

        let parameters = &requests[0].body["tools"][0]["function"]["parameters"];
        let tools = json!([{"name": "f", "parameters": parameters}]);
        let transcript = format!(
            "version: 2.2\n<|start|>developer<|message|>{tools}<|end|>\n<|start|>assistant \
             to=functions.f call_id=1<|channel|>commentary<|message|>{arguments}<|call|>\n"
        );
        let directory = folder(&[("talk.ocml", &transcript)]);
        let checked = run(directory.path(), ["check", "talk.ocml"]);
        let report = format!("{}{}", checked.stdout, checked.stderr);
        assert_eq!(
            report.contains("E-CALL-SCHEMA"),
            is_refused,
            "{arguments} {parameters}: {report}"
        );
    }
}

/// The code of an error about arguments.
const CODE: &str = "E-CALL-SCHEMA";

/// Returns whether `check` reports a call in a file.
fn is_reported(folder: &std::path::Path, file: &str) -> bool {
    let checked = run(folder, ["check", "--json", file]);
    let codes = checked.stdout.lines().map(|line| {
        let finding: Value = serde_json::from_str(line).unwrap();
        finding["code"].as_str().unwrap_or_default().to_owned()
    });
    let is_reported = codes.into_iter().any(|code| code == CODE);
    assert_eq!(
        checked.status,
        if is_reported { 8 } else { 0 },
        "{}",
        checked.stdout
    );
    is_reported
}

#[test]
fn check_of_a_written_transcript_reports_exactly_the_refused_calls() {
    for (tool, arguments, is_refused) in [
        ("read_file", r#"{"file":"notes.txt"}"#, false),
        // Synonyms that only the tool accepts.
        ("read_file", r#"{"path":"notes.txt","offset":null}"#, false),
        (
            "read_file",
            r#"{"path":"notes.txt","file":"notes.txt"}"#,
            true,
        ),
        ("read_file", r#"{"file":1}"#, true),
        ("read_file", "{}", true),
        ("read_file", r#"{"file":"#, true),
        ("read_file", r#"{"file":"notes.txt","deadline_ms":0}"#, true),
        ("read_directory", r#"{"path":"."}"#, false),
        ("read_directory", r#"{"file":"."}"#, true),
        ("search", r#"{"pattern":"a"}"#, false),
        ("search", r#"{"pattern":["a"]}"#, true),
        ("write_file", r#"{"path":"b.txt","content":"b"}"#, false),
        ("write_file", r#"{"path":"b.txt"}"#, true),
        ("append_to_file", r#"{"file":"b.txt","content":"b"}"#, false),
        ("append_to_file", r#"{"path":"b.txt"}"#, true),
        (
            "find_and_replace",
            r#"{"path":"notes.txt","search":"a","replace":"b"}"#,
            false,
        ),
        (
            "find_and_replace",
            r#"{"path":"notes.txt","find":"","replace":"b","all":false}"#,
            true,
        ),
        ("apply_patch", "*** Begin Patch\n*** End Patch", false),
        ("apply_patch", r#"{"patch":1}"#, true),
        ("python", "print(1)", false),
        ("python", r#"{"code":"print(1)"}"#, false),
        ("python", r#"{"program":"print(1)"}"#, true),
    ] {
        let declared = if tool == "read_directory" {
            "read_dir"
        } else {
            tool
        };
        let prompt =
            format!("<config model=\"m\"/>\n<tool name=\"{declared}\"/>\n<user>Do.</user>\n");
        let transcript = format!(
            "version: 2.2\nmodel: m\ngeneration_settings: {{builtin_tools: [{declared}]}}\n\
             <|start|>user<|message|>Do.<|end|>\n"
        );
        for (file, text) in [("p.md", &prompt), ("p.ocml", &transcript)] {
            let directory = folder(&[(file, text), ("notes.txt", "a\n")]);
            let server = serve(vec![
                Answer::text("").with_call("c1", tool, arguments),
                Answer::text("Done."),
            ]);
            let allow = format!("{tool}=allow");
            let words = ["run", "--trust", "--permission", &allow, file];
            let ran = say(directory.path(), &server, &words);
            assert_eq!(ran.status, 0, "{file} {tool} {arguments}: {}", ran.stderr);
            let requests = server.received();
            let messages = requests[1].body["messages"].as_array().unwrap();
            let result = messages.last().unwrap()["content"].to_string();
            let refusals = [
                CODE,
                "the arguments are",
                "is not a parameter",
                "is required",
            ];
            let refused = refusals.iter().any(|words| result.contains(words));
            assert_eq!(refused, is_refused, "{file} {tool} {arguments}: {result}");
            let reported = is_reported(directory.path(), file);
            let written = std::fs::read_to_string(directory.path().join(file)).unwrap();
            assert_eq!(reported, is_refused, "{tool} {arguments}: {written}");
        }
    }
}

#[test]
fn check_of_a_written_transcript_reports_refused_calls_of_declared_tools() {
    let prompt = "<config model=\"m\"/>\n<tool name=\"list\" command=\"ls\"/>\n\
                  <tool name=\"helper\" agent=\"helper.md\" local/>\n<user>Do.</user>\n";
    let long = "x".repeat(70_000);
    let big = format!(r#"{{"arguments":["{long}"],"folder":"."}}"#);
    for (tool, arguments, is_refused) in [
        ("list", r#"{"arguments":["notes.txt"]}"#, false),
        ("list", "{}", false),
        ("list", r#"{"arguments":"notes.txt"}"#, true),
        ("list", r#"{"arguments":["notes.txt"}"#, true),
        ("list", "", false),
        // The transcript keeps them in a file.
        ("list", &big, true),
        ("helper", r#"{"input":1}"#, true),
    ] {
        let directory = folder(&[
            ("p.md", prompt),
            ("helper.md", "<config model=\"m\"/>\n"),
            ("notes.txt", "a\n"),
        ]);
        let server = serve(vec![
            Answer::text("").with_call("c1", tool, arguments),
            Answer::text("Done."),
        ]);
        let ran = say(directory.path(), &server, &["run", "--trust", "p.md"]);
        assert_eq!(ran.status, 0, "{tool} {arguments}: {}", ran.stderr);
        let requests = server.received();
        let messages = requests[1].body["messages"].as_array().unwrap();
        let result = messages.last().unwrap()["content"].to_string();
        assert_eq!(result.contains(CODE), is_refused, "{arguments}: {result}");
        assert_eq!(
            is_reported(directory.path(), "p.md"),
            is_refused,
            "{arguments:.60}"
        );
    }
}
