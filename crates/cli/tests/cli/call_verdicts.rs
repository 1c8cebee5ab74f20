//! `check` reports exactly the calls that `run` refuses for their arguments.

use serde_json::json;
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
