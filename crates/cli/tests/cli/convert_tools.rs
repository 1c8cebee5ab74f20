//! Declared tools between the forms: the place in each form, and the way back.

use serde_json::{Value, json};

use crate::program::{Ran, folder, run, run_with_input};

fn convert(text: &str, from: &str, to: &str) -> Ran {
    let folder = folder(&[]);
    run_with_input(
        folder.path(),
        &["convert", "--from", from, "--to", to],
        text,
    )
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A row with one function, which TypeScript holds whole.
fn simple() -> Value {
    row(&json!([{"type": "function", "function": {
        "name": "tide",
        "description": "Tide time.\nOf a port.",
        "parameters": {
            "type": "object",
            "properties": {
                "port": {"type": "string", "description": "A port."},
                "unit": {"type": "string", "enum": ["m", "ft"], "default": "m"},
                "days": {"type": "array", "items": {"type": "number"}},
                "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
            },
            "required": ["port"],
        },
    }}]))
}

/// A row with schemas that TypeScript cannot hold.
fn rich() -> Value {
    row(&json!([
        {"type": "function", "function": {
            "name": "tide",
            "description": "",
            "strict": true,
            "parameters": {
                "type": "object",
                "properties": {"day": {"type": "integer", "minimum": 1}, "text": {"type": "string", "pattern": "<|end|>"}},
                "additionalProperties": false,
            },
        }},
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    ]))
}

fn row(tools: &Value) -> Value {
    json!({
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Tide?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "tide", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "06:12"},
            {"role": "assistant", "content": "At 06:12."},
        ],
        "tools": tools,
    })
}

#[test]
fn declarations_come_back_from_every_form() {
    let forms = [
        "ocml2.2",
        "ocml2.0",
        "ocml0.1",
        "json",
        "json2.0",
        "openai",
        "sharegpt",
        "anthropic",
        "responses",
    ];
    for (name, row) in [("simple", simple()), ("rich", rich())] {
        for form in forms {
            let there = convert(&row.to_string(), "openai", form);
            assert_eq!(there.status, 0, "{form}: {}", there.stderr);
            for word in ["declaration", "header", "tools"] {
                assert!(
                    !there.stderr.contains(word),
                    "{name} {form}: {}",
                    there.stderr
                );
            }
            let back = convert(&there.stdout, form, "openai");
            assert_eq!(value(&back.stdout), row, "{name} {form}: {}", there.stdout);
        }
    }
}

#[test]
fn harmony_declares_a_namespace_and_lists_what_it_cannot_state() {
    let there = convert(&simple().to_string(), "openai", "harmony");
    assert!(!there.stderr.contains("declaration"), "{}", there.stderr);
    let section = "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n\
        // Tide time.\n// Of a port.\ntype tide = (_: {\n// A port.\nport: string,\n\
        unit?: \"m\" | \"ft\", // default: m\ndays?: number[],\nat?: {\n    x: number,\n},\n}) => any;\n\n\
        } // namespace functions<|end|>";
    assert!(there.stdout.contains(section), "{}", there.stdout);
    let back = convert(&there.stdout, "harmony", "openai");
    assert_eq!(value(&back.stdout), simple());

    let there = convert(
        &rich().to_string().replace("<|end|>", "x"),
        "openai",
        "harmony",
    );
    assert_eq!(there.status, 0, "{}", there.stderr);
    let listed = "structure: transcript: the declaration of tool 1 keeps";
    assert!(there.stderr.contains(listed), "{}", there.stderr);
    let back = value(&convert(&there.stdout, "harmony", "openai").stdout);
    assert_eq!(back["tools"][1], rich()["tools"][1]);
    assert_eq!(
        back["tools"][0]["function"]["parameters"]["properties"]["day"]["type"],
        "number"
    );
    assert_eq!(back["messages"], rich()["messages"]);
}

#[test]
fn the_text_of_2_2_is_typescript_if_nothing_is_lost() {
    let simple = convert(&simple().to_string(), "openai", "ocml2.2");
    assert!(
        simple.stdout.contains("\nnamespace functions {\n"),
        "{}",
        simple.stdout
    );
    let rich = convert(&rich().to_string(), "openai", "ocml2.2");
    assert!(rich.stdout.contains("\"minimum\":1"), "{}", rich.stdout);
    // What a declaration spells is no frame.
    assert!(!rich.stdout.contains("\"<|end|>"), "{}", rich.stdout);
}

