//! Turns that fail, and addresses that name no session, in a browser.

use testkit::{Answer, Delivery, ModelServer, Reply, text_delta};

use super::{AGENT, address, check_clean, count, serve, session_address};
use crate::browser::Browser;
use crate::program::folder;

#[test]
fn a_message_of_a_failed_turn_is_sent_again() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let replies = vec![
        Reply::Status(400, Vec::new(), "{}".to_owned()),
        Reply::Answer(Answer::text("answered")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&address(&served));
    browser.send(&tab, "a question");
    browser.wait_for_text(&tab, "The model server refused the request.");
    // The message is still on the page, and goes back into the field.
    assert_eq!(count(&mut browser, &tab, "a question"), 1);
    browser.click(&tab, ".failure button");
    browser.wait(
        &tab,
        "document.querySelector('.composer textarea').value === 'a question'",
    );
    assert_eq!(count(&mut browser, &tab, "a question"), 0);
    browser.press(&tab, "Enter", 13);
    browser.wait_for_text(&tab, "answered");
    browser.wait(
        &tab,
        "document.querySelectorAll('.messages .message').length === 2",
    );
    assert_eq!(count(&mut browser, &tab, "a question"), 1);
    assert_eq!(model.received().len(), 2);
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn a_retried_answer_replaces_its_part_at_once() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let replies = vec![
        Reply::Cut(text_delta("half an ")),
        Reply::Answer(Answer::text("whole")),
        Reply::Answer(Answer::text("later")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &["--retries", "0"]);
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    browser.wait(&tab, "document.querySelector('.messages .interrupted')");
    assert_eq!(count(&mut browser, &tab, "half an"), 1);
    browser.click(&tab, ".failure button");
    browser.wait_for_text(&tab, "whole");
    browser.wait(&tab, "!document.querySelector('.turn')");
    assert_eq!(count(&mut browser, &tab, "half an"), 0);
    browser.send(&tab, "more");
    let all = "document.querySelectorAll('.messages .message').length === 4";
    browser.wait(&tab, all);
    browser.wait_for_text(&tab, "later");
    for text in ["go", "whole", "more", "later"] {
        assert_eq!(count(&mut browser, &tab, text), 1, "{text}");
    }
    check_clean(&mut browser, &tab, &served);
}

#[test]
fn an_address_without_a_session_leads_to_a_new_one() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start(Vec::new(), Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&session_address(&served, "unknown"));
    browser.wait_for_text(&tab, "This session does not exist");
    browser.click(&tab, ".failure button");
    browser.wait(&tab, "document.querySelector('.welcome')");
    // An address that is no text of an id begins a session as well.
    let tab = browser.open(&session_address(&served, "%E0%A4%A"));
    browser.wait(&tab, "document.querySelector('.welcome')");
    check_clean(&mut browser, &tab, &served);
}
