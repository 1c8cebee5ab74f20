//! Typing while an answer arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use super::{address, check_clean, serve};
use crate::browser::Browser;
use crate::program::folder;

/// Notes the time from each key to the end of the work that it causes.
const NOTE: &str = "(() => { window.typed = []; addEventListener('input', (event) => \
    queueMicrotask(() => window.typed.push(performance.now() - event.timeStamp))); })()";
/// The 95th percentile of these times.
const P95: &str = "[...window.typed].sort((a, b) => a - b)[Math.floor(window.typed.length * 0.95)]";

#[test]
fn typing_works_while_an_answer_arrives() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut pieces: Vec<Vec<u8>> = (0..2_000)
        .map(|number| text_delta(&format!("**word {number}** and `more`\n\n")))
        .collect();
    pieces.push(end_of_stream());
    let gate = Gate::new();
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let served = serve(folder.path(), &model, &[]);
    let tab = browser.open(&address(&served));
    browser.send(&tab, "go");
    browser.wait_for_text(&tab, "word 0");
    // 50 pieces a second.
    let ended = Arc::new(AtomicBool::new(false));
    let (opened, stop) = (gate, Arc::clone(&ended));
    let ticker = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            opened.open();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    browser.wait_for_text(&tab, "word 20");
    browser.evaluate(&tab, NOTE);
    browser.evaluate(&tab, "document.querySelector('.composer textarea').focus()");
    for number in 1..=100 {
        browser.command(Some(&tab), "Input.insertText", json!({ "text": "x" }));
        browser.wait(&tab, &format!("window.typed.length >= {number}"));
    }
    let p95 = browser.evaluate(&tab, P95).as_f64().unwrap();
    ended.store(true, Ordering::Relaxed);
    ticker.join().unwrap();
    println!("typing while an answer arrives: p95 {p95:.1} ms");
    let typed = "document.querySelector('.composer textarea').value.length";
    assert_eq!(browser.evaluate(&tab, typed), 100);
    check_clean(&mut browser, &tab, &served);
}
