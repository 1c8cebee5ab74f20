//! `logue data mask --to template`: chat templates with tokenizers from files.

use std::fs;

use serde_json::{Value, json};

use crate::program::{folder, run};

/// A template with reasoning only after the last question.
const TEMPLATE: &str = "{{ bos_token }}{% set ns = namespace(last=0) %}{% for m in messages %}\
    {% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}\
    <|start|>{{ m.role }}\n{% if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}\
    {{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

const ROW: &str = r#"{"messages":[{"role":"user","content":"One?"},{"role":"assistant","reasoning_content":"a","content":"1"},{"role":"user","content":"Two?"},{"role":"assistant","reasoning_content":"b","content":"2"}]}"#;

/// A tokenizer whose tokens are bytes, with the tokens of the template.
fn tokenizer() -> String {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut vocabulary = serde_json::Map::new();
    let mut others = 0;
    for byte in 0..=u8::MAX {
        let character = if is_printable(byte) {
            char::from(byte)
        } else {
            others += 1;
            char::from_u32(255 + others).unwrap()
        };
        vocabulary.insert(character.to_string(), json!(byte));
    }
    json!({
        "added_tokens": [
            {"id": 300, "content": "<|start|>", "special": true, "normalized": false},
            {"id": 301, "content": "<|end|>", "special": true, "normalized": false},
            {"id": 302, "content": "<s>", "special": true, "normalized": false},
        ],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [302], "tokens": ["<s>"]}}},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    })
    .to_string()
}

/// Masks rows by a template; returns the status, the rows, and the refused codes.
fn mask(template: &str, rows: &str, options: &[&str]) -> (i32, Vec<Value>, Vec<String>) {
    let folder = folder(&[
        ("in.jsonl", rows),
        ("chat.jinja", template),
        ("tokenizer.json", &tokenizer()),
        (
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>"}}"#,
        ),
    ]);
    let common = [
        "data",
        "mask",
        "in.jsonl",
        "-o",
        "out.jsonl",
        "--to",
        "template",
        "--template",
        "chat.jinja",
        "--tokenizer",
        "tokenizer.json",
        "--tokenizer-config",
        "tokenizer_config.json",
    ];
    let ran = run(folder.path(), common.iter().chain(options));
    let lines = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let refused = lines("out.jsonl.quarantine.jsonl");
    let codes = refused
        .iter()
        .map(|row| row["code"].as_str().unwrap().to_owned());
    (ran.status, lines("out.jsonl"), codes.collect())
}

/// The trained ids of a row, with those of bytes as text.
fn trained(row: &Value) -> Vec<String> {
    let mut texts = vec![String::new()];
    for label in row["labels"].as_array().unwrap() {
        let last = texts.last_mut().unwrap();
        match label.as_i64().unwrap() {
            -100 if last.is_empty() => {}
            -100 => texts.push(String::new()),
            id => match u8::try_from(id) {
                Ok(byte) => last.push(char::from(byte)),
                Err(_) => last.push_str(&format!("[{id}]")),
            },
        }
    }
    texts.retain(|text| !text.is_empty());
    texts
}

#[test]
fn a_template_and_a_tokenizer_give_ids_and_masks() {
    let (status, rows, codes) = mask(TEMPLATE, &format!("{ROW}\n"), &[]);
    assert_eq!((status, codes.as_slice()), (0, [].as_slice()));
    // The text begins with one token `<s>`, which the template writes.
    let ids = rows[0]["input_ids"].as_array().unwrap();
    assert_eq!(ids[..2], [json!(302), json!(300)]);
    // The reasoning of the first answer was left out, so that the answer is not trained.
    assert_eq!(trained(&rows[0]), ["<think>b</think>2[301]"]);
}

/// Masks one row; returns its trained texts, or its code.
fn mask_one(template: &str, row: &str, options: &[&str]) -> Result<Vec<String>, String> {
    let (status, rows, codes) = mask(template, &format!("{row}\n"), options);
    match (status, rows.as_slice(), codes.as_slice()) {
        (0, [row], []) => Ok(trained(row)),
        (8, [], [code]) => Err(code.clone()),
        _ => panic!("status {status}, {rows:?}, {codes:?}"),
    }
}

