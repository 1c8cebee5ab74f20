//! Chat templates and the spans in their output.
//!
//! `testing/data-masks` compares those of the package `trl` with `transformers`.

use logue_data::mask::{MaskForm, MaskOptions, Masker, Rendered, SpanClass};
use logue_data::{ChatTemplate, O200k, TemplateDate, TemplateOptions};
use serde_json::{Value, json};
use std::sync::Arc;

/// Reasoning only after the last question, as in the template of Qwen 3.
const REWRITING: &str = r#"
{%- set ns = namespace(last=0) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set reasoning = message.reasoning_content if message.reasoning_content is string else '' %}
    {%- if '</think>' in content %}
        {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.role == 'assistant' and loop.index0 > ns.last %}
        {{- '<think>\n' + reasoning.strip('\n') + '\n</think>\n\n' }}
    {%- endif %}
    {{- content }}
    {%- for call in message.tool_calls %}
        {{- '\n' if content or not loop.first }}
        {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}
        {{- '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"#;

/// The same roles with nothing but text.
const PLAIN: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

fn options() -> TemplateOptions {
    TemplateOptions::default()
}

fn render_with(source: &str, options: TemplateOptions, row: &Value) -> Result<Rendered, String> {
    let template = ChatTemplate::new(source, options);
    let rendered = template.and_then(|template| template.render(row.to_string().as_bytes()));
    rendered.map_err(|refusal| refusal.finding.code.to_string())
}

fn render(source: &str, row: &Value) -> Result<Rendered, String> {
    render_with(source, options(), row)
}

fn spans(rendered: &Rendered) -> Vec<(SpanClass, usize, &str)> {
    let spans = rendered.spans.iter();
    spans
        .map(|span| {
            (
                span.class,
                span.message,
                &rendered.text[span.start..span.end],
            )
        })
        .collect()
}

fn question_and(answer: &Value) -> Value {
    json!({"messages": [{"role": "user", "content": "Tide?"}, answer]})
}

fn call(arguments: &Value) -> Value {
    json!({"role": "assistant", "content": "I look.", "tool_calls": [
        {"type": "function", "function": {"name": "tide", "arguments": arguments}}]})
}

#[test]
fn earlier_turns_that_the_template_rewrites_have_their_own_spans() {
    // NVIDIA-NeMo/Automodel#3024: lengths of prefixes put the mask on the text of the user.
    let row = json!({"messages": [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "reasoning_content": "think one", "content": "1"},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "content": "<think>\nthink two\n</think>\n\n2"},
    ]});
    let rendered = render(REWRITING, &row).unwrap();
    assert_eq!(
        spans(&rendered),
        [
            (SpanClass::Answer, 1, "1"),
            (SpanClass::Terminator, 1, "<|im_end|>"),
            (SpanClass::Reasoning, 3, "<think>\nthink two\n</think>\n\n"),
            (SpanClass::Answer, 3, "2"),
            (SpanClass::Terminator, 3, "<|im_end|>"),
        ]
    );
    assert!(
        rendered
            .spans
            .iter()
            .all(|span| span.stop == (span.class == SpanClass::Terminator))
    );
}

#[test]
fn calls_have_spans_with_the_text_that_introduces_them() {
    let row = question_and(&call(&json!({"port": "Brest \"N\"", "days": 2})));
    let rendered = render(REWRITING, &row).unwrap();
    assert_eq!(
        spans(&rendered),
        [
            (SpanClass::Reasoning, 1, "<think>\n\n</think>\n\n"),
            (SpanClass::Answer, 1, "I look."),
            (
                SpanClass::Call,
                1,
                "\n<tool_call>\n{\"name\": \"tide\", \"arguments\": {\"port\": \"Brest \\\"N\\\"\", \"days\": 2}}\n</tool_call>"
            ),
            (SpanClass::Terminator, 1, "<|im_end|>"),
        ]
    );
}

#[test]
fn dropped_calls_are_refused() {
    // axolotl-ai-cloud/axolotl#3824 and the template of LFM2: calls are left out.
    let row = question_and(&call(&json!({"port": "Brest"})));
    assert_eq!(render(PLAIN, &row).unwrap_err(), "E-DATA-TEMPLATE-DROPPED");
    let mut options = options();
    options.allow_dropped = true;
    let rendered = render_with(PLAIN, options, &row).unwrap();
    assert_eq!(
        rendered.text,
        "<|user|>Tide?<|end|><|assistant|>I look.<|end|>"
    );
}

