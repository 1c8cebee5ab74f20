//! Sessions as files over HTTP.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Reply};

use crate::client::Served;
use crate::program::{folder, logue, run};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";

/// Returns the roles and texts of messages.
fn texts(messages: &[Value]) -> Vec<(String, String)> {
    let texts = messages.iter().map(|message| {
        let content = &message["content"];
        let blocks = content.as_array().into_iter().flatten();
        let text: String = blocks.filter_map(|block| block["text"].as_str()).collect();
        let text = content.as_str().map_or(text, str::to_owned);
        (message["role"].as_str().unwrap().to_owned(), text)
    });
    texts.collect()
}

#[test]
fn a_session_is_exported_without_hidden_text() {
    let replies = vec![
        Reply::Answer(
            Answer::text("may I?")
                .with_reasoning("secret thought")
                .with_call("c1", "work", "{}"),
        ),
        Reply::Answer(Answer::text("the <b>end</b>").with_reasoning("secret thought")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md", "--permission", "work=ask"]);
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "a question"}));
    let signal = sent.json()["signal"]["signal_id"].clone();
    let path = format!("/v1/signals/{}", signal.as_str().unwrap());
    let approved = served.post(&path, &json!({"approval": "approve"}));
    assert_eq!(approved.status, 200, "{approved:?}");
    let shown = served.get("/v1/sessions/s1/messages").json()["messages"].clone();
    let mut expected = shown.as_array().unwrap().clone();
    // The note about the pending call is for people.
    expected.retain(|message| message["name"] != "logue-approval");

    for (form, ending, name) in [
        ("json", "json", "json"),
        ("chatmd", "md", "chatmd"),
        ("openchatml", "ocml", "ocml2.2"),
    ] {
        let exported = served.get(&format!("/v1/sessions/s1/export?form={form}"));
        assert_eq!(exported.status, 200, "{exported:?}");
        let file = format!("filename=\"s1.{ending}\"");
        assert!(exported.head.contains(&file), "{}", exported.head);
        for hidden in [
            "secret thought",
            "hidden instructions",
            "Waiting for approval",
        ] {
            assert!(!exported.text.contains(hidden), "{form}: {}", exported.text);
        }
        // Each form is a conversation that the program reads again.
        let file = format!("exported.{ending}");
        std::fs::write(folder.path().join(&file), &exported.text).unwrap();
        let imported = format!("from-{form}");
        let store = ["--store", "sqlite:copies.db"];
        let import = [
            "sessions",
            "import",
            "--from",
            name,
            file.as_str(),
            imported.as_str(),
        ];
        let ran = run(folder.path(), import.iter().chain(&store));
        assert_eq!(ran.status, 0, "{form}: {}", ran.stderr);
        let back = ["sessions", "export", "--to", "json", imported.as_str()];
        let ran = run(folder.path(), back.iter().chain(&store));
        let back: Value = serde_json::from_str(&ran.stdout).unwrap();
        let back = back["messages"].as_array().unwrap();
        assert_eq!(texts(back), texts(&expected), "{form}");
    }
    let wrong = served.get("/v1/sessions/s1/export?form=docx");
    assert_eq!(
        (wrong.status, wrong.json()["code"].as_str()),
        (400, Some("request_invalid"))
    );
    assert_eq!(served.get("/v1/sessions/none/export").status, 404);
}