/// A template whose tags enclose `inner` for messages of the assistant.
fn tagged(inner: &str, after: &str) -> String {
    format!(
        "{{% for m in messages %}}<|start|>{{{{ m.role }}}}\n{{% if m.role == 'assistant' %}}\
         {{% generation %}}{inner}{{% endgeneration %}}{after}{{% else %}}{{{{ m.content }}}}<|end|>{{% endif %}}\
         {{% endfor %}}"
    )
}

const PLAIN_ROW: &str =
    r#"{"messages":[{"role":"user","content":"One?"},{"role":"assistant","content":"1"}]}"#;

#[test]
fn white_space_after_the_stop_token_is_no_obstacle() {
    // The templates of Qwen end in `<|im_end|>` and a line end within the tags.
    let newline = tagged("{{ m.content }}<|end|>{{ '\\n' }}", "");
    let trained = mask_one(&newline, PLAIN_ROW, &[]).unwrap();
    assert_eq!(trained, ["1[301]\n"]);
    // Another token after it is one with which the model goes on.
    for (inner, after) in [
        ("{{ m.content }}<|end|>x", ""),
        ("{{ m.content }}<|end|><|start|>", ""),
        ("{{ m.content }}", "<|end|>"),
        ("{{ m.content }}{{ '\\n' }}", "<|end|>"),
    ] {
        let code = mask_one(&tagged(inner, after), PLAIN_ROW, &[]).unwrap_err();
        assert_eq!(code, "E-DATA-STOP-UNTRAINED", "{inner}");
    }
    let untrained = ["--train", "answer"];
    let code = mask_one(&newline, PLAIN_ROW, &untrained).unwrap_err();
    assert_eq!(code, "E-DATA-STOP-UNTRAINED");
}

#[test]
fn answers_whose_reasoning_was_left_out_are_not_trained() {
    let without = TEMPLATE.replace(
        "{% if m.reasoning_content",
        "{% if false and m.reasoning_content",
    );
    let code = mask_one(&without, ROW, &[]).unwrap_err();
    assert_eq!(code, "E-DATA-TEMPLATE-DROPPED");
    let accepted = ["--train-without-reasoning"];
    assert_eq!(
        mask_one(&without, ROW, &accepted).unwrap(),
        ["1[301]", "2[301]"]
    );
    assert_eq!(
        mask_one(TEMPLATE, ROW, &accepted).unwrap(),
        ["1[301]", "<think>b</think>2[301]"]
    );
    // What is dropped may pass, and is still not trained.
    let code = mask_one(&without, ROW, &["--allow-dropped"]).unwrap_err();
    assert_eq!(code, "E-DATA-MASK-EMPTY");
    // Reasoning within the text, and in parts of a content.
    let strips = "{{ m.content.split('</think>')[-1] }}<|end|>";
    let in_text = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"<think>why</think>y"}]}"#;
    let code = mask_one(&tagged(strips, ""), in_text, &[]).unwrap_err();
    assert_eq!(code, "E-DATA-TEMPLATE-DROPPED");
    let kept = mask_one(&tagged("{{ m.content }}<|end|>", ""), in_text, &[]);
    assert_eq!(kept.unwrap(), ["<think>why</think>y[301]"]);
    let in_part = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"why"},{"type":"text","text":"y"}]}]}"#;
    let reads = "{% for p in m.content %}{{ p.text }}{% endfor %}<|end|>";
    let code = mask_one(&tagged(reads, ""), in_part, &[]).unwrap_err();
    assert_eq!(code, "E-DATA-TEMPLATE-DROPPED");
    // Reasoning that the template changes may be anything.
    let changes = "{{ m.reasoning_content | length }}{{ m.content }}<|end|>";
    let last = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","reasoning_content":"why","content":"y"}]}"#;
    let code = mask_one(&tagged(changes, ""), last, &[]).unwrap_err();
    assert_eq!(code, "E-DATA-TEMPLATE-DROPPED");
}

#[test]
fn every_message_of_a_turn_without_its_reasoning_is_untrained() {
    // The call of the first turn has reasoning, which the template leaves out; its answer follows from it.
    let rows = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","reasoning_content":"a","content":"1"},{"role":"tool","content":"t"},{"role":"assistant","content":"2"},{"role":"user","content":"y"},{"role":"assistant","content":"3"}]}"#;
    assert_eq!(mask_one(TEMPLATE, rows, &[]).unwrap(), ["3[301]"]);
}

