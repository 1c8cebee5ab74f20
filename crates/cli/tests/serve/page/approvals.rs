//! Decisions about calls in a browser.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use super::{AGENT, address, check_clean, count, serve, session_address};
use crate::browser::Browser;
use crate::client::Served;
use crate::program::folder;

/// Starts a server whose model calls a tool, and answers `finished` after its result.
fn asking(name: &'static str, arguments: &Value) -> (tempfile::TempDir, ModelServer, Served) {
    let arguments = arguments.to_string();
    let answer_of = move |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let has_result = messages.iter().any(|message| message["role"] == "tool");
        Reply::Answer(if has_result {
            Answer::text("finished")
        } else {
            Answer::text("may I?").with_call("c1", name, &arguments)
        })
    };
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let files = [("agent.md", AGENT), ("notes.md", "# Notes\n\nold line\n")];
    let folder = folder(&files);
    let rule = format!("{name}=ask");
    let served = serve(folder.path(), &model, &["--permission", &rule]);
    (folder, model, served)
}

/// Returns the result of the call that the model received.
fn result_of(model: &ModelServer) -> String {
    let received = model.received();
    let messages = received.last().unwrap().body["messages"].clone();
    let messages = messages.as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool");
    result.unwrap()["content"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_is_approved_in_the_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (_folder, model, served) = asking("work", &json!({}));
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    browser.wait_for_text(&tab, "Approve this call?");
    browser.wait_for_text(&tab, "printf done");
    browser.wait_for_text(&tab, "needs approval");
    assert_eq!(model.received().len(), 1);
    browser.click(&tab, ".approval .primary");
    browser.wait(&tab, "!document.querySelector('.approval')");
    browser.wait_for_text(&tab, "finished");
    browser.wait(
        &tab,
        "document.querySelector('.tool')?.dataset.state === 'done'",
    );
    browser.click(&tab, ".tool summary");
    browser.wait(
        &tab,
        "document.querySelector('.tool-body')?.textContent.includes('[exit status 0]')",
    );
    assert!(result_of(&model).contains("done"));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn a_denied_call_has_a_reason() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (_folder, model, served) = asking("work", &json!({}));
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    browser.click(&tab, ".approval > .buttons .danger");
    browser.type_into(&tab, ".reason textarea", "not on a Friday");
    browser.click(&tab, ".reason .danger");
    browser.wait_for_text(&tab, "finished");
    browser.wait(
        &tab,
        "document.querySelector('.tool')?.dataset.state === 'denied'",
    );
    assert!(result_of(&model).contains("not on a Friday"));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn edited_arguments_are_executed() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let arguments = json!({"path": "notes.md", "content": "# Notes\n\nnew line\n"});
    let (folder, model, served) = asking("write_file", &arguments);
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    // The card shows the changes, and each argument has a field of its type.
    browser.wait(
        &tab,
        "document.querySelector('.diff ins')?.textContent.includes('new line')",
    );
    browser.wait(
        &tab,
        "document.querySelector('.diff del')?.textContent.includes('old line')",
    );
    browser.click(&tab, ".approval > .buttons button:nth-child(3)");
    let kinds =
        "document.querySelectorAll('.arguments .field.boolean input[type=checkbox]').length";
    assert_eq!(browser.evaluate(&tab, kinds), 1, "create_only");
    let field = "[...document.querySelectorAll('.arguments .field')].find((one) => one.querySelector('label').textContent.startsWith('content')).querySelector('textarea')";
    browser.evaluate(&tab, &format!("{field}.select()"));
    let text = json!({"text": "edited by a person\n"});
    browser.command(Some(&tab), "Input.insertText", text);
    browser.click(&tab, ".approval .primary");
    browser.wait_for_text(&tab, "finished");
    let written = std::fs::read_to_string(folder.path().join("notes.md")).unwrap();
    assert_eq!(written, "edited by a person\n");
    assert!(!result_of(&model).contains("denied"));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn tabs_show_decisions_of_each_other_and_of_other_clients() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let (_folder, _model, served) = asking("work", &json!({}));
    let first = browser.open(&session_address(&served, "s1"));
    let second = browser.open(&session_address(&served, "s1"));
    // The session begins elsewhere; both tabs wait for it, without a reload.
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "go"}));
    assert_eq!(sent.status, 202);
    for tab in [&first, &second] {
        browser.wait(tab, "document.querySelector('.approval')");
    }
    browser.click(&first, ".approval .primary");
    for tab in [&first, &second] {
        browser.wait(tab, "!document.querySelector('.approval')");
        browser.wait_for_text(tab, "finished");
        assert_eq!(count(&mut browser, tab, "finished"), 1);
    }
    // A decision through the interface, about the next call.
    let forked = served.post(
        "/v1/sessions/s1/fork",
        &json!({"messages": 0, "into": "s2"}),
    );
    assert_eq!(forked.status, 201, "{forked:?}");
    browser.evaluate(&second, "location.hash = '#/s2'");
    browser.wait(
        &second,
        "document.querySelector('.conversation')?.dataset.ready === 'true'",
    );
    let sent = served.post("/v1/sessions/s2/send", &json!({"message": "again"}));
    let signal = sent.json()["signal"]["signal_id"].clone();
    browser.wait(&second, "document.querySelector('.approval')");
    let path = format!("/v1/signals/{}", signal.as_str().unwrap());
    assert_eq!(
        served.post(&path, &json!({"approval": "approve"})).status,
        200
    );
    browser.wait(&second, "!document.querySelector('.approval')");
    browser.wait_for_text(&second, "finished");
}

#[test]
fn a_decision_is_sent_once_with_every_argument() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let arguments = json!({"path": "notes.md", "find": "line", "replace": "x", "all": true});
    let (folder, _model, served) = asking("find_and_replace", &arguments);
    std::fs::write(folder.path().join("notes.md"), "line and line\n").unwrap();
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    let edit = ".approval > .buttons button:nth-child(3)";
    let reset = ".approval > .buttons button:nth-child(4)";
    browser.click(&tab, edit);
    let field = "[...document.querySelectorAll('.arguments .field')].find((one) => one.querySelector('label').textContent.startsWith('replace')).querySelector('input')";
    browser.evaluate(&tab, &format!("{field}.value = 'discarded'"));
    // Discarded changes are not sent.
    browser.click(&tab, reset);
    browser.wait(&tab, "!document.querySelector('.arguments .field')");
    browser.click(&tab, edit);
    browser.wait(&tab, &format!("{field}.value === 'x'"));
    browser.evaluate(&tab, &format!("{field}.value = 'word'"));
    let twice = "(() => { const button = document.querySelector('.approval .primary'); button.click(); button.click(); })()";
    browser.evaluate(&tab, twice);
    browser.wait_for_text(&tab, "finished");
    // The form has kept `all`, which was not edited.
    let written = std::fs::read_to_string(folder.path().join("notes.md")).unwrap();
    assert_eq!(written, "word and word\n");
    let requests = browser.requests(&tab);
    let decisions = requests.iter().filter(|url| url.contains("/v1/signals/"));
    assert_eq!(decisions.count(), 1, "{requests:?}");
    check_clean(&mut browser, &tab, &served);
}
