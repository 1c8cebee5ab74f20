//! Harmony written: cases as documents.
//!
//! The cases are in `conformance/openchatml/render/*.md`. The first code block under a heading is a
//! conversation in JSON, or with `schema` behind its fence a function's parameters. The words that
//! may follow: `completion ROLE`, `training`, `compat`, `keep` and `escape`. The second block is the
//! text, or with `error` as its fence's word why there is none. Ids are compared with it, too.

use std::fmt::Write as _;

use openchatml::FrameRole;
use openchatml::harmony::{
    Conversation, DeveloperContent, Form, FunctionTool, Reasoning, RenderMessage, RenderOptions,
    RendererCompat, ToolNamespace,
};

const SUITES: [(&str, usize); 5] = [
    (
        include_str!("../../../../conformance/openchatml/render/conversations.md"),
        20,
    ),
    (
        include_str!("../../../../conformance/openchatml/render/contents.md"),
        12,
    ),
    (
        include_str!("../../../../conformance/openchatml/render/schemas.md"),
        38,
    ),
    (
        include_str!("../../../../conformance/openchatml/render/schemas-compat.md"),
        38,
    ),
    (
        include_str!("../../../../conformance/openchatml/render/refused.md"),
        20,
    ),
];

#[derive(Default)]
struct Case<'c> {
    title: &'c str,
    /// The words behind a block's fence, and the block.
    blocks: Vec<(&'c str, &'c str)>,
}

/// The cases of a suite. A heading within a block is none.
fn cases(suite: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let mut rest = suite;
    while let Some((line, after)) = rest.split_once('\n') {
        rest = after;
        if let Some(title) = line.strip_prefix("## ") {
            cases.push(Case {
                title,
                ..Case::default()
            });
        }
        let fence = &line[..line.len() - line.trim_start_matches('`').len()];
        if fence.len() >= 3 {
            let (block, after) = after.split_once(&format!("\n{fence}\n")).unwrap();
            cases
                .last_mut()
                .unwrap()
                .blocks
                .push((&line[fence.len()..], block));
            rest = after;
        }
    }
    cases
}

struct Task {
    conversation: Conversation,
    form: Form,
    options: RenderOptions,
    is_schema: bool,
}

fn task(info: &str, source: &str) -> Task {
    let mut task = Task {
        conversation: Conversation::default(),
        form: Form::Conversation,
        options: RenderOptions::default(),
        is_schema: false,
    };
    let mut words = info.split_whitespace();
    assert_eq!(words.next(), Some("json"), "{info}");
    while let Some(word) = words.next() {
        match word {
            "schema" => task.is_schema = true,
            "completion" => {
                task.form = Form::Completion(FrameRole::parse(words.next().unwrap().as_bytes()));
            }
            "training" => task.form = Form::Training,
            "compat" => task.options = RenderOptions::compat(RendererCompat::OpenAi0_0_8),
            "keep" => task.options = task.options.with_reasoning(Reasoning::Keep),
            "escape" => task.options = task.options.with_escape(true),
            _ => panic!("{word}"),
        }
    }
    task.conversation = if task.is_schema {
        let parameters = serde_json::from_str(source).unwrap();
        let function = FunctionTool::new("f", "", Some(parameters));
        let tools = ToolNamespace::functions([function]);
        let content = DeveloperContent::default().with_tools(tools);
        Conversation::new(vec![RenderMessage::developer(content)])
    } else {
        Conversation::from_json(source).unwrap()
    };
    task
}

const BEFORE_SCHEMA: &str = "<|start|>developer<|message|># Tools\n\n## functions\n\n\
    namespace functions {\n\ntype f = (_: ";
const BEHIND_SCHEMA: &str = ") => any;\n\n} // namespace functions<|end|>";

fn check(case: &Case<'_>) -> Result<(), String> {
    let [(info, source), (kind, expected)] = case.blocks.as_slice() else {
        panic!("{}: two blocks", case.title);
    };
    let task = task(info, source);
    let found = task.conversation.to_text(task.form, &task.options);
    let found = match (&found, *kind) {
        (Ok(text), "text") if task.is_schema => text
            .strip_prefix(BEFORE_SCHEMA)
            .and_then(|text| text.strip_suffix(BEHIND_SCHEMA))
            .unwrap_or(text)
            .to_owned(),
        (Ok(text), "text") => text.clone(),
        (Err(error), "error") => error.to_string(),
        (other, _) => format!("{other:?}"),
    };
    if found != *expected {
        return Err(format!(
            "## {}\nexpected:\n{expected}\nfound:\n{found}\n",
            case.title
        ));
    }
    #[cfg(feature = "o200k")]
    ids_agree(case, &task);
    Ok(())
}

/// A body never keeps ids from being made, and where there is a plain text, they spell it.
#[cfg(feature = "o200k")]
fn ids_agree(case: &Case<'_>, task: &Task) {
    use openchatml::harmony::{RenderError, Renderer};

    let text = task
        .conversation
        .to_text(task.form, &task.options.with_escape(false));
    let ids = Renderer::new().ids(&task.conversation, task.form, &task.options);
    match (ids, text) {
        (Ok(ids), Ok(text)) => assert_eq!(logue_o200k::decode_text(&ids).unwrap(), text),
        (Err(error), Err(same)) => assert_eq!(error, same, "{}", case.title),
        (Ok(_), Err(RenderError::ControlToken { .. } | RenderError::BracketAtEnd { .. })) => {}
        (ids, text) => panic!("{}: {ids:?} {text:?}", case.title),
    }
}