#[test]
fn instructions_of_a_developer_keep_their_message() {
    let body = "# Instructions\n\nBe brief.\n\n# Tools\n\n## functions\n\nnamespace functions {\n\n\
        type tide = () => any;\n\n} // namespace functions";
    let text =
        format!("<|start|>developer<|message|>{body}<|end|><|start|>user<|message|>Hi<|end|>");
    let row = convert(&text, "harmony", "openai");
    let back = value(&row.stdout);
    assert_eq!(
        back["messages"][0]["content"],
        "# Instructions\n\nBe brief."
    );
    assert_eq!(back["tools"][0]["function"]["name"], "tide");
    let again = convert(&row.stdout, "openai", "harmony");
    assert_eq!(again.stdout, text);
}

#[test]
fn declarations_that_are_not_understood_stay_text() {
    for inner in [
        "type tide = <T>(_: T) => any;",
        "see the manual",
        "type tide = (_: {a: Map}) => any;",
    ] {
        let body = format!("# Tools\n\n## functions\n\nnamespace functions {{\n{inner}\n}}");
        let text = format!("version: 2.2\n<|start|>developer<|message|>{body}<|end|>\n");
        let row = value(&convert(&text, "ocml2.2", "openai").stdout);
        let messages = row.get("messages").unwrap_or(&row);
        assert_eq!(messages[0]["content"], body);
        assert!(row.get("tools").is_none());
    }
}

#[test]
fn other_spellings_of_tools_are_read() {
    let wrapped = simple();
    let function = &wrapped["tools"][0]["function"];
    let mut flat = function.clone();
    flat["type"] = "function".into();
    let mut schema = function.clone();
    let parameters = schema
        .as_object_mut()
        .unwrap()
        .remove("parameters")
        .unwrap();
    schema["input_schema"] = parameters;
    let lists = [
        json!([function]),
        json!([flat]),
        json!([schema]),
        wrapped["tools"].clone(),
    ];
    for list in lists {
        for tools in [list.clone(), json!(list.to_string())] {
            let mut row = wrapped.clone();
            row["tools"] = tools;
            let read = convert(&row.to_string(), "openai", "openai");
            assert_eq!(value(&read.stdout), wrapped, "{row}");
            let is_same = row == wrapped;
            assert_eq!(read.stderr.is_empty(), is_same, "{}", read.stderr);
        }
    }
    let mut row = wrapped.clone();
    row["messages"] = json!(row["messages"].to_string());
    let folder = folder(&[("a.jsonl", &format!("{row}\n{row}\n"))]);
    let read = run(folder.path(), ["convert", "a.jsonl", "--to", "openai"]);
    assert_eq!(read.status, 0, "{}", read.stderr);
    assert!(
        read.stderr.contains("the text of the messages"),
        "{}",
        read.stderr
    );
    for line in read.stdout.lines() {
        assert_eq!(value(line), wrapped);
    }
}

#[test]
fn built_in_tools_pass_between_chatmd_and_rows() {
    let chatmd = "<tool name=\"read_file\"/>\n<user>\nRAW|Hi|RAW</user>\n";
    let there = convert(chatmd, "chatmd", "openai");
    assert!(
        there.stderr.contains("built-in tools become declarations"),
        "{}",
        there.stderr
    );
    let tools = value(&there.stdout)["tools"].clone();
    assert_eq!(tools[0]["function"]["name"], "read_file");
    assert_eq!(
        tools[0]["function"]["parameters"]["required"],
        json!(["file"])
    );
    let back = convert(&there.stdout, "openai", "chatmd");
    assert_eq!((back.stdout.as_str(), back.stderr.as_str()), (chatmd, ""));

    let other = convert(&simple().to_string(), "openai", "chatmd");
    assert!(!other.stdout.contains("<tool "), "{}", other.stdout);
    assert!(
        other.stderr.contains("the declaration of tool 1 dropped"),
        "{}",
        other.stderr
    );
    let mut own = simple();
    own["tools"][0]["function"]["name"] = "read_file".into();
    let own = convert(&own.to_string(), "openai", "chatmd");
    assert!(
        own.stdout.starts_with("<tool name=\"read_file\"/>\n"),
        "{}",
        own.stdout
    );
    assert!(
        own.stderr.contains("becomes that of the built-in tool"),
        "{}",
        own.stderr
    );
}

#[test]
fn a_form_without_declarations_lists_them() {
    let there = convert(&simple().to_string(), "openai", "chatml");
    let listed = "structure: transcript: the declarations of the tools dropped";
    assert!(there.stderr.contains(listed), "{}", there.stderr);
}