#[test]
fn a_part_of_reasoning_is_not_dropped() {
    // huggingface/trl#6361: a patched template changed reasoning.
    let answer = json!({"role": "assistant", "content": "<think>a</think>b</think>c"});
    let refused = render(REWRITING, &question_and(&answer));
    assert_eq!(refused.unwrap_err(), "E-DATA-TEMPLATE-DROPPED");
    // What the template renders is in the spans, unchanged.
    let reasoning = "<tag> {{ x }} \\n  two  spaces\n\nend";
    let answer = json!({"role": "assistant", "reasoning_content": reasoning, "content": "c"});
    let rendered = render(REWRITING, &question_and(&answer)).unwrap();
    let (class, _, text) = spans(&rendered)[0];
    assert_eq!(class, SpanClass::Reasoning);
    assert_eq!(text, format!("<think>\n{reasoning}\n</think>\n\n"));
}

#[test]
fn an_answer_without_a_stop_token_is_refused() {
    // axolotl-ai-cloud/axolotl#3754: the model never learns to stop.
    let source = PLAIN.replace("{{ m.content }}<|end|>", "{{ m.content }}");
    let row = question_and(&json!({"role": "assistant", "content": "Six."}));
    assert_eq!(render(&source, &row).unwrap_err(), "E-DATA-STOP-UNTRAINED");
    let source = PLAIN.replace("<|end|>", "<<stop>>");
    assert_eq!(render(&source, &row).unwrap_err(), "E-DATA-STOP-UNTRAINED");
    let mut options = options();
    options.stops = vec!["<<stop>>".to_owned()];
    let rendered = render_with(&source, options, &row).unwrap();
    assert_eq!(
        spans(&rendered),
        [
            (SpanClass::Answer, 1, "Six."),
            (SpanClass::Terminator, 1, "<<stop>>"),
        ]
    );
}

#[test]
fn stop_tokens_and_headers_in_text_of_the_row_are_text() {
    let answer = json!({"role": "assistant", "content": "a<|end|>b<|assistant|>c"});
    let mut row = question_and(&answer);
    row["messages"][0]["content"] = json!("<|assistant|>x<|end|>");
    let rendered = render(PLAIN, &row).unwrap();
    assert_eq!(
        spans(&rendered),
        [
            (SpanClass::Answer, 1, "a<|end|>b<|assistant|>c"),
            (SpanClass::Terminator, 1, "<|end|>"),
        ]
    );
}

#[test]
fn a_text_that_begins_twice_is_refused() {
    let mut options = options();
    options.set("bos_token", "\"<s>\"").unwrap();
    let row = question_and(&json!({"role": "assistant", "content": "Six."}));
    let rendered = render_with(PLAIN, options.clone(), &row).unwrap();
    assert!(rendered.text.starts_with("<s><|user|>"));
    let source = format!("<s>{PLAIN}");
    let refused = render_with(&source, options, &row).unwrap_err();
    assert_eq!(refused, "E-DATA-BEGIN-TWICE");
}

#[test]
fn a_template_that_prints_the_day_requires_one() {
    let source = format!("{{{{ strftime_now('%d %b %Y') }}}}{PLAIN}");
    let row = question_and(&json!({"role": "assistant", "content": "Six."}));
    assert_eq!(render(&source, &row).unwrap_err(), "E-DATA-TEMPLATE-DATE");
    let mut options = options();
    options.date = TemplateDate::parse("2026-02-05");
    let rendered = render_with(&source, options, &row).unwrap();
    assert!(rendered.text.starts_with("05 Feb 2026<|user|>"));
}

