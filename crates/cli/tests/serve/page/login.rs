//! The login by a token in a browser.

use std::path::Path;

use serde_json::json;
use testkit::{Answer, Delivery, ModelServer, Reply};

use super::{AGENT, address, serve};
use crate::browser::Browser;
use crate::client::Served;
use crate::program::{folder, run};

fn token(folder: &Path, name: &str, scope: &str) -> String {
    let ran = run(folder, ["serve", "token", "create", name, "--scope", scope]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

fn cookie_status(served: &Served, cookie: &str, headers: &[(&str, &str)]) -> u16 {
    let mut all = vec![("cookie", cookie)];
    all.extend(headers);
    served
        .request("POST", "/v1/sessions/s9/cancel", &all, "{}")
        .status
}

#[test]
fn a_cookie_is_bound_to_its_token() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let replies = vec![
        Reply::Answer(Answer::text("").with_call("c1", "work", "{}")),
        Reply::Answer(Answer::text("finished")),
    ];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT)]);
    let sender = token(folder.path(), "phone", "read,send");
    let approver = token(folder.path(), "reviewer", "read,approve");
    let served = serve(folder.path(), &model, &["--permission", "work=ask"]);
    let tab = browser.open(&address(&served));
    browser.type_into(&tab, "#token", "logue_wrong");
    browser.press(&tab, "Enter", 13);
    browser.wait_for_text(&tab, "This token is unknown or has expired.");
    browser.evaluate(&tab, "document.querySelector('#token').select()");
    browser.command(Some(&tab), "Input.insertText", json!({ "text": sender }));
    browser.press(&tab, "Enter", 13);
    browser.wait(&tab, "document.querySelector('.composer')");

    // Scripts read neither the token nor the cookie, which is no token.
    assert_eq!(browser.evaluate(&tab, "document.cookie"), "");
    let stored =
        "JSON.stringify([localStorage, sessionStorage]) + document.body.innerHTML + location.href";
    let stored = browser.evaluate(&tab, stored);
    assert!(!stored.as_str().unwrap().contains(&sender));
    // The cookie is sent to the interface only, also below the prefix of a proxy.
    let urls = json!({"urls": [format!("{}v1/me", address(&served))]});
    let cookies = browser.command(Some(&tab), "Network.getCookies", urls);
    let cookie = &cookies["cookies"][0];
    assert_eq!(cookie["httpOnly"], true);
    assert_eq!(cookie["sameSite"], "Strict");
    assert_eq!(cookie["path"], "/v1");
    let value = cookie["value"].as_str().unwrap();
    assert!(!sender.contains(value) && !value.contains(&sender));
    let bearer = format!("Bearer {value}");
    let used = served.request("GET", "/v1/me", &[("authorization", &bearer)], "");
    assert_eq!(used.status, 401);
    // Requests that another page could cause are refused.
    let pair = format!("logue={value}");
    assert_eq!(cookie_status(&served, &pair, &[]), 403);
    let foreign = [("origin", "http://evil.example")];
    assert_eq!(cookie_status(&served, &pair, &foreign), 403);
    let own = address(&served);
    let own = [("origin", own.trim_end_matches('/'))];
    assert_eq!(cookie_status(&served, &pair, &own), 404);

    // Who may send may not approve; a decision takes another token, once.
    browser.send(&tab, "go");
    browser.wait_for_text(&tab, "Your login may not approve");
    browser.type_into(&tab, ".other-token input", &approver);
    browser.click(&tab, ".approval .primary");
    browser.wait_for_text(&tab, "finished");

    // A revoked token ends the cookie, and the page shows its login.
    let revoked = run(folder.path(), ["serve", "token", "revoke", "phone"]);
    assert_eq!(revoked.status, 0, "{}", revoked.stderr);
    browser.wait(&tab, "document.querySelector('#token')");
    assert_eq!(cookie_status(&served, &pair, &own), 401);
    browser.check_requests(&tab, &served.address);
}
