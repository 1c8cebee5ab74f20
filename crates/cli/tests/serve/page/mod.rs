//! The web page in a real browser.

mod approvals;
mod cards;
mod debug_view;
mod failed;
mod hostile;
mod keyboard;
mod login;
mod long;
mod looks;
mod reconnected;
mod restarted;
mod tabs;
mod times;
mod typing;

use serde_json::{Value, json};
use testkit::{Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::browser::{Browser, Tab};
use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"m\"/>\n<system>hidden instructions</system>\n\
    <tool name=\"work\" command=\"printf done\"/>\n<tool name=\"write_file\"/>\n\
    <tool name=\"find_and_replace\"/>\n";

/// Starts a server of the agent `agent.md`.
fn serve(folder: &std::path::Path, model: &ModelServer, arguments: &[&str]) -> Served {
    let mut command = logue(folder);
    command.env("OPENAI_BASE_URL", model.base_url());
    let arguments: Vec<&str> = ["agent.md"].iter().chain(arguments).copied().collect();
    Served::start_with(command, &arguments)
}

fn address(served: &Served) -> String {
    format!("http://{}/", served.address)
}

/// Returns the address of the page with a session.
fn session_address(served: &Served, session: &str) -> String {
    format!("http://{}/#/{session}", served.address)
}

/// Returns the number of occurrences of a text on a page.
fn count(browser: &mut Browser, tab: &Tab, text: &str) -> u64 {
    let text = json!(text);
    let counted = browser.evaluate(
        tab,
        &format!("document.querySelector('.column').innerText.split({text}).length - 1"),
    );
    counted.as_u64().unwrap()
}

/// Fails if a page has reported an error, or requested anything elsewhere.
fn check_clean(browser: &mut Browser, tab: &Tab, served: &Served) {
    browser.check_requests(tab, &served.address);
    for kind in ["Runtime.exceptionThrown", "Log.entryAdded"] {
        assert_eq!(browser.events(tab, kind), Vec::<Value>::new(), "{kind}");
    }
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
    let tab = browser.open(&address(&served));
    browser.send(&tab, "a question");
    // The text appears while the model still answers.
    browser.wait_for_text(&tab, "one two");
    browser.wait(&tab, "!document.querySelector('.stop').hidden");
    assert_eq!(count(&mut browser, &tab, "three"), 0);
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
    assert_eq!(count(&mut browser, &tab, "one two three"), 1);
    assert_eq!(count(&mut browser, &tab, "a question"), 1);
    check_clean(&mut browser, &tab, &served);
    assert_eq!(
        model.received()[0].body["messages"][1]["content"],
        json!("a question")
    );
}

#[test]
fn many_sessions_are_listed_in_parts() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for session in 0..230 {
        let path = format!("/v1/sessions/s{session}/send");
        let body = json!({ "message": format!("question {session}.") });
        assert_eq!(served.post(&path, &body).status, 200);
    }
    let tab = browser.open(&address(&served));
    let listed = "document.querySelectorAll('.session').length";
    for count in [100, 200, 230] {
        browser.wait(&tab, &format!("{listed} === {count}"));
        let has_more = browser.evaluate(&tab, "!document.querySelector('.more').hidden");
        assert_eq!(has_more, count < 230);
        if count < 230 {
            browser.click(&tab, ".more");
        }
    }
    browser.wait_for_text(&tab, "question 0.");
    browser.type_into(&tab, ".search input", "question 229.");
    browser.wait(&tab, &format!("{listed} === 1"));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn sessions_are_searched_and_copied() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = Served::start(folder.path(), &["agent.md"]);
    for (session, text) in [("s1", "red apples"), ("s2", "green pears"), ("s1", "more")] {
        let path = format!("/v1/sessions/{session}/send");
        assert_eq!(served.post(&path, &json!({ "message": text })).status, 200);
    }
    let tab = browser.open(&address(&served));
    let titles = "[...document.querySelectorAll('.session-title')].map((one) => one.textContent).sort().join()";
    browser.wait(&tab, &format!("{titles} === 'green pears,red apples'"));
    browser.type_into(&tab, ".search input", "PEARS green");
    browser.wait(&tab, &format!("{titles} === 'green pears'"));
    browser.evaluate(&tab, "location.hash = '#/s1'");
    browser.wait(
        &tab,
        "document.querySelectorAll('.message.user').length === 2",
    );
    // A copy that ends before the second message continues with another one.
    browser.click(
        &tab,
        ".message.user[data-position='2'] [aria-label^='Edit']",
    );
    browser.wait(
        &tab,
        "location.hash !== '#/s1' && document.querySelectorAll('.message.user').length === 1",
    );
    browser.wait(
        &tab,
        "document.querySelector('.composer textarea').value === 'more'",
    );
    browser.send(&tab, " bananas");
    browser.wait(
        &tab,
        "document.querySelectorAll('.message.user').length === 2",
    );
    browser.wait(
        &tab,
        "document.querySelectorAll('.messages .message').length === 4",
    );
    assert_eq!(served.get("/v1/sessions/s1").json()["messages"], 4);
    let copy = browser.evaluate(&tab, "location.hash.slice(2)");
    let copy = format!("/v1/sessions/{}/messages", copy.as_str().unwrap());
    let messages = served.get(&copy).json()["messages"].clone();
    assert_eq!(messages[0]["content"], "red apples");
    assert_eq!(messages[2]["content"], "more bananas");
    // Another copy asks again with the same message.
    browser.evaluate(&tab, "location.hash = '#/s2'");
    browser.click(
        &tab,
        ".message.user[data-position='0'] [aria-label^='Run again']",
    );
    browser.wait(&tab, "!['#/s2', ''].includes(location.hash) && document.querySelectorAll('.messages .message').length === 2");
    assert_eq!(
        served.get("/v1/sessions").json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    check_clean(&mut browser, &tab, &served);
}