#[test]
fn parts_that_the_template_prints_as_python_are_refused() {
    let answer = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"y"}]}]}"#;
    let question = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":"y"}]}"#;
    for template in [
        TEMPLATE.replace("m.content", "m.content | trim"),
        TEMPLATE.to_owned(),
        tagged("{{ m.content | trim }}<|end|>", "")
            .replace("{{ m.content }}", "{{ m.content | string }}"),
    ] {
        for row in [answer, question] {
            let code = mask_one(&template, row, &[]).unwrap_err();
            assert_eq!(code, "E-DATA-TEMPLATE", "{template}");
        }
    }
    let reads = TEMPLATE.replace("{{ m.content }}", "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}");
    assert_eq!(mask_one(&reads, answer, &[]).unwrap(), ["y[301]"]);
    assert_eq!(mask_one(&reads, question, &[]).unwrap(), ["y[301]"]);
    // JSON is a form that templates choose, such as for results of tools.
    let json = TEMPLATE.replace(
        "{{ m.content }}",
        "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content | tojson }}{% endif %}",
    );
    assert_eq!(mask_one(&json, question, &[]).unwrap(), ["y[301]"]);
    // A question that the template does not print is lost.
    let ignores = TEMPLATE.replace(
        "{{ m.content }}",
        "{{ m.content if m.content is string else '' }}",
    );
    assert_eq!(
        mask_one(&ignores, question, &[]).unwrap_err(),
        "E-DATA-TEMPLATE-DROPPED"
    );
    let image = r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a.png"}}]},{"role":"assistant","content":"y"}]}"#;
    assert_eq!(
        mask_one(&reads, image, &[]).unwrap_err(),
        "E-DATA-MASK-CONTENT"
    );
}

