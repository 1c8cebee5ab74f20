//! Calls, replies and settings in `logue check`, in every form.

use serde_json::{Value, json};

use crate::program::{Ran, folder, run, run_with_input};

const FUNCTION: &str = r#"{"type":"function","function":{"name":"tide","parameters":{"type":"object","properties":{"port":{"type":"string"}},"required":["port"]}}}"#;

fn check(file: &str, text: &str) -> Ran {
    let folder = folder(&[(file, text)]);
    run(folder.path(), ["check", "--json", file])
}

/// The findings: code, line, column.
fn found(ran: &Ran) -> Vec<(String, u64, u64)> {
    let lines = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let findings = lines.filter(|line| line.get("code").is_some());
    findings
        .map(|line| {
            let at = |key: &str| line["start"][key].as_u64().unwrap();
            (
                line["code"].as_str().unwrap().to_owned(),
                at("line"),
                at("column"),
            )
        })
        .collect()
}

/// The document of a form with a call and a reply, and its file name.
fn document(form: &str, tool: &str, arguments: &str, replied: &str) -> (&'static str, String) {
    let declared = format!("# Tools\n\n## functions\n\n[{FUNCTION}]");
    match form {
        "ocml2.2" => (
            "a.ocml",
            format!(
                "version: 2.2\n<|start|>developer<|message|>{declared}<|end|>\n<|start|>assistant \
                 to=functions.{tool} call_id=1<|channel|>commentary<|constrain|>json<|message|>{arguments}<|call|>\n\
                 <|start|>tool name=functions.{replied} call_id=1 to=assistant<|channel|>commentary<|message|>x<|end|>\n"
            ),
        ),
        "ocml2.0" => (
            "a.ocml",
            format!(
                "version: 2.0\n<|start|>developer<|message|>{declared}<|end|>\n<|start|>assistant \
                 to=functions.{tool}<|channel|>commentary<|message|>{arguments}<|call|>\n\
                 <|start|>functions.{replied} to=assistant<|channel|>commentary<|message|>x<|end|>\n"
            ),
        ),
        "harmony" => (
            "a.harmony",
            format!(
                "<|start|>developer<|message|>{declared}<|end|><|start|>assistant to=functions.{tool}\
                 <|channel|>commentary <|constrain|>json<|message|>{arguments}<|call|><|start|>functions.{replied} \
                 to=assistant<|channel|>commentary<|message|>x<|end|>"
            ),
        ),
        "ocml0.1" => (
            "a.ocml",
            format!(
                "[BOS]<|im_start|>system\nUse it.\n<|function_list|>\n{FUNCTION}\n<|im_end|>\n<|im_start|>assistant\n\
                 <|function_call|>\n{{\"name\": \"{tool}\", \"arguments\": {arguments}}}\n<|im_end|>\n\
                 <|im_start|>tool\n<|function_output|>\n{{\"name\": \"{replied}\", \"content\": \"x\"}}\n<|im_end|>[EOS]\n"
            ),
        ),
        "openai" => {
            let call = json!({"id": "1", "type": "function", "function": {"name": tool, "arguments": arguments}});
            let row = json!({"messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "name": replied, "content": "x"},
            ]});
            let row = row.to_string();
            (
                "a.jsonl",
                format!("{},\"tools\":[{FUNCTION}]}}", &row[..row.len() - 1]),
            )
        }
        "anthropic" => {
            let input: Value = serde_json::from_str(arguments).unwrap();
            let function: Value = serde_json::from_str(FUNCTION).unwrap();
            let schema = &function["function"]["parameters"];
            let row = json!({"messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": tool, "input": input}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x"}]},
            ], "tools": [{"name": "tide", "input_schema": schema}]});
            ("a.jsonl", row.to_string())
        }
        "responses" => {
            let row = json!({"input": [
                {"type": "function_call", "call_id": "1", "name": tool, "arguments": arguments},
                {"type": "function_call_output", "call_id": "1", "output": "x"},
            ]});
            let row = row.to_string();
            (
                "a.jsonl",
                format!("{},\"tools\":[{FUNCTION}]}}", &row[..row.len() - 1]),
            )
        }
        _ => {
            let call = json!({"name": tool, "arguments": serde_json::from_str::<Value>(arguments).unwrap()});
            let row = json!({"conversations": [
                {"from": "function_call", "value": call.to_string()},
                {"from": "observation", "value": "x"},
            ]});
            let row = row.to_string();
            (
                "a.jsonl",
                format!(
                    "{},\"tools\":{}}}",
                    &row[..row.len() - 1],
                    json!(format!("[{FUNCTION}]"))
                ),
            )
        }
    }
}

