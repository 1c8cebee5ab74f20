//! The page without a mouse, and what a screen reader receives.

use serde_json::json;
use testkit::{Answer, Delivery, Gate, ModelServer, Received, Reply, end_of_stream, text_delta};

use super::{AGENT, address, check_clean, serve};
use crate::browser::{Browser, Tab};
use crate::program::{folder, run};

const ALT: u32 = 1;
const SHIFT: u32 = 8;

/// Returns the name of the focused element.
fn focused(browser: &mut Browser, tab: &Tab) -> String {
    let name = "(() => { const one = document.activeElement; \
        return one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.textContent; })()";
    let name = browser.evaluate(tab, name);
    name.as_str().unwrap().to_owned()
}

/// Presses Tab until an element of this name has the focus.
fn tab_to(browser: &mut Browser, tab: &Tab, name: &str) {
    let mut seen = Vec::new();
    for _ in 0..40 {
        browser.press(tab, "Tab", 9);
        let now = focused(browser, tab);
        if now == name {
            return;
        }
        seen.push(now);
    }
    panic!("no `{name}` among {seen:?}");
}

/// Calls `work` for each message, and answers with the result of the call.
fn calling(request: &Received) -> Reply {
    let last = request.body["messages"].as_array().unwrap().last().unwrap();
    Reply::Answer(if last["role"] == "tool" {
        let text = last["content"].as_str().unwrap().replace('\n', " ");
        Answer::text(format!("finished: {text}"))
    } else {
        let arguments = json!({"arguments": ["one", "two"]}).to_string();
        Answer::text("").with_call("c1", "work", arguments)
    })
}

#[test]
fn calls_are_decided_by_keys() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start_by(calling, Delivery::Whole).unwrap();
    let agent = AGENT.replace("printf done", "echo");
    let folder = folder(&[("agent.md", &agent)]);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let tab = browser.open(&address(&served));
    let done = |count: usize| {
        format!(
            "document.querySelectorAll('.messages .prose').length === {count} && !document.querySelector('.approval')"
        )
    };

    browser.send(&tab, "go");
    browser.wait(&tab, "document.querySelector('.approval')");
    browser.press_with(&tab, ALT, "KeyA", 65);
    assert_eq!(focused(&mut browser, &tab), "Approval");
    tab_to(&mut browser, &tab, "Approve");
    browser.press(&tab, "Enter", 13);
    browser.wait(&tab, &done(1));
    browser.wait_for_text(&tab, "finished: one two");
    // The focus stays in the conversation.
    assert_eq!(focused(&mut browser, &tab), "Session");

    // A denial with a reason.
    browser.press(&tab, "/", 191);
    browser.send(&tab, "again");
    browser.wait(&tab, "document.querySelector('.approval')");
    browser.press_with(&tab, ALT, "KeyA", 65);
    tab_to(&mut browser, &tab, "Deny…");
    browser.press(&tab, "Enter", 13);
    assert_eq!(focused(&mut browser, &tab), "Reason");
    browser.command(Some(&tab), "Input.insertText", json!({"text": "not today"}));
    tab_to(&mut browser, &tab, "Deny");
    browser.press(&tab, "Enter", 13);
    browser.wait(&tab, &done(2));
    browser.wait_for_text(&tab, "not today");

    // Edited arguments: a list has a field for each item.
    browser.press(&tab, "/", 191);
    browser.send(&tab, "once more");
    browser.wait(&tab, "document.querySelector('.approval')");
    browser.press_with(&tab, ALT, "KeyA", 65);
    tab_to(&mut browser, &tab, "Edit");
    browser.press(&tab, "Enter", 13);
    assert_eq!(focused(&mut browser, &tab), "arguments, item 1");
    browser.command(Some(&tab), "Input.insertText", json!({"text": "1st"}));
    tab_to(&mut browser, &tab, "Remove item 2");
    browser.press(&tab, "Enter", 13);
    assert_eq!(focused(&mut browser, &tab), "arguments, item 1");
    tab_to(&mut browser, &tab, "Add an item");
    browser.press(&tab, "Enter", 13);
    assert_eq!(focused(&mut browser, &tab), "arguments, item 2");
    browser.command(Some(&tab), "Input.insertText", json!({"text": "new"}));
    let items = browser.evaluate(
        &tab,
        "[...document.querySelectorAll('.item')].map((one) => one.value)",
    );
    browser.press_with(&tab, SHIFT, "Tab", 9);
    assert_eq!(focused(&mut browser, &tab), "Remove item 1");
    tab_to(&mut browser, &tab, "Approve with changes");
    browser.press(&tab, "Enter", 13);
    browser.wait(&tab, &done(3));
    let text = items
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap());
    let text: Vec<&str> = text.collect();
    assert_eq!(text[1], "new");
    browser.wait_for_text(&tab, &text.join(" "));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn the_help_lists_every_key() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = folder(&[("agent.md", "<config model=\"echo:\"/>\n")]);
    let served = crate::client::Served::start(folder.path(), &["agent.md"]);
    let tab = browser.open(&address(&served));
    browser.click(&tab, "[aria-label^='Keyboard shortcuts']");
    let rows = "[...document.querySelectorAll('dialog dt')].map((one) => \
        [[...one.querySelectorAll('kbd')].map((key) => key.textContent).join(' '), one.nextElementSibling.textContent].join(': '))";
    let expected = json!([
        "Enter: Send the message",
        "Shift Enter: New line",
        "Escape: Stop the answer; close a list or dialog",
        "Alt N: New session",
        "Ctrl K: Search sessions",
        "Alt ↑ Alt ↓: Previous or next session",
        "Alt A: Go to the approval",
        "/: Go to the message field",
        "?: Show this list",
    ]);
    assert_eq!(browser.evaluate(&tab, rows), expected);
    let text = browser.evaluate(&tab, "document.querySelector('dialog').innerText");
    assert!(!text.as_str().unwrap().contains("[object"), "{text}");
    browser.press(&tab, "Escape", 27);
    browser.wait(&tab, "!document.querySelector('dialog')");
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn announcements_are_of_the_current_turn() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let replies = vec![
        Reply::Answer(Answer::text("first")),
        Reply::Gated(vec![text_delta("second"), end_of_stream()], gate.clone()),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&address(&served));
    let announced =
        "document.querySelector('.conversation > [role=status][aria-live=polite]').textContent";
    browser.send(&tab, "go");
    browser.wait(&tab, &format!("{announced} === 'The answer is complete'"));
    browser.send(&tab, "again");
    browser.wait_for_text(&tab, "second");
    assert_eq!(browser.evaluate(&tab, announced), "");
    gate.open();
    browser.wait(&tab, &format!("{announced} === 'The answer is complete'"));
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn a_decision_without_the_other_token_is_not_sent() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start_by(calling, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let sender = ["serve", "token", "create", "phone", "--scope", "read,send"];
    let sender = run(folder.path(), sender);
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let tab = browser.open(&address(&served));
    browser.type_into(&tab, "#token", sender.stdout.trim());
    browser.press(&tab, "Enter", 13);
    browser.send(&tab, "go");
    browser.click(&tab, ".approval .primary");
    browser.wait_for_text(&tab, "Enter a token with the scope approve");
    assert_eq!(focused(&mut browser, &tab), "Token with the scope approve");
    let requests = browser.requests(&tab);
    assert!(
        !requests.iter().any(|url| url.contains("/v1/signals/")),
        "{requests:?}"
    );
    browser.check_requests(&tab, &served.address);
}