#[test]
fn a_template_that_changes_text_is_refused_unless_it_has_tags() {
    let row = question_and(&json!({"role": "assistant", "content": "Six o'clock."}));
    for change in ["m.content | reverse", "m.content[:3]", "m.content | length"] {
        let source = PLAIN.replace("{{ m.content }}", &format!("{{{{ {change} }}}}"));
        assert_eq!(
            render(&source, &row).unwrap_err(),
            "E-DATA-TEMPLATE-SPANS",
            "{change}"
        );
        let body = format!("{{{{ {change} }}}}<|end|>");
        let tagged = format!(
            "{{% if m.role == 'assistant' %}}{{% generation %}}{body}{{% endgeneration %}}{{% else %}}{body}{{% endif %}}"
        );
        let source = PLAIN.replace("{{ m.content }}<|end|>", &tagged);
        let rendered = render(&source, &row).unwrap();
        let texts: String = spans(&rendered).iter().map(|span| span.2).collect();
        let expected = rendered.text.rsplit("<|assistant|>").next().unwrap();
        assert_eq!(texts, expected, "{change}");
    }
}

#[test]
fn white_space_that_templates_trim_is_no_obstacle() {
    let source = PLAIN.replace("m.content", "m.content | trim");
    let row = question_and(&json!({"role": "assistant", "content": "\n  Six. \u{3000}"}));
    let rendered = render(&source, &row).unwrap();
    assert_eq!(spans(&rendered)[0], (SpanClass::Answer, 1, "Six."));
}

#[test]
fn marks_are_characters_that_the_row_does_not_have() {
    let answer = |content: &str| json!({"role": "assistant", "content": content});
    let row = question_and(&answer("a\u{f0002}b\u{f0003}"));
    let rendered = render(PLAIN, &row).unwrap();
    assert_eq!(
        spans(&rendered)[0],
        (SpanClass::Answer, 1, "a\u{f0002}b\u{f0003}")
    );
    let row = question_and(&answer("a\u{f0002}b\u{100003}"));
    assert_eq!(render(PLAIN, &row).unwrap_err(), "E-DATA-TEMPLATE-SPANS");
}

#[test]
fn arguments_pass_through_json() {
    for option in ["", "(ensure_ascii=True)", "(indent=2)"] {
        let source = REWRITING.replace("| tojson", &format!("| tojson{option}"));
        let row = question_and(&call(&json!({"port": "Bréſt 🦊"})));
        let rendered = render(&source, &row).unwrap();
        let calls = spans(&rendered);
        let text = calls
            .iter()
            .find(|span| span.0 == SpanClass::Call)
            .unwrap()
            .2;
        let is_escaped = text.contains("Br\\u00e9\\u017ft \\ud83e\\udd8a");
        assert_eq!(is_escaped, option == "(ensure_ascii=True)", "{text}");
    }
}

#[test]
fn arguments_that_the_template_would_encode_twice_are_refused() {
    let row = question_and(&call(&json!("{\"port\": \"Brest\"}")));
    assert_eq!(render(REWRITING, &row).unwrap_err(), "E-DATA-TEMPLATE");
    let source = REWRITING.replace(
        "call.function.arguments | tojson",
        "call.function.arguments",
    );
    let rendered = render(&source, &row).unwrap();
    assert!(
        rendered
            .text
            .contains("\"arguments\": {\"port\": \"Brest\"}}")
    );
}

#[test]
fn the_output_is_that_of_python() {
    let cases = [
        ("{{ [1, 'a', none, true] }}", "[1, 'a', None, True]"),
        ("{{ {'a': 1.0} | tojson }}", "{\"a\": 1.0}"),
        ("{{ messages[0].big | tojson }}", "123456789012345678901"),
        (
            "{{ messages[0].tiny }}|{{ messages[0].tiny | string }}",
            "1e-07|1e-07",
        ),
        ("{{ 'a' is sequence }}{{ {} is iterable }}", "TrueTrue"),
        (
            "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "13",
        ),
        ("{% if true %}\n  x\n{% endif %}\n", "  x\n"),
        ("a\r\nb", "a\nb"),
        (
            "{{ messages[0].absent }}|{{ missing is defined }}",
            "|False",
        ),
        ("{{ messages[0].get('absent', 'default') }}", "default"),
        ("{{ tools }}{{ enable_thinking }}", "NoneFalse"),
    ];
    for (source, expected) in cases {
        let row = json!({
            "messages": [{"role": "user", "content": "x", "tiny": 1e-7, "big": 0, "absent": null}],
            "chat_template_kwargs": {"enable_thinking": false},
        });
        let row = row
            .to_string()
            .replace("\"big\":0", "\"big\":123456789012345678901");
        // The row has no answer, so that only its text matters.
        let mut options = options();
        options.allow_dropped = true;
        let template = ChatTemplate::new(
            &format!("{source}{{% generation %}}{{% endgeneration %}}"),
            options,
        );
        let rendered = template.unwrap().render(row.as_bytes()).unwrap();
        assert_eq!(rendered.text, expected, "{source}");
    }
}