const FORMS: [&str; 8] = [
    "ocml2.2",
    "ocml2.0",
    "harmony",
    "ocml0.1",
    "openai",
    "anthropic",
    "responses",
    "sharegpt",
];

#[test]
fn calls_are_compared_with_declarations_in_every_form() {
    for form in FORMS {
        for (tool, arguments, is_wrong) in [
            ("tide", r#"{"port":"Brest"}"#, false),
            ("tide", r#"{"port":1}"#, true),
            ("tide", "{}", true),
            ("ebb", r#"{"port":"Brest"}"#, true),
            ("python", "{}", form != "harmony"),
            ("browser.open", "{}", form != "harmony"),
        ] {
            let (file, text) = document(form, tool, arguments, tool);
            let ran = check(file, &text);
            assert_eq!(
                ran.status,
                if is_wrong { 8 } else { 0 },
                "{form} {tool} {arguments}: {}",
                ran.stdout
            );
            let found = found(&ran);
            assert_eq!(
                found.len(),
                usize::from(is_wrong),
                "{form} {tool} {arguments}: {}",
                ran.stdout
            );
            assert!(
                found.iter().all(|(code, ..)| code == "E-CALL-SCHEMA"),
                "{form}: {found:?}"
            );
        }
    }
}

#[test]
fn a_reply_of_another_tool_is_a_warning() {
    for form in ["ocml2.2", "ocml2.0", "harmony", "ocml0.1", "openai"] {
        let (file, text) = document(form, "tide", r#"{"port":"Brest"}"#, "ebb");
        let ran = check(file, &text);
        assert_eq!(ran.status, 0, "{form}: {}", ran.stdout);
        assert!(
            ran.stdout.contains("the reply is of `"),
            "{form}: {}",
            ran.stdout
        );
        assert_eq!(found(&ran).len(), 1, "{form}: {}", ran.stdout);
    }
}

#[test]
fn a_finding_has_the_place_of_the_wrong_value() {
    let (file, text) = document(
        "openai",
        "tide",
        "{\"day\": \"\u{fc}\", \"port\": 17}",
        "tide",
    );
    let ran = check(
        file,
        &format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}}]}}\n{text}\n"),
    );
    let column = text[..text.find("17").unwrap()].chars().count() as u64 + 1;
    assert_eq!(
        found(&ran),
        [("E-CALL-SCHEMA".to_owned(), 2, column)],
        "{}",
        ran.stdout
    );
    // One file, whatever its lines.
    let folder = folder(&[(file, &format!("{text}\n{text}\n"))]);
    let ran = run(folder.path(), ["check", file]);
    let text = format!("{}{}", ran.stdout, ran.stderr);
    assert!(text.contains("1 file checked: 2 errors"), "{text}");
}

#[test]
fn a_built_in_tool_needs_a_place_in_the_list() {
    for (list, is_wrong) in [("[\"browser\"]", true), ("[\"python\"]", false)] {
        let text = format!(
            "version: 2.2\ngeneration_settings: {{builtin_tools: {list}}}\n\
             <|start|>assistant to=python call_id=1<|channel|>analysis<|message|>1<|call|>\n"
        );
        let ran = check("a.ocml", &text);
        assert_eq!(ran.status == 8, is_wrong, "{list}: {}", ran.stdout);
    }
    let system = "<|start|>system<|message|># Valid channels: analysis, commentary, final.<|end|>";
    let call = "<|start|>assistant to=python<|channel|>analysis<|message|>1<|call|>";
    let (_, declared) = document("harmony", "tide", "{\"port\":\"a\"}", "tide");
    let ran = check("a.harmony", &format!("{system}{declared}{call}"));
    assert_eq!(ran.status, 8, "{}", ran.stdout);
    let python = system.replace("# Valid", "# Tools\n\n## python\n\nRuns code.\n\n# Valid");
    let ran = check("a.harmony", &format!("{python}{declared}{call}"));
    assert_eq!(ran.status, 0, "{}", ran.stdout);
}

