//! Error responses of servers and their categories.

use std::time::Duration;

use logue_message::ChatMessage;
use logue_model::{
    Category, EndpointOptions, HttpProvider, ModelRequest, Provider as _, ProviderError,
    SamplingSettings, WireFormat,
};
use testkit::{Delivery, ModelServer, Reply};

async fn ask_once(reply: Reply) -> ProviderError {
    let server = ModelServer::start(vec![reply], Delivery::Whole).unwrap();
    let provider =
        HttpProvider::new(WireFormat::Chat, EndpointOptions::new(server.base_url())).unwrap();
    let messages = [ChatMessage::user("hello")];
    let settings = SamplingSettings::default();
    let request = ModelRequest::new("m", &messages, &settings);
    match provider.complete(&request, &mut |_| {}).await {
        Err(error) => error,
        Ok(answer) => panic!("{answer:?}"),
    }
}

/// Server, status, body, category, and whether a retry may succeed.
#[rustfmt::skip]
const CASES: &[(&str, u16, &str, Category, bool)] = &[
    // The original.
    ("openai", 401, r#"{"error":{"message":"Incorrect API key provided: sk-ab*****yz.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#, Category::Authentication, false),
    ("openai", 403, r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","param":null,"code":"unsupported_country_region_territory"}}"#, Category::Authentication, false),
    ("openai", 404, r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#, Category::InvalidModel, false),
    ("openai", 429, r#"{"error":{"message":"Rate limit reached for gpt-4o on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#, Category::RateLimit, true),
    ("openai", 429, r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41234.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#, Category::RateLimit, false),
    ("openai", 429, r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#, Category::RateLimit, false),
    ("openai", 400, r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#, Category::InvalidRequest, false),
    ("openai", 400, r#"{"error":{"message":"Invalid content type. image_url is only supported by certain models.","type":"invalid_request_error","param":"messages.[0].content.[1].type","code":null}}"#, Category::UnsupportedContentBlock, false),
    ("openai", 400, r#"{"error":{"message":"You uploaded an unsupported image. Please make sure your image is valid.","type":"invalid_request_error","param":null,"code":"invalid_image_format"}}"#, Category::UnsupportedContentBlock, false),
    ("openai", 400, r#"{"error":{"message":"Missing required parameter: 'messages'.","type":"invalid_request_error","param":"messages","code":"missing_required_parameter"}}"#, Category::InvalidRequest, false),
    ("openai", 500, r#"{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}"#, Category::Unavailable, true),
    ("openai", 503, r#"{"error":{"message":"The engine is currently overloaded, please try again later","type":"service_unavailable_error","param":null,"code":null}}"#, Category::Unavailable, true),
    // vLLM, before and after it put its errors into an object.
    ("vllm", 404, r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}"#, Category::InvalidModel, false),
    ("vllm", 404, r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}"#, Category::InvalidModel, false),
    ("vllm", 404, r#"{"detail":"Not Found"}"#, Category::InvalidRequest, false),
    ("vllm", 401, r#"{"error":"Unauthorized"}"#, Category::Authentication, false),
    ("vllm", 400, r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion).","type":"BadRequestError","param":null,"code":400}"#, Category::InvalidRequest, false),
    ("vllm", 400, r#"{"error":{"message":"At most 0 image(s) may be provided in one prompt.","type":"BadRequestError","param":null,"code":400}}"#, Category::UnsupportedContentBlock, false),
    ("vllm", 400, r#"{"object":"error","message":"m is not a multimodal model","type":"BadRequestError","param":null,"code":400}"#, Category::UnsupportedContentBlock, false),
    ("vllm", 400, r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}"#, Category::InvalidRequest, false),
    ("vllm", 422, r#"{"detail":[{"loc":["body","temperature"],"msg":"Input should be a valid number","type":"float_type"}]}"#, Category::InvalidRequest, false),
    ("vllm", 500, r#"{"object":"error","message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}"#, Category::Unavailable, true),
    // llama.cpp.
    ("llama.cpp", 503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Category::ModelNotLoaded, true),
    ("llama.cpp", 401, r#"{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}"#, Category::Authentication, false),
    ("llama.cpp", 400, r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}"#, Category::InvalidRequest, false),
    ("llama.cpp", 500, r#"{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}"#, Category::UnsupportedContentBlock, false),
    ("llama.cpp", 501, r#"{"error":{"code":501,"message":"This server does not support completions.","type":"not_supported_error"}}"#, Category::InvalidRequest, false),
    ("llama.cpp", 404, r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#, Category::InvalidRequest, false),
    // Ollama.
    ("ollama", 404, r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}"#, Category::InvalidModel, false),
    ("ollama", 400, r#"{"error":{"message":"registry.ollama.ai/library/x:latest does not support tools","type":"api_error","param":null,"code":null}}"#, Category::InvalidRequest, false),
    ("ollama", 503, r#"{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}"#, Category::Unavailable, true),
    ("ollama", 500, r#"{"error":{"message":"model requires more system memory (9.1 GiB) than is available (3.2 GiB)","type":"api_error","param":null,"code":null}}"#, Category::Unavailable, false),
    ("ollama", 500, r#"{"error":{"message":"llm server loading model","type":"api_error","param":null,"code":null}}"#, Category::ModelNotLoaded, true),
    // DeepSeek.
    ("deepseek", 401, r#"{"error":{"message":"Authentication Fails (no such user)","type":"authentication_error","param":null,"code":"invalid_request_error"}}"#, Category::Authentication, false),
    ("deepseek", 402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#, Category::RateLimit, false),
    ("deepseek", 400, r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#, Category::InvalidModel, false),
    ("deepseek", 422, r#"{"error":{"message":"Failed to deserialize the JSON body into the target type","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#, Category::InvalidRequest, false),
    ("deepseek", 429, r#"{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}"#, Category::RateLimit, true),
    ("deepseek", 503, r#"{"error":{"message":"Service is too busy.","type":"service_unavailable_error"}}"#, Category::Unavailable, true),
    // OpenRouter, a gateway to many servers.
    ("openrouter", 401, r#"{"error":{"message":"No auth credentials found","code":401}}"#, Category::Authentication, false),
    ("openrouter", 402, r#"{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}"#, Category::RateLimit, false),
    ("openrouter", 403, r#"{"error":{"message":"Your chosen model requires moderation and your input was flagged","code":403,"metadata":{"reasons":["violence"],"flagged_input":"…"}}}"#, Category::InvalidRequest, false),
    ("openrouter", 404, r#"{"error":{"message":"No endpoints found for nobody/nothing.","code":404}}"#, Category::InvalidModel, false),
    ("openrouter", 404, r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#, Category::UnsupportedContentBlock, false),
    ("openrouter", 404, r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#, Category::InvalidRequest, false),
    ("openrouter", 400, r#"{"error":{"message":"nobody/nothing is not a valid model ID","code":400}}"#, Category::InvalidModel, false),
    ("openrouter", 408, r#"{"error":{"message":"Your request timed out","code":408}}"#, Category::Unavailable, true),
    ("openrouter", 429, r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m is temporarily rate-limited upstream.","provider_name":"P"}}}"#, Category::RateLimit, true),
    ("openrouter", 400, r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"prompt is too long: 210000 tokens\"}}"}}}"#, Category::InvalidRequest, false),
    ("openrouter", 502, r#"{"error":{"message":"Provider returned error","code":502}}"#, Category::Unavailable, true),
    // Inside of a stream whose status was a success.
    ("stream", 200, r#"{"error":{"message":"upstream is gone","code":502}}"#, Category::Unavailable, true),
    ("stream", 200, r#"{"error":{"message":"slow down","code":429}}"#, Category::RateLimit, true),
    ("stream", 200, r#"{"error":{"message":"slow down","type":"rate_limit_exceeded"}}"#, Category::RateLimit, true),
    ("stream", 200, r#"{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}"#, Category::RateLimit, false),
    ("stream", 200, r#"{"error":{"message":"no","type":"invalid_request_error"}}"#, Category::InvalidRequest, false),
    ("stream", 200, r#"{"error":{"message":"maximum context length is 10 tokens","code":400}}"#, Category::InvalidRequest, false),
    ("stream", 200, r#"{"error":"something broke"}"#, Category::Unavailable, true),
    // Something in front of the server.
    ("proxy", 502, "<html><body>Bad Gateway</body></html>", Category::Unavailable, true),
    ("proxy", 504, "", Category::Unavailable, true),
    ("proxy", 529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, Category::Unavailable, true),
    ("proxy", 413, "<html>Request Entity Too Large</html>", Category::InvalidRequest, false),
    ("proxy", 308, "", Category::InvalidRequest, false),
    ("proxy", 418, "", Category::InvalidRequest, false),
];

#[tokio::test]
async fn each_refusal_has_its_category() {
    for (server, status, body, category, transient) in CASES {
        let body = match *server {
            "stream" => format!("data: {body}\n\n"),
            _ => (*body).to_owned(),
        };
        let error = ask_once(Reply::Status(*status, Vec::new(), body.clone())).await;
        let shown = format!("{server} {status} {body}: {error}");
        assert_eq!(error.category, *category, "{shown}");
        assert_eq!(error.transient, *transient, "{shown}");
        assert!(error.help.is_some_and(|help| !help.is_empty()), "{shown}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_says_what_to_do() {
    let body = r#"{"error":{"message":"…","code":"context_length_exceeded"}}"#;
    let error = ask_once(Reply::Status(400, Vec::new(), body.to_owned())).await;
    let help = error.help.unwrap();
    assert!(
        help.contains("max_tokens") && help.contains("logue tokens"),
        "{help}"
    );
}

#[tokio::test]
async fn the_words_of_the_server_behind_are_told() {
    let body = r#"{"error":{"message":"Provider returned error","metadata":{"raw":"no\nroom"}}}"#;
    let error = ask_once(Reply::Status(500, Vec::new(), body.to_owned())).await;
    assert!(
        error
            .message
            .ends_with(": Provider returned error: no room"),
        "{error}"
    );
}

#[tokio::test]
async fn a_wait_is_read_in_each_of_its_forms() {
    let date = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let millis = Duration::from_millis;
    for (headers, wait) in [
        (vec![("Retry-After", "17")], Some(millis(17_000))),
        (vec![("Retry-After", " 1.5 ")], Some(millis(1_500))),
        (vec![("Retry-After", "0")], Some(millis(0))),
        (
            vec![("retry-after-ms", "250"), ("Retry-After", "1")],
            Some(millis(250)),
        ),
        (
            vec![date, ("Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT")],
            Some(millis(60_000)),
        ),
        (
            vec![date, ("Retry-After", "Sunday, 06-Nov-94 08:49:40 GMT")],
            Some(millis(3_000)),
        ),
        (
            vec![date, ("Retry-After", "Sun Nov  6 08:49:38 1994")],
            Some(millis(1_000)),
        ),
        // It has passed.
        (
            vec![date, ("Retry-After", "Sun, 06 Nov 1994 08:49:30 GMT")],
            Some(millis(0)),
        ),
        (
            vec![("Retry-After", "Sun, 06 Nov 1994 08:49:30 GMT")],
            Some(millis(0)),
        ),
        (vec![("Retry-After", "-3")], None),
        (vec![("Retry-After", "1e400")], None),
        (vec![("Retry-After", "NaN")], None),
        (vec![("Retry-After", "soon")], None),
        (vec![], None),
    ] {
        let owned = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let error = ask_once(Reply::Status(429, owned.collect(), "{}".into())).await;
        assert_eq!(error.retry_after, wait, "{headers:?}");
    }
}