#[test]
fn every_case_renders_as_written() {
    let mut failed = String::new();
    for (suite, at_least) in SUITES {
        let cases = cases(suite);
        assert!(
            cases.len() >= at_least,
            "only {} cases were found",
            cases.len()
        );
        for case in &cases {
            if let Err(report) = check(case) {
                writeln!(failed, "{report}").unwrap();
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

#[test]
fn a_message_alone_knows_of_functions_what_it_is_told() {
    let system = openchatml::harmony::SystemContent::empty().with_required_channels(["final"]);
    let message = RenderMessage::system(system);
    let options = RenderOptions::default();
    let alone = message.to_text(false, &options).unwrap();
    let with_functions = message.to_text(true, &options).unwrap();
    assert!(!alone.contains("'functions'"));
    assert!(
        with_functions
            .contains("\nCalls to these tools must go to the commentary channel: 'functions'.")
    );
}

#[test]
fn headers_that_are_not_looked_at_are_written_as_they_are() {
    let message = RenderMessage::user("x").with_name("a b");
    let options = RenderOptions::default().with_check_headers(false);
    assert_eq!(
        message.to_text(false, &options).unwrap(),
        "<|start|>user:a b<|message|>x<|end|>"
    );
}

/// What models were trained on has to stay as it is; its length and its ends tell of any slip.
#[test]
fn the_tools_that_models_know_are_told_in_their_words() {
    let text = |tools: ToolNamespace| {
        let content = openchatml::harmony::SystemContent::empty().with_tools(tools);
        let message = RenderMessage::system(content);
        message.to_text(false, &RenderOptions::default()).unwrap()
    };
    let browser = text(ToolNamespace::browser());
    assert!(browser.starts_with(
        "<|start|>system<|message|># Tools\n\n## browser\n\n// Tool for browsing.\n// The `cursor` appears"
    ));
    assert!(browser.contains("\n// `【{cursor}†L{line_start}(-L{line_end})?】`, for example:"));
    assert!(browser.contains("type open = (_: {\nid?: number | string, // default: -1\ncursor?:"));
    assert!(browser.ends_with("}) => any;\n\n} // namespace browser<|end|>"));
    let python = text(ToolNamespace::python());
    assert!(python.contains("\n\n## python\n\nUse this tool to execute Python code"));
    assert!(python.ends_with("Depends on the cluster.<|end|>"));
    assert_eq!((browser.len(), python.len()), (1592, 657));
}

/// A header of values as long as they may be is read whole, and longer ones are refused.
#[test]
fn header_values_have_a_length_that_is_read() {
    let most = openchatml::limits::MAX_FRAME_HEADER / 8;
    let message = |length: usize| {
        let value = "v".repeat(length);
        RenderMessage::assistant("x")
            .with_name(value.as_str())
            .with_recipient(value.as_str())
            .with_channel(value.as_str())
            .with_content_type(value)
    };
    let options = RenderOptions::default();
    assert!(message(most + 1).to_text(false, &options).is_err());
    let text = message(most).to_text(false, &options).unwrap();
    let document = openchatml::harmony::read(
        text.as_bytes(),
        &openchatml::harmony::HarmonyReadOptions::default(),
    );
    assert_eq!(document.messages.len(), 1);
    let head = &document.messages[0].head;
    assert_eq!(
        head.content_type.as_deref(),
        message(most).content_type.as_deref()
    );
    assert_eq!(document.messages[0].content, "x");
}

/// Small schemas of which a huge text could be made.
#[test]
fn references_do_not_make_a_text_explode() {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = serde_json::json!({"$ref": format!("#/$defs/l{}", level + 1)});
        let level_schema = serde_json::json!({
            "type": "object",
            "properties": {"a": next, "b": {"anyOf": [next, next]}, "c": {"allOf": [next]}},
        });
        definitions.insert(format!("l{level}"), level_schema);
    }
    let mut schema = serde_json::json!({"$ref": "#/$defs/l0"});
    schema["$defs"] = definitions.into();
    for compat in [RendererCompat::Meant, RendererCompat::OpenAi0_0_8] {
        let text = written(&schema, compat);
        assert!(text.len() < 1 << 18, "{}", text.len());
    }
}

#[test]
fn a_deep_schema_is_written_to_its_limit() {
    let mut schema = serde_json::json!({"type": "string"});
    for _ in 0..1_000 {
        schema = serde_json::json!({"type": "array", "items": schema});
    }
    for compat in [RendererCompat::Meant, RendererCompat::OpenAi0_0_8] {
        let text = written(&schema, compat);
        assert!(text.contains("any[][]"), "{text}");
    }
    // A value so deep is dropped step by step.
    while let Some(items) = schema.get_mut("items") {
        schema = items.take();
    }
}

pub(crate) fn written(schema: &serde_json::Value, compat: RendererCompat) -> String {
    let function = FunctionTool::new("f", "", Some(schema.clone()));
    let tools = ToolNamespace::functions([function]);
    let message = RenderMessage::developer(DeveloperContent::default().with_tools(tools));
    let options = RenderOptions::compat(compat).with_escape(true);
    let text = message.to_text(false, &options).unwrap();
    let start = text.find("(_: ").unwrap() + "(_: ".len();
    let end = text.rfind(BEHIND_SCHEMA).unwrap();
    text[start..end].to_owned()
}
