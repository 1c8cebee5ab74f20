//! Harmony over raw completions: the real client against a scripted server over a real socket.

use std::time::Duration;

use crate::limits_with;
use logue_message::{ChatMessage, Content, ContentBlock, ToolCall, ToolDefinition};
use logue_model::{
    Category, FinishReason, HarmonyCompletions, HarmonyOptions, HarmonyServer, HttpLimits,
    ModelEvent, ModelRequest, ModelResponse, Provider as _, ProviderError, SamplingSettings, Usage,
};
use logue_o200k::{SpecialSet, decode_lossy, encode_with_specials};
use serde_json::json;
use testkit::{Completion, Delivery, ModelServer, Reply, Wire};

const WIRES: [Wire; 4] = [Wire::VllmIds, Wire::VllmText, Wire::Llama, Wire::Plain];

fn options(server: &ModelServer, wire: Wire) -> HarmonyOptions {
    let mut options = HarmonyOptions::new(server.base_url());
    options.api_key = Some("sk-secret".to_owned());
    options.limits = limits_with(HttpLimits::default(), |limits| {
        limits.connect = Duration::from_secs(1);
        limits.first_byte = Duration::from_secs(5);
        limits.idle = Duration::from_secs(5);
    });
    options.server = match wire {
        Wire::VllmIds | Wire::VllmText => HarmonyServer::Vllm,
        Wire::Llama => HarmonyServer::LlamaCpp,
        Wire::Plain => HarmonyServer::Plain,
    };
    options
}

fn lamp() -> ToolDefinition {
    let parameters = json!({"type": "object", "properties": {"on": {"type": "boolean"}},
        "required": ["on"]});
    ToolDefinition::new("lamp", "Switches the lamp.", parameters)
}

type Heard = (Result<ModelResponse, ProviderError>, Vec<ModelEvent>);

async fn complete(provider: &HarmonyCompletions, request: &ModelRequest<'_>) -> Heard {
    let mut events: Vec<ModelEvent> = Vec::new();
    let mut sink = |event: ModelEvent| match (events.last_mut(), event) {
        (Some(ModelEvent::Text(text)), ModelEvent::Text(more))
        | (Some(ModelEvent::Reasoning(text)), ModelEvent::Reasoning(more)) => text.push_str(&more),
        (
            Some(ModelEvent::Arguments { index, text }),
            ModelEvent::Arguments {
                index: at,
                text: more,
            },
        ) if *index == at => text.push_str(&more),
        (_, event) => events.push(event),
    };
    let result = provider.complete(request, &mut sink).await;
    (result, events)
}

async fn ask_with(options: HarmonyOptions) -> Heard {
    ask(&HarmonyCompletions::new(options).unwrap()).await
}

async fn ask(provider: &HarmonyCompletions) -> Heard {
    let messages = [ChatMessage::system("Be brief."), ChatMessage::user("hello")];
    let (tools, settings) = ([lamp()], SamplingSettings::default());
    let request = ModelRequest::new("gpt-oss-20b", &messages, &settings).with_tools(&tools);
    complete(provider, &request).await
}

/// The output of a model, one token per piece, with the stop token that the server reports.
fn emitted(wire: Wire, text: &str) -> Completion {
    let mut ids = encode_with_specials(text, &SpecialSet::HARMONY);
    if wire == Wire::Llama {
        ids.pop_if(|id| matches!(id, 200_002 | 200_012));
    }
    let pieces = ids.iter().map(|id| (vec![*id], spelled(&[*id])));
    Completion::new(wire, pieces.collect())
}

fn spelled(ids: &[u32]) -> String {
    decode_lossy(ids)
}

async fn hear(completion: Completion, wire: Wire) -> Heard {
    let server = ModelServer::start(vec![Reply::Completion(completion)], Delivery::Whole).unwrap();
    ask_with(options(&server, wire)).await
}

const CALLING: &str = "<|channel|>analysis<|message|>The user wants light.<|end|>\
    <|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>\
    {\"on\": true}<|call|>";
const ANSWERING: &str = "<|channel|>analysis<|message|>Easy.<|end|>\
    <|start|>assistant<|channel|>final<|message|>It shines.<|return|>";

