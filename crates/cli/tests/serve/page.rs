//! The web page in a real browser.

use serde_json::json;
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::browser::Browser;
use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n";

fn serve(folder: &std::path::Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

#[test]
fn a_message_is_answered_in_the_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let pieces = vec![
        text_delta("one **two** "),
        text_delta("three"),
        end_of_stream(),
    ];
    let model = ModelServer::start(vec![Reply::Gated(pieces, gate.clone())], Delivery::Whole);
    let model = model.unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&format!("http://{}/", served.address));
    browser.send(&tab, "a question");
    // The text appears while the model still answers.
    browser.wait_for_text(&tab, "one two");
    browser.wait(&tab, "!document.querySelector('.stop').hidden");
    let shown = browser.evaluate(&tab, "document.body.innerText.includes('three')");
    assert_eq!(shown, false);
    gate.open();
    gate.open();
    browser.wait(
        &tab,
        "document.querySelector('.messages .prose strong')?.textContent === 'two'",
    );
    browser.wait_for_text(&tab, "one two three");
    browser.wait(&tab, "document.querySelector('.stop').hidden");
    let listed = "document.querySelector('.session-title')?.textContent === 'a question'";
    browser.wait(&tab, listed);
    let text = browser.evaluate(&tab, "document.body.innerText");
    assert!(!text.as_str().unwrap().contains("hidden instructions"));
    browser.check_requests(&tab, &served.address);
    assert_eq!(
        browser.events(&tab, "Log.entryAdded"),
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(
        model.received()[0].body["messages"][1]["content"],
        json!("a question")
    );
}

#[test]
fn a_call_is_approved_in_the_browser() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let replies = vec![
        Reply::Answer(Answer::text("may I?").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let tab = browser.open(&format!("http://{}/", served.address));
    browser.send(&tab, "go");
    browser.wait_for_text(&tab, "Approve this call?");
    browser.wait_for_text(&tab, "printf done");
    browser.wait_for_text(&tab, "needs approval");
    assert_eq!(model.received().len(), 1);
    browser.screenshot(&tab, "serve-approval");
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
    browser.check_requests(&tab, &served.address);
}