#[test]
fn a_function_is_declared_beside_a_list_of_built_in_tools() {
    let declared = "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n\
                    // Rings.\ntype bell = () => any;\n\n} // namespace functions<|end|>\n";
    for (list, declared, is_wrong) in [
        ("[\"read_file\"]", "", true),
        ("[]", "", true),
        ("[\"read_file\"]", declared, false),
        // A name that the program does not know may have any tools.
        ("[\"bells\"]", "", false),
        ("[\"bell\"]", "", false),
    ] {
        let body = "<|start|>assistant to=functions.bell call_id=1<|channel|>commentary\
                    <|constrain|>json<|message|>{}<|call|>\n";
        let header = format!("version: 2.2\ngeneration_settings: {{builtin_tools: {list}}}\n");
        let ran = check("a.ocml", &format!("{header}{declared}{body}"));
        assert_eq!(ran.status == 8, is_wrong, "{list}: {}", ran.stdout);
        let place = (!is_wrong).then(Vec::new);
        let place = place.unwrap_or_else(|| vec![("E-CALL-SCHEMA".to_owned(), 3, 23)]);
        let calls: Vec<_> = found(&ran)
            .into_iter()
            .filter(|one| one.0 == "E-CALL-SCHEMA")
            .collect();
        assert_eq!(calls, place, "{list}: {}", ran.stdout);
    }
    // Without a list, nothing is known about the tools.
    let ran = check(
        "a.ocml",
        "version: 2.2\n<|start|>assistant to=functions.bell call_id=1<|channel|>commentary<|message|>{}<|call|>\n",
    );
    assert_eq!(ran.status, 0, "{}", ran.stdout);
}

#[test]
fn settings_have_types() {
    let settings = [
        ("temperature", "\"hot\"", "0.5"),
        ("top_p", "true", "1"),
        ("max_tokens", "\"9\"", "9"),
        ("seed", "1.5", "-1"),
        ("stop", "[1]", "[\"a\"]"),
        ("reasoning_effort", "3", "\"low\""),
        ("tool_choice", "[]", "\"auto\""),
        ("response_format", "1", "{\"type\":\"json_object\"}"),
        ("parallel_tool_calls", "\"no\"", "false"),
    ];
    for (key, wrong, right) in settings {
        for (value, is_wrong) in [(wrong, true), (right, false)] {
            let header = format!(
                "version: 2.2\ngeneration_settings: {{{key}: {value}}}\n<|start|>user<|message|>Hi<|end|>\n"
            );
            let older = header.replace("2.2", "2.0");
            let message = "{\"role\":\"user\",\"content\":\"Hi\"}";
            let row = format!("{{\"messages\":[{message}],\"{key}\":{value}}}\n");
            let json = format!(
                "{{\"header\":{{\"generation_settings\":{{\"{key}\":{value}}}}},\"messages\":[{message}]}}\n"
            );
            for (file, text, code) in [
                ("a.ocml", &header, "E-PARSE-HEADER"),
                ("a.ocml", &older, "E-PARSE-HEADER"),
                ("a.jsonl", &row, "E-JSON-SHAPE"),
                ("a.json", &json, "E-JSON-SHAPE"),
            ] {
                let ran = check(file, text);
                assert_eq!(ran.status == 8, is_wrong, "{text}: {}", ran.stdout);
                assert_eq!(
                    found(&ran).iter().any(|found| found.0 == code),
                    is_wrong,
                    "{text}"
                );
            }
        }
    }
    // A column of data is not a setting.
    let row = r#"{"conversations":[{"from":"human","value":"Hi"}],"temperature":"hot"}"#;
    assert_eq!(check("a.jsonl", row).status, 0);
}