#[tokio::test]
async fn an_answer_and_a_call_are_read_from_every_kind_of_server() {
    for wire in WIRES {
        let (result, events) = hear(emitted(wire, ANSWERING), wire).await;
        let response = result.unwrap();
        let content = vec![
            ContentBlock::thinking("Easy."),
            ContentBlock::text("It shines."),
        ];
        assert_eq!(
            response.message,
            ChatMessage::assistant(Content::Blocks(content)),
            "{wire:?}"
        );
        assert_eq!(response.finish_reason, FinishReason::Stop);
        let told = [
            ModelEvent::Reasoning("Easy.".to_owned()),
            ModelEvent::Text("It shines.".to_owned()),
            ModelEvent::TextEnd,
        ];
        assert_eq!(events, told, "{wire:?}");
        let usage = response.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (11, 7));

        let (result, events) = hear(emitted(wire, CALLING), wire).await;
        let response = result.unwrap();
        let call = ToolCall::new("call_2_0", "lamp", r#"{"on": true}"#);
        let content = vec![ContentBlock::thinking("The user wants light.")];
        let message = ChatMessage::assistant(Content::Blocks(content)).with_tool_calls(vec![call]);
        assert_eq!(response.message, message, "{wire:?}");
        assert_eq!(response.finish_reason, FinishReason::ToolCalls);
        let told = [
            ModelEvent::Reasoning("The user wants light.".to_owned()),
            ModelEvent::ToolCall {
                index: 0,
                name: "lamp".to_owned(),
            },
            ModelEvent::Arguments {
                index: 0,
                text: r#"{"on": true}"#.to_owned(),
            },
        ];
        assert_eq!(events, told, "{wire:?}");
    }
}

#[tokio::test]
async fn usage_counts_what_was_cached_and_what_was_thought() {
    let (result, _) = hear(emitted(Wire::VllmIds, ANSWERING), Wire::VllmIds).await;
    let usage = Usage::new(11, 7)
        .with_cached_tokens(3)
        .with_reasoning_tokens(2);
    assert_eq!(result.unwrap().usage, Some(usage));
}

#[tokio::test]
async fn every_split_of_the_bytes_gives_the_same() {
    for wire in WIRES {
        // A few tokens in each event keep the stream short enough to try every byte of it.
        let mut ids = encode_with_specials(CALLING, &SpecialSet::HARMONY);
        if wire == Wire::Llama {
            ids.pop();
        }
        let pieces = ids.chunks(12).map(|ids| (ids.to_vec(), spelled(ids)));
        let completion = Completion::new(wire, pieces.collect());
        let bytes = completion.stream().len();
        let expected = hear(completion.clone(), wire).await;
        expected.0.as_ref().unwrap();
        let replies = vec![Reply::Completion(completion)];
        let server = ModelServer::start(replies, Delivery::EverySplit).unwrap();
        let provider = HarmonyCompletions::new(options(&server, wire)).unwrap();
        for at in 0..bytes {
            assert_eq!(ask(&provider).await, expected, "{wire:?} at {at}");
        }
    }
}

#[tokio::test]
async fn every_split_of_what_the_model_emits_gives_the_same() {
    for text in [
        CALLING,
        ANSWERING,
        "<|channel|>final<|message|>a <<|return|>",
    ] {
        let ids = encode_with_specials(text, &SpecialSet::HARMONY);
        let expected = hear(emitted(Wire::VllmIds, text), Wire::VllmIds).await;
        for at in 0..=ids.len() {
            let (first, second) = ids.split_at(at);
            let pieces = [first, second].map(|ids| (ids.to_vec(), spelled(ids)));
            let completion = Completion::new(Wire::VllmIds, pieces.to_vec());
            assert_eq!(hear(completion, Wire::VllmIds).await, expected, "{at}");
        }
        for at in 0..=text.len() {
            let (first, second) = text.split_at(at);
            let pieces = [first, second].map(|text| (Vec::new(), text.to_owned()));
            let completion = Completion::new(Wire::Plain, pieces.to_vec());
            let (result, events) = hear(completion, Wire::Plain).await;
            let message = expected.0.as_ref().unwrap().message.clone();
            assert_eq!((result.unwrap().message, &events), (message, &expected.1));
        }
    }
}

/// Checks one output through every kind of server.
async fn heard_everywhere(text: &str) -> Heard {
    let mut heard: Option<Heard> = None;
    for wire in [Wire::VllmIds, Wire::VllmText, Wire::Plain] {
        let (mut result, events) = hear(emitted(wire, text), wire).await;
        if let Ok(response) = &mut result {
            response.usage = None;
        }
        let now = (result, events);
        match &heard {
            Some(before) => assert_eq!(before, &now, "{wire:?}: {text}"),
            None => heard = Some(now),
        }
    }
    heard.unwrap()
}

