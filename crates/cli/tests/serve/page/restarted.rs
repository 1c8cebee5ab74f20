//! A server that is killed and started again while a browser shows its page.

use serde_json::json;
use testkit::{Answer, Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use super::{AGENT, address, count};
use crate::browser::Browser;
use crate::client::Served;
use crate::program::{folder, logue};

#[test]
fn the_page_continues_after_the_server_was_killed() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let gate = Gate::new();
    let pieces = vec![text_delta("lost words "), end_of_stream()];
    let again = vec![text_delta("the "), text_delta("answer"), end_of_stream()];
    let replies = vec![
        Reply::Gated(pieces, Gate::new()),
        Reply::Gated(again, gate.clone()),
        Reply::Answer(Answer::text("later")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let command = || {
        let mut command = logue(folder.path());
        command.env("OPENAI_BASE_URL", model.base_url());
        command
    };
    let served = Served::start_with(command(), &["agent.md"]);
    let listen = served.address.clone();
    let tab = browser.open(&address(&served));
    browser.send(&tab, "a question");
    browser.wait_for_text(&tab, "lost words");
    // A reload would remove this mark.
    browser.evaluate(&tab, "window.mark = 1");
    served.kill();
    browser.wait_for_text(&tab, "Reconnecting");
    let watch = "window.back = new Promise((done) => { const begun = performance.now(); const look = () => \
        document.body.innerText.includes('Reconnecting') ? setTimeout(look, 10) : done(performance.now() - begun); look(); }), 0";

    let served = Served::start_at(command(), &listen, &["agent.md"]);
    browser.evaluate(&tab, watch);
    let took = browser.evaluate(&tab, "window.back");
    println!("connected again after {took} ms");
    browser.wait_for_text(&tab, "the");
    browser.wait(&tab, "!document.body.innerText.includes('lost words')");
    gate.open();
    gate.open();
    browser.wait(
        &tab,
        "document.querySelector('.messages .prose')?.textContent.trim() === 'the answer'",
    );
    assert_eq!(count(&mut browser, &tab, "the answer"), 1);
    assert_eq!(count(&mut browser, &tab, "a question"), 1);
    assert_eq!(browser.evaluate(&tab, "window.mark"), 1);

    // A message that is sent without a server is accepted once, when the server is back.
    served.kill();
    browser.wait_for_text(&tab, "Reconnecting");
    browser.send(&tab, "another");
    let served = Served::start_at(command(), &listen, &["agent.md"]);
    browser.wait_for_text(&tab, "later");
    browser.wait(
        &tab,
        "document.querySelectorAll('.messages .message').length === 4",
    );
    let sessions = served.get("/v1/sessions").json()["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    assert_eq!(sessions[0]["messages"], json!(4));
    browser.check_requests(&tab, &served.address);
}