#[test]
fn prompts_declare_the_tools_of_a_row() {
    let row = simple().to_string();
    let anthropic = convert(&row, "openai", "anthropic").stdout;
    let rich = convert(&rich().to_string(), "openai", "ocml2.2").stdout;
    let folder = folder(&[("a.json", &row), ("b.json", &anthropic), ("c.ocml", &rich)]);
    for (file, declared) in [
        ("a.json", "type tide = (_: {\n// A port.\nport: string,"),
        ("b.json", "type tide = (_: {\n// A port.\nport: string,"),
        ("c.ocml", "type now = () => any;"),
    ] {
        let ran = run(folder.path(), ["tokens", "render", "--text", file]);
        assert_eq!(ran.status, 0, "{file}: {}", ran.stderr);

        let channel = "Calls to these tools must go to the commentary channel: 'functions'.";
        for part in [declared, channel, "namespace functions {"] {
            assert!(ran.stdout.contains(part), "{file}: {}", ran.stdout);
        }
    }
}

/// The settings of a request, as Chat Completions spell them.
fn settings() -> Value {
    json!({
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        "temperature": 0.5,
        "top_p": 1,
        "stop": ["a", "b"],
        "seed": 7,
        "max_tokens": 9,
        "tool_choice": {"type": "function", "function": {"name": "tide"}},
        "reasoning_effort": "low",
    })
}

#[test]
fn settings_pass_between_rows_2_2_and_chatmd() {
    let mut row = settings();
    for choice in [row["tool_choice"].clone(), json!("auto"), json!("required")] {
        row["tool_choice"] = choice;
        let forms = [
            "ocml2.2",
            "ocml2.0",
            "json",
            "chatmd",
            "openai",
            "responses",
            "anthropic",
        ];
        for form in forms {
            let mut row = row.clone();
            // Each provider lacks some of them.
            let absent: &[&str] = match form {
                "responses" => &["stop", "seed"],
                "anthropic" => &["seed", "reasoning_effort"],
                _ => &[],
            };
            for name in absent {
                row.as_object_mut().unwrap().remove(*name);
            }
            let there = convert(&row.to_string(), "openai", form);
            assert!(
                !there.stderr.contains("structure: transcript"),
                "{form}: {}",
                there.stderr
            );
            let back = convert(&there.stdout, form, "openai");
            assert_eq!(value(&back.stdout), row, "{form}: {}", there.stdout);
        }
        let frames = convert(&row.to_string(), "openai", "ocml2.2").stdout;
        let chatmd = convert(&frames, "ocml2.2", "chatmd").stdout;
        let back = convert(&chatmd, "chatmd", "ocml2.2").stdout;
        assert_eq!(
            value(&convert(&back, "ocml2.2", "openai").stdout),
            row,
            "{chatmd}"
        );
    }
    let responses = convert(&settings().to_string(), "openai", "responses").stdout;
    assert_eq!(value(&responses)["max_output_tokens"], 9);
    let anthropic = convert(&settings().to_string(), "openai", "anthropic").stdout;
    assert_eq!(value(&anthropic)["stop_sequences"], json!(["a", "b"]));
}

#[test]
fn settings_without_a_place_are_listed() {
    let mut row = settings();
    row["response_format"] = json!({"type": "json_object"});
    row["stop"] = json!("a");
    let chatmd = convert(&row.to_string(), "openai", "chatmd");
    for listed in [
        "the setting \"response_format\" dropped",
        "`stop` becomes a list",
    ] {
        assert!(chatmd.stderr.contains(listed), "{}", chatmd.stderr);
    }
    for form in ["harmony", "sharegpt", "chatml", "ocml0.1"] {
        let other = convert(&row.to_string(), "openai", form);
        let is_listed = [
            "generation_settings dropped",
            "the document header is dropped",
        ]
        .iter()
        .any(|listed| other.stderr.contains(listed));
        assert!(is_listed, "{form}: {}", other.stderr);
    }
    let config = "<config model=\"m\" response_schema=\"s.json\"/>\n<user>Hi</user>\n";
    let listed = "structure: transcript: `response_schema` of a `<config>` dropped";
    for form in ["openai", "ocml2.2"] {
        let there = convert(config, "chatmd", form);
        assert!(there.stderr.contains(listed), "{form}: {}", there.stderr);
    }
}