fn told(events: &[ModelEvent]) -> String {
    let text = |event: &ModelEvent| match event {
        ModelEvent::Text(text) => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

#[tokio::test]
async fn what_is_malformed_is_recovered_and_nothing_hidden_is_shown() {
    // Each with the visible text, the calls and the reason.
    let cases: &[(&str, &str, &[&str], FinishReason)] = &[
        // A doubled and a stray stop token.
        (
            "<|channel|>analysis<|message|>a<|end|><|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // Text between messages is kept and hidden.
        (
            "<|channel|>analysis<|message|>a<|end|>\nhm<|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // The end of the reasoning is missing.
        (
            "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // The beginning of a message is missing.
        (
            "<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // The model continues the conversation after its response.
        (
            "<|channel|>final<|message|>Hi.<|end|><|start|>user<|message|>Go on.<|end|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // Junk about types around a call, and a call that ends as a message.
        (
            "<|channel|>commentary to=functions.lamp<|constrain|>json<|constrain|>json<|message|>{}<|call|>",
            "",
            &["{}"],
            FinishReason::ToolCalls,
        ),
        (
            "<|channel|>commentary to=functions.lampjson<|message|>{}<|end|>",
            "",
            &["{}"],
            FinishReason::ToolCalls,
        ),
        // Two calls of one response; arguments that are not JSON do not change.
        (
            "<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{\"on\": }<|end|><|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{ }<|call|>",
            "",
            &["{\"on\": }", "{ }"],
            FinishReason::ToolCalls,
        ),
        // Commentary for the user, before a call and alone; without its end it stays hidden.
        (
            "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{}<|call|>",
            "Let me look.",
            &["{}"],
            FinishReason::ToolCalls,
        ),
        (
            "<|channel|>commentary<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        (
            "<|channel|>commentary<|message|>a<|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
            "Hi.",
            &[],
            FinishReason::Stop,
        ),
        // A bracket before a token is text, not an escape.
        (
            "<|channel|>final<|message|>a <<|return|>",
            "a <",
            &[],
            FinishReason::Stop,
        ),
        (
            "<|channel|>final<|message|>a <|literal|> b<|return|>",
            "a <|literal|> b",
            &[],
            FinishReason::Stop,
        ),
    ];
    for (text, shown, calls, reason) in cases {
        let (result, events) = heard_everywhere(text).await;
        let response = result.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(response.message.text(), *shown, "{text}");
        assert_eq!(told(&events), *shown, "{text}");
        let arguments = response.message.tool_calls.iter();
        let arguments: Vec<&str> = arguments.map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, *calls, "{text}");
        assert_eq!(response.finish_reason, *reason, "{text}");
        for call in &response.message.tool_calls {
            assert_eq!(call.name, "lamp");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_with_what_there_was() {
    let cases = [
        // The channel is unknown, so the text is hidden.
        ("<|message|>Hi.<|return|>", "no channel marker", "Hi."),
        (
            "<|channel|>analysis<|message|>I think.<|return|>",
            "is empty",
            "I think.",
        ),
        // A call that is not ended is not run.
        (
            "<|channel|>commentary to=functions.lamp<|message|>{}<|start|>assistant<|channel|>analysis<|message|>b<|return|>",
            "did not complete it",
            "{}",
        ),
    ];
    for (text, expected, kept) in cases {
        let (result, events) = hear(emitted(Wire::VllmIds, text), Wire::VllmIds).await;
        let error = result.unwrap_err();
        assert_eq!(error.category, Category::InvalidResponse, "{text}");
        assert!(error.message.contains(expected), "{text}: {error:?}");
        let answer = error.answer.unwrap();
        let Content::Blocks(blocks) = &answer.content else {
            panic!("{text}: {answer:?}");
        };
        assert_eq!(blocks[0], ContentBlock::thinking(kept), "{text}");
        assert_eq!(told(&events), "", "{text}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_says_so() {
    let cut = |text: &str| emitted(Wire::VllmIds, text).cut();
    let (result, _) = hear(cut("<|channel|>final<|message|>Once upon"), Wire::VllmIds).await;
    let response = result.unwrap();
    assert_eq!(response.finish_reason, FinishReason::Length);
    assert_eq!(response.message.text(), "Once upon");
    for text in [
        "<|channel|>analysis<|message|>Hm",
        "<|channel|>commentary to=functions.lamp <|constrain|>json<|message|>{\"on\": tr",
        "<|channel|>comm",
        "",
    ] {
        let (result, events) = hear(cut(text), Wire::VllmIds).await;
        let error = result.unwrap_err();
        assert_eq!(told(&events), "");
        let category = if text.is_empty() {
            Category::Unavailable
        } else {
            Category::InvalidResponse
        };
        assert_eq!(error.category, category, "{text}: {error:?}");
        let calls = error.answer.map(|answer| answer.tool_calls);
        assert_eq!(calls.unwrap_or_default(), [], "{text}");
    }
}

#[tokio::test]
async fn a_server_that_keeps_its_stop_token_says_which_it_was() {
    for (text, stop, calls) in [
        ("<|channel|>final<|message|>Hi.", 200_002, 0),
        (
            "<|channel|>commentary to=functions.lamp<|message|>{}",
            200_012,
            1,
        ),
    ] {
        let completion = emitted(Wire::VllmIds, text).stopped_at(stop);
        let response = hear(completion, Wire::VllmIds).await.0.unwrap();
        assert_eq!(response.message.tool_calls.len(), calls, "{text}");
    }
}

#[tokio::test]
async fn text_without_its_tokens_names_the_setting() {
    let stripped = "analysisThe user greets.assistantfinalHello!";
    for wire in [Wire::Plain, Wire::VllmText] {
        let (result, events) = hear(emitted(wire, stripped), wire).await;
        let error = result.unwrap_err();
        assert_eq!(error.category, Category::InvalidResponse);
        let help = error.help.unwrap();
        assert!(help.contains("skip_special_tokens") && help.contains("--special"));
        assert_eq!(told(&events), "");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_as_well() {
    for wire in WIRES {
        let body = emitted(wire, CALLING).whole();
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let reply = Reply::Status(200, headers, body);
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let (result, _) = ask_with(options(&server, wire)).await;
        let (expected, _) = hear(emitted(wire, CALLING), wire).await;
        assert_eq!(result.unwrap(), expected.unwrap(), "{wire:?}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_too_early_has_failed() {
    let bytes = emitted(Wire::VllmIds, ANSWERING).stream();
    let reply = Reply::Cut(bytes[..bytes.len() / 2].to_vec());
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let (result, _) = ask_with(options(&server, Wire::VllmIds)).await;
    assert_eq!(result.unwrap_err().category, Category::Unavailable);
}

#[tokio::test]
async fn a_server_that_goes_on_behind_the_stop_is_not_waited_for() {
    let stop = encode_with_specials(ANSWERING, &SpecialSet::HARMONY);
    let chunk = |ids: &[u32]| {
        let choice = json!({"index": 0, "text": "", "token_ids": ids, "finish_reason": null});
        format!("data: {}\n\n", json!({"choices": [choice]})).into_bytes()
    };
    let reply = Reply::Endless(chunk(&stop), chunk(&[13, 200_006]));
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let (result, _) = ask_with(options(&server, Wire::VllmIds)).await;
    assert_eq!(result.unwrap().message.text(), "It shines.");
}

#[tokio::test]
async fn errors_of_the_wire_have_their_categories() {
    let status = |status, body: &str| Reply::Status(status, Vec::new(), body.to_owned());
    let cases = [
        (status(401, "no"), Category::Authentication),
        (status(429, "slow"), Category::RateLimit),
        (
            status(404, "The model `x` does not exist"),
            Category::InvalidModel,
        ),
        (status(404, "no such page"), Category::InvalidRequest),
        (status(503, "loading the model"), Category::ModelNotLoaded),
        (status(500, "oh"), Category::Unavailable),
        (
            Reply::Cut(b"data: {\"error\": {\"message\": \"x\", \"code\": 429}}\n\n".to_vec()),
            Category::RateLimit,
        ),
        (
            Reply::Cut(b"data: {\"choices\": [{\"delta\": {}}]}\n\n".to_vec()),
            Category::InvalidResponse,
        ),
        (
            Reply::Cut(
                b"data: {\"choices\": [{\"text\": \"\", \"token_ids\": [-1]}]}\n\n".to_vec(),
            ),
            Category::InvalidResponse,
        ),
        (
            Reply::Cut(b"data: {]\n\n".to_vec()),
            Category::InvalidResponse,
        ),
    ];
    for (reply, category) in cases {
        let shown = format!("{reply:?}");
        let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
        let (result, _) = ask_with(options(&server, Wire::VllmIds)).await;
        let error = result.unwrap_err();
        assert_eq!(error.category, category, "{shown}: {error:?}");
        let help = error.help.unwrap_or_default();
        assert!(!help.contains("chat/completions"), "{help}");
    }
}
