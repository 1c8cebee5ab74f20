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
    assert_eq!(trained(&rows[0]), ["1[301]", "<think>b</think>2[301]"]);
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
        ["--date", "today"],
        ["--variable", "mode"],
    ] {
        let (status, rows, _) = mask(TEMPLATE, &format!("{ROW}\n"), &options);
        assert_eq!((status, rows.len()), (2, 0), "{options:?}");
    }
    let (status, _, _) = mask("{% if %}", &format!("{ROW}\n"), &[]);
    assert_eq!(status, 3);
}