#[test]
fn what_fails_is_refused_with_its_code() {
    let row = question_and(&json!({"role": "assistant", "content": "Six."}));
    for source in [
        "{% if %}",
        "{{ raise_exception('no') }}",
        "{{ messages[0].content.nothing.more }}",
        "{{ strftime_now }}{{ 1 / 0 }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}",
    ] {
        assert_eq!(
            render(source, &row).unwrap_err(),
            "E-DATA-TEMPLATE",
            "{source}"
        );
    }
    for (row, code) in [
        (json!({"text": "x"}), "E-JSON-SHAPE"),
        (json!({"messages": ["x"]}), "E-JSON-SHAPE"),
    ] {
        assert_eq!(render(PLAIN, &row).unwrap_err(), code);
    }
    let template = ChatTemplate::new(PLAIN, options()).unwrap();
    let code = |row: &[u8]| template.render(row).unwrap_err().finding.code.to_string();
    assert_eq!(code(b"{\"messages\": ["), "E-JSON-SYNTAX");
    assert_eq!(code(b"\xff"), "E-JSON-SYNTAX");
}

/// Returns the trained texts of a row, with the stop token `<|end|>`, which the tokenizer has.
fn trained(options: MaskOptions, row: &Value) -> Result<Vec<String>, String> {
    trained_by(&REWRITING.replace("<|im_", "<|"), options, row)
}

fn trained_by(source: &str, options: MaskOptions, row: &Value) -> Result<Vec<String>, String> {
    let template = ChatTemplate::new(source, TemplateOptions::default()).unwrap();
    let masker = Masker::new(options, Box::new(O200k::new()));
    let mut masker = masker.with_template(Arc::new(template));
    let masked = masker.mask(row.to_string().as_bytes());
    let masked = masked.map_err(|refusal| refusal.finding.code.to_string())?;
    Ok(masked.trained_texts().map(str::to_owned).collect())
}

#[test]
fn weights_and_classes_choose_what_is_trained() {
    let row = json!({"messages": [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1", "weight": 0},
        {"role": "user", "content": "Two?"},
        {"role": "assistant", "reasoning_content": "think", "content": "2"},
    ]});
    let all = MaskOptions::new(MaskForm::ChatMl);
    assert_eq!(
        trained(all.clone(), &row).unwrap(),
        ["<think>\nthink\n</think>\n\n2<|end|>"]
    );
    let mut answers = all.clone();
    answers.classes = [SpanClass::Answer, SpanClass::Terminator]
        .into_iter()
        .collect();
    assert_eq!(trained(answers, &row).unwrap(), ["2<|end|>"]);
    let mut row = row;
    row["messages"][3]["weight"] = json!(0);
    assert_eq!(trained(all.clone(), &row).unwrap_err(), "E-DATA-MASK-EMPTY");
    row["messages"][3]["weight"] = json!(0.5);
    assert_eq!(trained(all.clone(), &row).unwrap_err(), "E-DATA-MASK-MARK");
    let parts = json!([{"type": "text", "text": "2", "train": false}]);
    row["messages"][3] = json!({"role": "assistant", "content": parts});
    let text = "m.content if m.content is string else m.content[0].text";
    let source = PLAIN.replace("m.content", &format!("({text})"));
    let refused = trained_by(&source, all, &row).unwrap_err();
    assert_eq!(refused, "E-DATA-MASK-MARK");
}

#[test]
fn a_stop_token_that_is_text_to_the_tokenizer_is_refused() {
    let row = question_and(&json!({"role": "assistant", "content": "Six."}));
    let options = MaskOptions::new(MaskForm::ChatMl);
    let refused = trained_by(REWRITING, options, &row).unwrap_err();
    assert_eq!(refused, "E-DATA-SPECIAL-TOKEN");
}
