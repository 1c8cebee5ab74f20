//! Prints the request bodies of each provider as JSON lines, as a server receives them.
//!
//! `check.py` validates the bodies with the providers' own packages.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use logue_message::{
    CallKind, ChatMessage, ContentBlock, ImageDetail, ImageSource, ToolCall, ToolDefinition,
};
use logue_model::{
    EndpointOptions, HttpProvider, ModelRequest, Provider, SamplingSettings, ServerKind,
    ToolChoice, WireFormat,
};
use serde_json::{Value, json};
use testkit::{Delivery, ModelServer, Reply};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let printed = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(print_all()));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A failure of standard error cannot be reported.
            let _ignored = writeln!(io::stderr(), "provider-types: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A response that is valid in every format.
const ANSWER: &str = r#"{"type":"message","object":"response","status":"completed",
    "choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],
    "output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}],
    "content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}"#;

async fn print_all() -> Result<(), Box<dyn Error>> {
    let reply = Reply::Body("application/json", ANSWER.as_bytes().to_vec());
    let server = ModelServer::start(vec![reply], Delivery::Whole)?;
    let provider = |format| HttpProvider::new(format, EndpointOptions::new(server.base_url()));
    let mut out = io::stdout().lock();
    let mut sent = 0;
    for stream in [true, false] {
        let mut providers: Vec<(&str, Box<dyn Provider>)> = Vec::new();
        for (_, kind) in ServerKind::ALL {
            let chat = provider(WireFormat::Chat)?.with_server_kind(*kind);
            providers.push(("chat", Box::new(chat.with_stream(stream))));
        }
        for kind in [ServerKind::OpenAi, ServerKind::Compatible] {
            let responses = provider(WireFormat::Responses)?.with_server_kind(kind);
            providers.push(("responses", Box::new(responses.with_stream(stream))));
        }
        let anthropic = provider(WireFormat::Anthropic)?.with_stream(stream);
        providers.push(("anthropic", Box::new(anthropic)));
        for (format, provider) in &providers {
            for case in cases() {
                // A request that the kind of server does not support is not sent.
                if ask(provider.as_ref(), &case).await.is_err() {
                    continue;
                }
                let received = server.received();
                let Some(received) = received.get(sent) else {
                    return Err("a response arrived without a request".into());
                };
                sent += 1;
                let line = json!({"format": format, "server": provider.name(),
                    "case": case.name, "body": received.body});
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

async fn ask(provider: &dyn Provider, case: &Case) -> Result<(), Box<dyn Error>> {
    let mut request =
        ModelRequest::new("m", &case.messages, &case.settings).with_tools(&case.tools);
    request.tool_choice = &case.tool_choice;
    request.response_schema = case.schema.as_ref();
    provider.complete(&request, &mut |_| {}).await?;
    Ok(())
}

/// One request.
#[derive(Default)]
struct Case {
    name: &'static str,
    messages: Vec<ChatMessage>,
    tools: Vec<ToolDefinition>,
    settings: SamplingSettings,
    tool_choice: ToolChoice,
    schema: Option<Value>,
}

fn cases() -> Vec<Case> {
    let schema = || {
        json!({"type": "object", "properties": {"answer": {"type": "integer"}},
            "required": ["answer"], "additionalProperties": false})
    };
    let mut read = ToolDefinition::new("read", "reads a file", schema());
    read.strict = true;
    let list = ToolDefinition::new("list", "", json!({"type": "object", "properties": {}}));
    let tools = || vec![read.clone(), list.clone()];
    let hello = || vec![ChatMessage::system("Be brief."), ChatMessage::user("hi")];
    let choice = |name, tool_choice| Case {
        name,
        messages: hello(),
        tools: tools(),
        tool_choice,
        ..Case::default()
    };
    let schema_case = |name, tools: Vec<ToolDefinition>, effort: Option<&str>| Case {
        name,
        messages: hello(),
        tools,
        schema: Some(schema()),
        settings: SamplingSettings::default().with_reasoning_effort(effort.map(str::to_owned)),
        ..Case::default()
    };
    vec![
        Case {
            name: "words",
            messages: hello(),
            settings: SamplingSettings::default()
                .with_temperature(0.5)
                .with_max_tokens(64)
                .with_top_p(0.9),
            ..Case::default()
        },
        Case {
            name: "every setting",
            messages: hello(),
            settings: SamplingSettings::default()
                .with_seed(7)
                .with_frequency_penalty(0.5)
                .with_presence_penalty(0.5)
                .with_stop(vec!["END".to_owned()]),
            ..Case::default()
        },
        Case {
            name: "a limit and an end",
            messages: hello(),
            settings: SamplingSettings::default()
                .with_max_tokens(64)
                .with_stop(vec!["END".to_owned()]),
            ..Case::default()
        },
        Case {
            name: "everything",
            messages: everything(),
            tools: tools(),
            settings: SamplingSettings::default().with_reasoning_effort("high".to_owned()),
            ..Case::default()
        },
        choice("none", ToolChoice::None),
        choice("required", ToolChoice::Required),
        choice("named", ToolChoice::Tool("list".to_owned())),
        schema_case("schema", Vec::new(), None),
        schema_case("schema and tools", tools(), None),
        schema_case("schema and thinking", tools(), Some("low")),
        schema_case("no thinking", Vec::new(), Some("none")),
    ]
}

/// A conversation with every kind of message and block.
fn everything() -> Vec<ChatMessage> {
    let thinking = |text: &str, signature: Option<&str>, id: Option<&str>| ContentBlock::Thinking {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
        id: id.map(str::to_owned),
    };
    let image = |source| ContentBlock::Image {
        source,
        media_type: Some("image/png".to_owned()),
        detail: Some(ImageDetail::High),
    };
    let custom = ToolCall::new("c3", "patch", "*** Begin").with_kind(CallKind::Custom);
    vec![
        ChatMessage::system("Be brief."),
        ChatMessage::developer("Use tools."),
        ChatMessage::user("Hello").with_name("Ada"),
        ChatMessage::user(vec![
            ContentBlock::text("look"),
            image(ImageSource::Inline("aGk=".to_owned())),
            image(ImageSource::Url("https://example.org/a.png".to_owned())),
        ]),
        ChatMessage::assistant(vec![
            thinking("One.", None, Some("rs_1")),
            thinking("Two.", Some("gAAAA"), Some("rs_1")),
            thinking("Signed.", Some("EqQB"), None),
            thinking("", Some("EqQC"), None),
            ContentBlock::RedactedThinking {
                data: "EmwK".to_owned(),
            },
            thinking("Plain.", None, Some("rs_2")),
            ContentBlock::text("I look."),
        ])
        .with_tool_calls(vec![
            ToolCall::new("c1", "read", r#"{"file": "a"}"#),
            ToolCall::new("c2", "read", r#"{"file": "#),
            custom,
            ToolCall::new("c4", "list", "{}"),
        ]),
        ChatMessage::tool("c1", "A").with_name("read"),
        ChatMessage::tool("c2", "").with_name("read"),
        ChatMessage::tool("c3", "patched"),
        ChatMessage::tool("c4", "a b"),
    ]
}