#[test]
fn every_dialect_has_a_name() {
    for form in FORMS {
        let (_, text) = document(form, "tide", "{}", "tide");
        let folder = folder(&[("talk", &text)]);
        let ran = run(folder.path(), ["check", "--from", form, "talk"]);
        assert_eq!(ran.status, 8, "{form}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("E-CALL-SCHEMA"),
            "{form}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_finding_about_a_call_names_the_difference_and_the_remedy_of_its_form() {
    for (form, remedy) in [
        ("ocml2.2", "in a `developer` message"),
        ("harmony", "in a `developer` message"),
        ("ocml0.1", "in the `<|function_list|>`"),
        ("openai", "in the `tools` of the row"),
        ("sharegpt", "in the `tools` of the row"),
    ] {
        for (tool, arguments, text) in [
            ("nope", "{}", remedy),
            (
                "tide",
                "{}",
                "declaration: expected the property `port`, found an object without it",
            ),
            (
                "tide",
                r#"{"port":3}"#,
                "declaration: expected a string at `$.port`, found a whole number",
            ),
        ] {
            let (file, document) = document(form, tool, arguments, tool);
            let folder = folder(&[(file, &document)]);
            let ran = run(folder.path(), ["check", file]);
            assert_eq!(ran.status, 8, "{form}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(text),
                "{form} {arguments}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn tools_of_a_row_that_declare_nothing_are_reported() {
    for (tools, count) in [
        (r#""nope""#, 1),
        ("3", 1),
        (r#"[{"type":"function","function":{"parameters":{}}}]"#, 1),
        (r#"["f"]"#, 1),
        (r#"[{"type":"web_search"}]"#, 0),
        (r#""""#, 0),
        ("null", 0),
        ("[]", 0),
    ] {
        let row = format!(r#"{{"messages":[{{"role":"user","content":"Hi"}}],"tools":{tools}}}"#);
        let ran = check("a.jsonl", &row);
        let found = found(&ran);
        let invalid = found
            .iter()
            .filter(|(code, ..)| code == "invalid-tool-declaration");
        assert_eq!(invalid.count(), count, "{tools}: {}", ran.stdout);
    }
}

#[test]
fn calls_of_built_in_tools_have_the_schemas_of_the_program_in_every_form() {
    for (arguments, is_wrong) in [
        (r#"{"file":"a.txt"}"#, false),
        (r#"{"path":"a.txt"}"#, false),
        (r#"{"file":17}"#, true),
    ] {
        let body = format!(
            "<|start|>assistant to=functions.read_file call_id=1<|channel|>commentary\
             <|constrain|>json<|message|>{arguments}<|call|>\n"
        );
        let header =
            json!({"version": "2.2", "generation_settings": {"builtin_tools": ["get_contents"]}});
        let message = json!({"role": "assistant", "channel": "commentary", "to": "functions.read_file",
            "call_id": "1", "constrain": "json", "terminator": "call", "content": arguments});
        for (file, text) in [
            (
                "a.ocml",
                format!(
                    "version: 2.2\ngeneration_settings: {{builtin_tools: [read_file]}}\n{body}"
                ),
            ),
            (
                "b.ocml",
                format!("version: 2.2\ngeneration_settings: {{builtin_tools: read_file}}\n{body}"),
            ),
            (
                "a.json",
                json!({"header": header, "messages": [message]}).to_string(),
            ),
            (
                "a.md",
                format!(
                    "<tool name=\"read_file\"/>\n<tool_call tool_call_id=\"1\" function_name=\"read_file\">\n\
                     RAW|\n{arguments}\n|RAW\n</tool_call>\n<tool_response tool_call_id=\"1\">x</tool_response>\n"
                ),
            ),
            (
                "b.md",
                format!(
                    "<tool name=\"get_contents\"/>\n<tool_call tool_call_id=\"1\" function_name=\"get_contents\">\
                     {arguments}</tool_call>\n<tool_response tool_call_id=\"1\">x</tool_response>\n"
                ),
            ),
        ] {
            let ran = check(file, &text);
            let mut expected = Vec::new();
            if is_wrong {
                let line = text.lines().position(|line| line.contains("17")).unwrap();
                let text = text.lines().nth(line).unwrap();
                let at = text.find("17").unwrap() as u64 + 1;
                // A call of the JSON form has no place of its own.
                let at = if file == "a.json" { 1 } else { at };
                expected.push(("E-CALL-SCHEMA".to_owned(), line as u64 + 1, at));
            }
            assert_eq!(found(&ran), expected, "{text}: {}", ran.stdout);
            // The text of standard input has no files, and the same calls.
            let piped = run_with_input(std::path::Path::new("."), &["check", "--json", "-"], &text);
            assert_eq!(found(&piped), expected, "{text}: {}", piped.stdout);
        }
    }
}

#[test]
fn an_unknown_name_in_builtin_tools_is_a_warning_with_a_suggestion() {
    for (name, meant) in [
        ("read_fil", Some("read_file")),
        ("brower", Some("browser")),
        ("teleport", None),
    ] {
        let text = format!(
            "version: 2.2\nowner: {name}\ngeneration_settings:\n  builtin_tools: [python, {name}]\n\
             <|start|>user<|message|>Hi<|end|>\n"
        );
        let ran = check("a.ocml", &text);
        assert_eq!(ran.status, 0, "{}", ran.stdout);
        assert_eq!(
            found(&ran),
            [("tool-unsupported".to_owned(), 4, 27)],
            "{}",
            ran.stdout
        );
        let suggestion = meant.map(|meant| format!("did you mean `{meant}`?"));
        let has = suggestion
            .as_ref()
            .is_some_and(|it| ran.stdout.contains(it));
        assert_eq!(has, meant.is_some(), "{}", ran.stdout);
        assert_eq!(ran.stdout.contains("did you mean"), has, "{}", ran.stdout);
    }
}

#[test]
fn a_named_directory_is_an_argument_only_where_it_is_declared() {
    for (tool, arguments, is_wrong) in [
        ("read_file", r#"{"file":"a","root":"notes"}"#, false),
        ("read_file", r#"{"path":"a","root":"notes"}"#, false),
        ("read_file", r#"{"file":"a","root":"other"}"#, true),
        ("search", r#"{"pattern":"a","root":"notes"}"#, false),
        ("search", r#"{"pattern":"a","root":"other"}"#, true),
        (
            "write_file",
            r#"{"path":"a","content":"a","root":"notes"}"#,
            true,
        ),
    ] {
        let text = format!(
            "<tool name=\"read_file\"><read id=\"notes\" path=\".\"/></tool>\n<tool name=\"search\"/>\n\
             <tool name=\"write_file\"/>\n<tool_call tool_call_id=\"1\" function_name=\"{tool}\">{arguments}\
             </tool_call>\n<tool_response tool_call_id=\"1\">x</tool_response>\n"
        );
        let ran = check("a.md", &text);
        assert_eq!(ran.status == 8, is_wrong, "{arguments}: {}", ran.stdout);
    }
}

#[test]
fn a_malformed_call_of_an_older_form_is_reported_with_its_place() {
    let text = |value: &str| {
        format!("[BOS]<|im_start|>assistant\n<|function_call|>\n{value}\n<|im_end|>[EOS]\n")
    };
    for (value, place) in [
        (r#"{"name": "f", "arguments": {"a": }}"#, Some((3, 34))),
        (r#"{"name": "f", "arguments": "a"}"#, Some((3, 1))),
        (r#"{"arguments": {}}"#, Some((3, 1))),
        (r#"{"name": "f", "arguments": {"a": 1}"#, Some((3, 36))),
        (r#"{"name": "f", "arguments": {"a": 1}}"#, None),
        // Prose about the token.
        ("begins a call.", None),
    ] {
        let ran = check("a.ocml", &text(value));
        let expected: Vec<_> = place
            .map(|(line, column)| ("E-CALL-SCHEMA".to_owned(), line, column))
            .into_iter()
            .collect();
        assert_eq!(found(&ran), expected, "{value}: {}", ran.stdout);
    }
}