#[test]
fn messages_after_the_last_trained_one_are_left_out_of_templates() {
    let row = ROW.replace(r#""content":"2""#, r#""content":"2","weight":0"#);
    let (status, rows, _) = mask(
        TEMPLATE,
        &format!("{row}\n"),
        &["--drop-trailing", "--columns", "text"],
    );
    assert_eq!(status, 0);
    assert_eq!(
        rows[0]["text"],
        "<s><|start|>user\nOne?<|end|><|start|>assistant\n<think>a</think>1<|end|>"
    );
}

#[test]
fn a_message_that_says_nothing_or_contradicts_itself_is_refused() {
    let row = |message: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant",{message}}}]}}"#
        )
    };
    for (message, code) in [
        (r#""content":"""#, "E-DATA-MASK-EMPTY"),
        (r#""content":" \n""#, "E-DATA-MASK-EMPTY"),
        (
            r#""content":"y","reasoning":"a","thinking":"b""#,
            "E-DATA-MASK-CONTENT",
        ),
        (r#""content":"y","refusal":"No.""#, "E-DATA-MASK-CONTENT"),
        (r#""content":"y","content":"z""#, "E-JSON-SHAPE"),
    ] {
        assert_eq!(
            mask_one(TEMPLATE, &row(message), &[]).unwrap_err(),
            code,
            "{message}"
        );
    }
    let same = row(r#""content":"y","reasoning":"a","thinking":"a""#);
    let trained = mask_one(TEMPLATE, &same, &[]).unwrap();
    assert_eq!(trained, ["<think>a</think>y[301]"]);
}

#[test]
fn the_weight_of_a_row_counts() {
    for (weight, code) in [("0", "E-DATA-MASK-EMPTY"), ("0.5", "E-DATA-MASK-MARK")] {
        let row = ROW.replacen('{', &format!("{{\"weight\":{weight},"), 1);
        assert_eq!(mask_one(TEMPLATE, &row, &[]).unwrap_err(), code);
    }
    let row = ROW.replacen('{', "{\"weight\":1,", 1);
    assert!(mask_one(TEMPLATE, &row, &[]).is_ok());
    let row = ROW.replacen('{', "{\"train\":false,", 1);
    assert_eq!(
        mask_one(TEMPLATE, &row, &[]).unwrap_err(),
        "E-DATA-MASK-MARK"
    );
    assert!(mask_one(TEMPLATE, &row, &["--marks", "weight,ignore"]).is_ok());
    let code = mask_one(TEMPLATE, &row, &["--marks", "train"]).unwrap_err();
    assert_eq!(code, "E-DATA-MASK-EMPTY");
}

#[test]
fn rows_that_would_be_a_guess_are_refused_with_codes() {
    let call = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}"#;
    let (status, rows, codes) = mask(TEMPLATE, &format!("{ROW}\n{call}\n{ROW}\n"), &[]);
    assert_eq!((status, rows.len()), (8, 2));
    assert_eq!(codes, ["E-DATA-TEMPLATE-DROPPED"]);
    let changes = [
        (
            "{{ m.content }}",
            "{{ m.content | upper | reverse }}",
            "E-DATA-TEMPLATE-SPANS",
        ),
        (
            "{{ m.content }}",
            "{{ m.content }}{{ strftime_now('%Y') }}",
            "E-DATA-TEMPLATE-DATE",
        ),
        ("<|end|>", "", "E-DATA-STOP-UNTRAINED"),
        ("<|end|>", "<|im_end|>", "E-DATA-SPECIAL-TOKEN"),
        (
            "{{ bos_token }}",
            "{{ bos_token }}<s>",
            "E-DATA-BEGIN-TWICE",
        ),
        (
            "{{ m.content }}",
            "{{ raise_exception('no') }}",
            "E-DATA-TEMPLATE",
        ),
    ];
    for (from, to, code) in changes {
        let (status, rows, codes) = mask(&TEMPLATE.replace(from, to), &format!("{ROW}\n"), &[]);
        assert_eq!((status, rows.len(), codes), (8, 0, vec![code.to_owned()]));
    }
}

#[test]
fn plain_chatml_has_no_place_for_calls_and_reasoning() {
    let call = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}"#;
    let folder = folder(&[
        ("in.jsonl", &format!("{PLAIN_ROW}\n{call}\n{ROW}\n")),
        (
            "tokenizer.json",
            &tokenizer()
                .replace("<|start|>", "<|im_start|>")
                .replace("<|end|>", "<|im_end|>"),
        ),
    ]);
    let command = [
        "data",
        "mask",
        "in.jsonl",
        "-o",
        "out.jsonl",
        "--to",
        "chatml",
        "--tokenizer",
        "tokenizer.json",
    ];
    let ran = run(folder.path(), command);
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no place for a tool call"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("no place for reasoning"),
        "{}",
        ran.stderr
    );
    let rows = fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
    assert_eq!(trained(&serde_json::from_str(&rows).unwrap()), ["1[301]"]);
}

#[test]
fn a_text_that_begins_twice_is_refused_without_the_name_of_its_token() {
    let twice = format!("<s>{TEMPLATE}").replace("{{ bos_token }}", "<s>");
    let unnamed = ["--variable", "bos_token=\"\""];
    assert_eq!(
        mask_one(&twice, ROW, &unnamed).unwrap_err(),
        "E-DATA-BEGIN-TWICE"
    );
    let once = twice.replacen("<s>", "", 1);
    assert!(mask_one(&once, ROW, &unnamed).is_ok());
}

#[test]
fn options_set_the_day_variables_and_stop_tokens() {
    let source = TEMPLATE
        .replace("{{ bos_token }}", "{{ strftime_now('%d') }}{{ mode }}")
        .replace("<|end|>", "<|start|>");
    let options = [
        "--date",
        "2026-02-05",
        "--variable",
        "mode=\"deep\"",
        "--stop-token",
        "<|start|>",
        "--columns",
        "text",
    ];
    let row = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}"#;
    let (status, rows, _) = mask(&source, &format!("{row}\n"), &options);
    assert_eq!(status, 0);
    let text = rows[0]["text"].as_str().unwrap();
    assert!(text.starts_with("05deep<|start|>user\nx"), "{text}");
}

