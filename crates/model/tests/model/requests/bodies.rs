//! The whole body of a request to each kind of server.

use logue_model::ServerProfile;

use super::{Format, whole};

#[tokio::test]
async fn openai_chat() {
    insta::assert_snapshot!(whole(Format::Chat, ServerProfile::OPENAI).await, @r##"
    model: "m"
    messages:
      {"role":"system","content":"Be brief."}
      {"role":"developer","content":"Use tools."}
      {"role":"user","content":"Hello","name":"Ada"}
      {"role":"assistant","content":"Hi."}
      {"role":"user","content":"Look"}
      {"role":"user","content":[{"type":"text","text":"here"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}
      {"role":"system","content":"It is night."}
      {"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"file\": \"a\" }"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"file\": "}},{"id":"c3","type":"custom","custom":{"name":"patch","input":"*** Begin"}},{"id":"c4","type":"function","function":{"name":"list","arguments":""}}]}
      {"role":"tool","tool_call_id":"c1","content":"A"}
      {"role":"tool","tool_call_id":"c2","content":"broken"}
      {"role":"tool","tool_call_id":"c3","content":"patched"}
      {"role":"tool","tool_call_id":"c4","content":""}
    tools:
      {"type":"function","function":{"name":"read","description":"reads a file","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}}
      {"type":"function","function":{"name":"list","description":"lists files","parameters":{"type":"object","properties":{}}}}
    temperature: 0.5
    max_completion_tokens: 100
    stream: true
    stream_options: {"include_usage":true}
    "##);
}

#[tokio::test]
async fn any_compatible_chat() {
    insta::assert_snapshot!(whole(Format::Chat, ServerProfile::COMPATIBLE).await, @r##"
    model: "m"
    messages:
      {"role":"system","content":"Be brief.\n\nUse tools."}
      {"role":"user","content":"Hello","name":"Ada"}
      {"role":"assistant","content":"Hi."}
      {"role":"user","content":[{"type":"text","text":"Look"},{"type":"text","text":"here"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}
      {"role":"system","content":"It is night."}
      {"role":"assistant","content":"I look.","reasoning_content":"Two\n\nfiles.\n\nSigned.\n\nPlain.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"file\": \"a\" }"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"INVALID_JSON\":\"{\\\"file\\\": \"}"}},{"id":"c3","type":"function","function":{"name":"patch","arguments":"{\"input\":\"*** Begin\"}"}},{"id":"c4","type":"function","function":{"name":"list","arguments":"{}"}}]}
      {"role":"tool","tool_call_id":"c1","content":"A"}
      {"role":"tool","tool_call_id":"c2","content":"broken"}
      {"role":"tool","tool_call_id":"c3","content":"patched"}
      {"role":"tool","tool_call_id":"c4","content":""}
    tools:
      {"type":"function","function":{"name":"read","description":"reads a file","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}}
      {"type":"function","function":{"name":"list","description":"lists files","parameters":{"type":"object","properties":{}}}}
    temperature: 0.5
    max_tokens: 100
    stream: true
    stream_options: {"include_usage":true}
    "##);
}

#[tokio::test]
async fn vllm_chat() {
    insta::assert_snapshot!(whole(Format::Chat, ServerProfile::VLLM).await, @r##"
    model: "m"
    messages:
      {"role":"system","content":"Be brief.\n\nUse tools.\n\nIt is night."}
      {"role":"user","content":"Hello","name":"Ada"}
      {"role":"assistant","content":"Hi."}
      {"role":"user","content":[{"type":"text","text":"Look"},{"type":"text","text":"here"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk=","detail":"low"}}]}
      {"role":"assistant","content":"I look.","reasoning":"Two\n\nfiles.\n\nSigned.\n\nPlain.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{ \"file\": \"a\" }"}},{"id":"c2","type":"function","function":{"name":"read","arguments":"{\"INVALID_JSON\":\"{\\\"file\\\": \"}"}},{"id":"c3","type":"function","function":{"name":"patch","arguments":"{\"input\":\"*** Begin\"}"}},{"id":"c4","type":"function","function":{"name":"list","arguments":"{}"}}]}
      {"role":"tool","tool_call_id":"c1","content":"A"}
      {"role":"tool","tool_call_id":"c2","content":"broken"}
      {"role":"tool","tool_call_id":"c3","content":"patched"}
      {"role":"tool","tool_call_id":"c4","content":""}
    tools:
      {"type":"function","function":{"name":"read","description":"reads a file","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}}
      {"type":"function","function":{"name":"list","description":"lists files","parameters":{"type":"object","properties":{}}}}
    temperature: 0.5
    max_tokens: 100
    stream: true
    stream_options: {"include_usage":true}
    "##);
}

#[tokio::test]
async fn openai_responses() {
    insta::assert_snapshot!(whole(Format::Responses, ServerProfile::RESPONSES).await, @r##"
    model: "m"
    input:
      {"type":"message","role":"system","content":"Be brief."}
      {"type":"message","role":"developer","content":"Use tools."}
      {"type":"message","role":"user","content":"Hello"}
      {"type":"message","role":"assistant","content":"Hi."}
      {"type":"message","role":"user","content":"Look"}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"here"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"low"}]}
      {"type":"message","role":"system","content":"It is night."}
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Two"},{"type":"summary_text","text":"files."}],"encrypted_content":"enc-1"}
      {"type":"message","role":"assistant","content":"I look.","phase":"commentary"}
      {"type":"function_call","call_id":"c1","name":"read","arguments":"{ \"file\": \"a\" }"}
      {"type":"function_call","call_id":"c2","name":"read","arguments":"{\"file\": "}
      {"type":"custom_tool_call","call_id":"c3","name":"patch","input":"*** Begin"}
      {"type":"function_call","call_id":"c4","name":"list","arguments":""}
      {"type":"function_call_output","call_id":"c1","output":"A"}
      {"type":"function_call_output","call_id":"c2","output":"broken"}
      {"type":"custom_tool_call_output","call_id":"c3","output":"patched"}
      {"type":"function_call_output","call_id":"c4","output":""}
    tools:
      {"type":"function","name":"read","description":"reads a file","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}
      {"type":"function","name":"list","description":"lists files","parameters":{"type":"object","properties":{}},"strict":false}
    temperature: 0.5
    max_output_tokens: 100
    store: false
    include: ["reasoning.encrypted_content"]
    stream: true
    "##);
}

#[tokio::test]
async fn any_compatible_responses() {
    insta::assert_snapshot!(whole(Format::Responses, ServerProfile::RESPONSES_COMPATIBLE).await, @r##"
    model: "m"
    input:
      {"type":"message","role":"system","content":"Be brief.\n\nUse tools."}
      {"type":"message","role":"user","content":"Hello"}
      {"type":"message","role":"assistant","content":"Hi."}
      {"type":"message","role":"user","content":[{"type":"input_text","text":"Look"},{"type":"input_text","text":"here"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"low"}]}
      {"type":"message","role":"system","content":"It is night."}
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Two"},{"type":"summary_text","text":"files."}],"encrypted_content":"enc-1"}
      {"type":"message","role":"assistant","content":"I look."}
      {"type":"function_call","call_id":"c1","name":"read","arguments":"{ \"file\": \"a\" }"}
      {"type":"function_call","call_id":"c2","name":"read","arguments":"{\"INVALID_JSON\":\"{\\\"file\\\": \"}"}
      {"type":"function_call","call_id":"c3","name":"patch","arguments":"{\"input\":\"*** Begin\"}"}
      {"type":"function_call","call_id":"c4","name":"list","arguments":"{}"}
      {"type":"function_call_output","call_id":"c1","output":"A"}
      {"type":"function_call_output","call_id":"c2","output":"broken"}
      {"type":"function_call_output","call_id":"c3","output":"patched"}
      {"type":"function_call_output","call_id":"c4","output":""}
    tools:
      {"type":"function","name":"read","description":"reads a file","parameters":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}
      {"type":"function","name":"list","description":"lists files","parameters":{"type":"object","properties":{}},"strict":false}
    temperature: 0.5
    max_output_tokens: 100
    store: false
    stream: true
    "##);
}

#[tokio::test]
async fn anthropic_messages() {
    insta::assert_snapshot!(whole(Format::Anthropic, ServerProfile::ANTHROPIC).await, @r##"
    model: "m"
    max_tokens: 100
    system: "Be brief.\n\nUse tools.\n\nIt is night."
    messages:
      {"role":"user","content":[{"type":"text","text":"Hello"}]}
      {"role":"assistant","content":[{"type":"thinking","thinking":"First.","signature":"sig-1"},{"type":"text","text":"Hi."}]}
      {"role":"user","content":[{"type":"text","text":"Look"},{"type":"text","text":"here"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}
      {"role":"assistant","content":[{"type":"thinking","thinking":"Signed.","signature":"sig-2"},{"type":"redacted_thinking","data":"hidden"},{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"read","input":{"file":"a"}},{"type":"tool_use","id":"c2","name":"read","input":{"INVALID_JSON":"{\"file\": "}},{"type":"tool_use","id":"c3","name":"patch","input":{"input":"*** Begin"}},{"type":"tool_use","id":"c4","name":"list","input":{}}]}
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"A"},{"type":"tool_result","tool_use_id":"c2","content":"broken"},{"type":"tool_result","tool_use_id":"c3","content":"patched"},{"type":"tool_result","tool_use_id":"c4","content":""}]}
    tools:
      {"name":"read","description":"reads a file","input_schema":{"type":"object","properties":{"file":{"type":"string"}},"required":["file"],"additionalProperties":false},"strict":true}
      {"name":"list","description":"lists files","input_schema":{"type":"object","properties":{}}}
    stream: true
    "##);
}
