//! Cards of calls and answers: each once, with its state and its reason.

use std::path::Path;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use super::{AGENT, address, check_clean, count, session_address};
use crate::browser::{Browser, Tab};
use crate::client::Served;
use crate::program::{folder, run, strict};

/// Calls `work` for each message, and answers `finished` after its result.
fn calling(request: &Received) -> Reply {
    let last = request.body["messages"].as_array().unwrap().last().unwrap();
    Reply::Answer(if last["role"] == "tool" {
        Answer::text("finished")
    } else {
        // The model names each call alike, as some servers do.
        Answer::text("may I?").with_call("c1", "work", "{}")
    })
}

/// Returns the states of the cards of calls.
fn states(browser: &mut Browser, tab: &Tab) -> String {
    let states = "[...document.querySelectorAll('.tool')].map((one) => one.dataset.state).join()";
    let states = browser.evaluate(tab, states);
    states.as_str().unwrap().to_owned()
}

#[test]
fn a_call_has_one_card_after_each_decision_and_a_reload() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start_by(calling, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = super::serve(folder.path(), &model, &["--permission", "work=ask"]);
    let tab = browser.open(&address(&served));
    let finished = |times: usize| {
        format!(
            "document.querySelectorAll('.messages .prose').length === {times} && !document.querySelector('.turn')"
        )
    };
    browser.send(&tab, "go");
    browser.click(&tab, ".approval .primary");
    browser.wait(&tab, &finished(2));
    assert_eq!(states(&mut browser, &tab), "done");
    browser.send(&tab, "again");
    browser.click(&tab, ".approval > .buttons .danger");
    browser.click(&tab, ".reason .danger");
    browser.wait(&tab, &finished(4));
    assert_eq!(states(&mut browser, &tab), "done,denied");
    browser.command(Some(&tab), "Page.reload", json!({}));
    browser.wait(&tab, &finished(4));
    assert_eq!(states(&mut browser, &tab), "done,denied");
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn an_approval_has_its_reason() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start_by(calling, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let mut reason = |arguments: &[&str], home: Option<&Path>| {
        let mut command = strict(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        if let Some(home) = home {
            command.env("XDG_CONFIG_HOME", home);
        }
        let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
        let served = Served::start_with(command, &arguments);
        let tab = browser.open(&address(&served));
        browser.send(&tab, "go");
        browser.wait(&tab, "document.querySelector('.approval')");
        let text = browser.evaluate(&tab, "document.querySelector('.why').textContent");
        text.as_str().unwrap().to_owned()
    };
    let by_trust = reason(&[], None);
    assert!(by_trust.contains("the prompt is not trusted"), "{by_trust}");
    let by_flag = reason(&["--permission", "work=ask"], None);
    assert!(
        by_flag.contains("rule work=ask of --permission"),
        "{by_flag}"
    );
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("logue")).unwrap();
    let settings = home.path().join("logue/config.toml");
    std::fs::write(&settings, "[permissions.rules]\n\"wo*\" = \"ask\"\n").unwrap();
    let by_settings = reason(&[], Some(home.path()));
    assert!(by_settings.contains("rule wo*"), "{by_settings}");
    assert!(by_settings.contains("config.toml"), "{by_settings}");
}

/// Stores the session `s1` of a file.
fn import(folder: &Path, file: &str) {
    let arguments = ["sessions", "import", file, "s1", "--agent", "agent.md"];
    let store = ["--store", "sqlite:s.db"];
    let imported = run(folder, arguments.into_iter().chain(store));
    assert_eq!(imported.status, 0, "{}", imported.stderr);
}

#[test]
fn an_interrupted_answer_is_marked() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let transcript = "<user>a question</user>\n<assistant status=\"interrupted\">a part</assistant>\n\
        <user>again</user>\n<assistant>the whole answer</assistant>\n";
    let folder = folder(&[("agent.md", AGENT), ("import.md", transcript)]);
    import(folder.path(), "import.md");
    let served = super::serve(folder.path(), &model, &[]);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.wait_for_text(&tab, "the whole answer");
    let mark = "Interrupted: this answer is incomplete";
    assert_eq!(count(&mut browser, &tab, mark), 1);
    let names = "[...document.querySelectorAll('.messages .assistant')].map((one) => one.getAttribute('aria-label')).join()";
    assert_eq!(browser.evaluate(&tab, names), "Interrupted answer,Answer");
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn a_long_result_is_shown_in_parts() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let lines: Vec<String> = (0..200_000).map(|line| format!("line {line}")).collect();
    let text = lines.join("\n");
    let call = json!([{"id": "c1", "name": "work", "arguments": "{}"}]);
    let messages = json!([
        {"role": "user", "content": "a question"},
        {"role": "assistant", "content": "", "tool_calls": call},
        {"role": "tool", "tool_call_id": "c1", "content": text},
        {"role": "assistant", "content": "the answer"},
    ]);
    let messages = json!({ "messages": messages }).to_string();
    std::fs::write(folder.path().join("import.json"), messages).unwrap();
    import(folder.path(), "import.json");
    let served = super::serve(folder.path(), &model, &[]);
    let tab = browser.open(&session_address(&served, "s1"));
    browser.click(&tab, ".tool summary");
    let length = "[...document.querySelectorAll('.tool-body pre')].at(-1).textContent.length";
    browser.wait(&tab, &format!("{length} === 50000"));
    let excess = "document.documentElement.scrollWidth - innerWidth";
    assert_eq!(browser.evaluate(&tab, excess), 0);
    browser.click(&tab, ".tool-body .link");
    assert_eq!(browser.evaluate(&tab, length), text.len());
    check_clean(&mut browser, &tab, &served);
}