#[test]
fn a_wrong_command_line_is_named() {
    for options in [
        ["--roles", "user"],
        ["--reasoning", "drop"],
        ["--date", "today"],
        ["--variable", "mode"],
    ] {
        let (status, rows, _) = mask(TEMPLATE, &format!("{ROW}\n"), &options);
        assert_eq!((status, rows.len()), (2, 0), "{options:?}");
    }
    let (status, _, _) = mask("{% if %}", &format!("{ROW}\n"), &[]);
    assert_eq!(status, 3);
}

/// A template that renders text and calls, and requires objects as arguments.
const CALLS: &str = "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls %}\
    [{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}]{% endfor %}<|end|>\
    {% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

#[test]
fn rows_of_other_shapes_are_converted() {
    let blocks = r#"{"system":"S","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"y"},{"type":"tool_use","id":"1","name":"f","input":{"a":"b"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]},{"role":"assistant","content":"z"}]}"#;
    let old_call = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","function_call":{"name":"f","arguments":"{\"a\":\"b\"}"}},{"role":"function","name":"f","content":"r"},{"role":"assistant","content":"z"}]}"#;
    let called: &[&str] = &["y[f a=b][301]", "z[301]"];
    let answered: &[&str] = &["y[301]"];
    for (row, expected) in [
        (r#"{"instruction":"x","input":"","output":"y"}"#, answered),
        (r#"{"prompt":"x","completion":"y"}"#, answered),
        (r#"{"prompt":"x","completion":"y","label":true}"#, answered),
        (
            r#"{"input":[{"role":"user","content":"x"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y"}]}]}"#,
            answered,
        ),
        (
            r#"{"conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"y"}]}"#,
            answered,
        ),
        (
            r#"{"conversations":[{"from":"human","value":"w"},{"from":"gpt","value":"v","weight":0},{"from":"human","value":"x"},{"from":"gpt","value":"y"}]}"#,
            answered,
        ),
        (
            r#"{"conversations":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}"#,
            answered,
        ),
        (blocks, called),
        (old_call, called),
    ] {
        assert_eq!(mask_one(CALLS, row, &[]).unwrap(), expected, "{row}");
    }
    let (_, rows, _) = mask(CALLS, &format!("{blocks}\n"), &["--columns", "text"]);
    let text = rows[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("<|start|>system\nS<|end|><|start|>user\nx"),
        "{text}"
    );
    for (row, code) in [
        (
            r#"{"prompt":"x","chosen":"y","rejected":"z"}"#,
            "E-DATA-MASK-CONTENT",
        ),
        (
            r#"{"prompt":"x","completion":"y","label":false}"#,
            "E-DATA-MASK-CONTENT",
        ),
        (
            r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"label":false}"#,
            "E-DATA-MASK-CONTENT",
        ),
        (
            r#"{"prompt":"x","completion":"y","weight":0}"#,
            "E-DATA-MASK-MARK",
        ),
        (
            &blocks.replace(r#""content":"z""#, r#""content":"z","weight":0"#),
            "E-DATA-MASK-MARK",
        ),
        (r#"{"text":"x"}"#, "E-JSON-SHAPE"),
    ] {
        assert_eq!(mask_one(CALLS, row, &[]).unwrap_err(), code, "{row}");
    }
}

#[test]
fn arguments_of_calls_are_objects_for_templates_that_require_them() {
    let row = |arguments: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":"y","tool_calls":[{{"type":"function","function":{{"name":"f","arguments":{arguments}}}}}]}}]}}"#
        )
    };
    let object = r#"{"a":"b","big":123456789012345678901}"#;
    let text = serde_json::Value::from(object).to_string();
    for arguments in [object, &text] {
        let trained = mask_one(CALLS, &row(arguments), &[]).unwrap();
        assert_eq!(trained, ["y[f a=b big=123456789012345678901][301]"]);
    }
    let json = CALLS.replace(
        "{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}{% endfor %}",
        "{{ c.function.arguments | tojson }}",
    );
    let trained = mask_one(&json, &row(&text), &[]).unwrap();
    assert_eq!(
        trained,
        [r#"y[f{"a": "b", "big": 123456789012345678901}][301]"#]
    );
    let written = json.replace(" | tojson", "");
    let trained = mask_one(&written, &row(&text), &[]).unwrap();
    assert_eq!(trained, [format!("y[f{object}][301]")]);
}