#[test]
fn queries_with_calls_have_schemas() {
    let tools = json!([{"name": "tide", "description": "T.", "parameters": {
        "port": {"type": "str", "description": "A port."},
        "days": {"type": "int, optional"},
        "many": {"type": "List[int]", "default": []},
    }}]);
    let calls = json!([{"name": "tide", "arguments": {"port": "Brest"}}]);
    let row = json!({"query": "Tide?", "tools": tools.to_string(), "answers": calls.to_string()});
    let folder = folder(&[("a.jsonl", &row.to_string())]);
    let read = run(folder.path(), ["convert", "a.jsonl", "--to", "openai"]);
    assert_eq!(read.status, 0, "{}", read.stderr);
    assert!(
        read.stderr.contains("declaration-changed"),
        "{}",
        read.stderr
    );
    let read = value(&read.stdout);
    let schema = &read["tools"][0]["function"]["parameters"];
    assert_eq!(schema["properties"]["days"]["type"], "integer");
    assert_eq!(schema["properties"]["many"]["type"], "array");
    assert_eq!(schema["required"], json!(["port"]));
    assert_eq!(
        read["messages"][1]["tool_calls"][0]["function"]["arguments"],
        "{\"port\":\"Brest\"}"
    );
    let checked = run(folder.path(), ["check", "a.jsonl"]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
}

/// Each provider writes these settings in its own way.
#[test]
fn settings_are_translated_between_providers() {
    let function = json!({"type": "function", "function": {"name": "f"}});
    let schema = json!({"name": "p", "schema": {"type": "object"}, "strict": true});
    let format = json!({"type": "json_schema", "json_schema": schema});
    for (choice, flat, anthropic) in [
        (json!("required"), json!("required"), json!({"type": "any"})),
        (json!("auto"), json!("auto"), json!({"type": "auto"})),
        (
            function,
            json!({"type": "function", "name": "f"}),
            json!({"type": "tool", "name": "f"}),
        ),
    ] {
        let row = json!({
            "messages": [{"role": "user", "content": "Hi"}],
            "tool_choice": choice, "reasoning_effort": "low", "response_format": format,
            "seed": 7, "max_tokens": 9,
        });
        let ran = convert(&row.to_string(), "openai", "responses");
        let written: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(written["tool_choice"], flat);
        assert_eq!(written["reasoning"], json!({"effort": "low"}));
        let text = json!({"type": "json_schema", "name": "p", "schema": {"type": "object"}, "strict": true});
        assert_eq!(written["text"]["format"], text);
        for absent in ["seed", "reasoning_effort", "response_format", "max_tokens"] {
            assert!(written.get(absent).is_none(), "{absent}: {written}");
        }
        assert!(
            ran.stderr.contains("the setting \"seed\" dropped"),
            "{}",
            ran.stderr
        );
        let back: Value =
            serde_json::from_str(&convert(&ran.stdout, "responses", "openai").stdout).unwrap();
        for kept in [
            "tool_choice",
            "reasoning_effort",
            "response_format",
            "max_tokens",
        ] {
            assert_eq!(back[kept], row[kept], "{kept}");
        }
        let ran = convert(&row.to_string(), "openai", "anthropic");
        let written: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(written["tool_choice"], anthropic);
        for absent in ["seed", "reasoning_effort", "response_format"] {
            assert!(written.get(absent).is_none(), "{absent}: {written}");
            let listed = format!("the setting {absent:?} dropped");
            assert!(ran.stderr.contains(&listed), "{}", ran.stderr);
        }
        let back: Value =
            serde_json::from_str(&convert(&ran.stdout, "anthropic", "openai").stdout).unwrap();
        assert_eq!(back["tool_choice"], row["tool_choice"]);
    }
}

#[test]
fn a_tool_without_a_schema_has_the_shape_of_its_form() {
    let row = json!({
        "tools": [{"name": "f", "description": "d", "strict": false}],
        "messages": [{"role": "user", "content": "Hi"}],
    });
    let ran = convert(&row.to_string(), "anthropic", "openai");
    let written: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(written["tools"][0]["function"]["name"], "f", "{written}");
    let ran = convert(&ran.stdout, "openai", "anthropic");
    let written: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        written["tools"][0]["input_schema"],
        json!({"type": "object"})
    );
    assert!(ran.stderr.contains("tool 1 got a schema"), "{}", ran.stderr);
}

#[test]
fn a_type_of_too_many_lists_stays_text() {
    let text = |lists: usize| {
        format!(
            "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {{\n\n\
             type f = (_: {{\na?: string{},\n}}) => any;\n\n}} // namespace functions<|end|>\
             <|start|>user<|message|>Hi<|end|>",
            "[]".repeat(lists)
        )
    };
    let ran = convert(&text(8), "harmony", "openai");
    assert!(value(&ran.stdout)["tools"].is_array(), "{}", ran.stderr);
    let deep = text(5_000);
    let ran = convert(&deep, "harmony", "openai");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let written = value(&ran.stdout);
    let messages = written["messages"].as_array().or(written.as_array());
    let developer = messages.unwrap()[0]["content"].as_str().unwrap();
    assert!(developer.contains(&"[]".repeat(5_000)), "{written}");
}
