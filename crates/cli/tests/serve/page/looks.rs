//! The page in light and dark, and on a phone: its layout, and its images in the documentation.

use serde_json::{Value, json};
use testkit::{Answer, Delivery, ModelServer, Received, Reply};

use super::{check_clean, serve, session_address};
use crate::browser::{Browser, Tab};
use crate::program::folder;

const AGENT: &str =
    "<config model=\"m\"/>\n<tool name=\"read_file\"/>\n<tool name=\"find_and_replace\"/>\n";
const NOTES: &str = "# Release 2.4\n\n- Sessions continue after a restart.\n- Search takes 80 ms.\n- \
    Exports contain all messages.\n\nPublished on Tuesday.\n";
const ANSWER: &str = "The draft has **three changes**. Two of them are ready:\n\n\
    | change | state | owner |\n|---|---|---|\n| Sessions continue after a restart | ready | Ada |\n\
    | Exports contain all messages | ready | Lin |\n| Search takes 80 ms | *measured once* | Ada |\n\n\
    Measure the search again before you publish the number:\n\n```sh\ncargo bench --bench search -- --samples 50\n```\n\n\
    I can correct the notes when the figure is known.";

fn answer_of(request: &Received) -> Reply {
    let messages = request.body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let asks_change = last["content"]
        .as_str()
        .is_some_and(|text| text.starts_with("The median"));
    Reply::Answer(if last["role"] == "tool" {
        Answer::text(ANSWER)
    } else if asks_change {
        let arguments = json!({"path": "notes.md", "find": "80 ms", "replace": "95 ms (median of 50 runs)", "all": false});
        Answer::text("I will replace the figure in `notes.md`.").with_call(
            "c2",
            "find_and_replace",
            arguments.to_string(),
        )
    } else {
        let arguments = json!({"file": "notes.md"});
        Answer::text("").with_call("c1", "read_file", arguments.to_string())
    })
}

fn media(browser: &mut Browser, tab: &Tab, scheme: &str) {
    let features = json!([{"name": "prefers-color-scheme", "value": scheme}, {"name": "hover", "value": "hover"}]);
    browser.command(
        Some(tab),
        "Emulation.setEmulatedMedia",
        json!({ "features": features }),
    );
}

fn size(browser: &mut Browser, tab: &Tab, (width, height): (u32, u32), scale: u32) {
    let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale,
        "mobile": width < 500});
    browser.command(Some(tab), "Emulation.setDeviceMetricsOverride", metrics);
}

/// Fails if the page is wider than its window, or a control has no name.
fn check_layout(browser: &mut Browser, tab: &Tab) {
    let excess = browser.evaluate(tab, "document.documentElement.scrollWidth - innerWidth");
    assert_eq!(excess, 0);
    let nameless = "[...document.querySelectorAll('button, input, textarea, select, a, summary')].filter((one) => \
        !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML)";
    assert_eq!(browser.evaluate(tab, nameless), json!([]));
    // Text has the contrast that the guidelines for accessibility require.
    let contrast = "(() => { const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255) \
        .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
        const ground = (one) => { for (let at = one; at; at = at.parentElement) { const color = getComputedStyle(at).backgroundColor; \
        if (color !== 'rgba(0, 0, 0, 0)') return color; } return 'rgb(255, 255, 255)'; }; \
        return [...document.querySelectorAll('body *')].filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) \
        && one.checkVisibility() && !one.closest(':disabled')).map((one) => { const [a, b] = [light(getComputedStyle(one).color), light(ground(one))]; \
        return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), one.outerHTML.slice(0, 120)]; }).filter(([ratio]) => ratio < 4.5); })()";
    assert_eq!(browser.evaluate(tab, contrast), json!([]));
}

#[test]
fn the_page_is_readable_in_every_scheme_and_on_a_phone() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let model = ModelServer::start_by(answer_of, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", AGENT), ("notes.md", NOTES)]);
    let served = serve(
        folder.path(),
        &model,
        &["--permission", "find_and_replace=ask"],
    );
    let send = |session: &str, text: &str, status: u16| {
        let path = format!("/v1/sessions/{session}/send");
        assert_eq!(
            served.post(&path, &json!({ "message": text })).status,
            status
        );
    };
    for (session, text) in [
        ("s1", "Summarise the interviews of last week"),
        ("s2", "Translate the invitation to Portuguese"),
        ("s3", "Why does the nightly build take 40 minutes?"),
        ("s4", "Are the release notes of 2.4 ready?"),
    ] {
        send(session, text, 200);
    }
    let tab = browser.open(&session_address(&served, "s4"));
    size(&mut browser, &tab, (1280, 820), 1);
    for scheme in ["light", "dark"] {
        media(&mut browser, &tab, scheme);
        browser.wait(&tab, "document.querySelectorAll('.session').length === 4 && document.querySelector('.messages table')");
        check_layout(&mut browser, &tab);
        browser.screenshot(&tab, &format!("serve-{scheme}"));
    }
    send(
        "s4",
        "The median of 50 runs is 95 ms. Correct the notes.",
        202,
    );
    browser.wait(
        &tab,
        "document.querySelector('.diff ins') && document.querySelector('.badge.waits')",
    );
    for scheme in ["dark", "light"] {
        media(&mut browser, &tab, scheme);
        check_layout(&mut browser, &tab);
    }
    // The page follows its end while messages arrive, and in a window of another size.
    let followed = "(() => { const box = document.querySelector('.approval .primary').getBoundingClientRect(); \
        return box.top > 0 && box.bottom < document.querySelector('.composer').getBoundingClientRect().top; })()";
    browser.wait(&tab, followed);
    browser.screenshot(&tab, "serve-approval");
    size(&mut browser, &tab, (390, 800), 2);
    browser.wait(
        &tab,
        "getComputedStyle(document.querySelector('.sidebar')).visibility === 'hidden'",
    );
    browser.wait(&tab, followed);
    check_layout(&mut browser, &tab);
    browser.screenshot(&tab, "serve-phone");
    // The fields of the arguments and those of a denial fit as well.
    for scheme in ["dark", "light"] {
        media(&mut browser, &tab, scheme);
        check_layout(&mut browser, &tab);
        browser.click(&tab, ".approval > .buttons button:nth-child(3)");
        browser.wait(&tab, "document.querySelector('.arguments .field')");
        check_layout(&mut browser, &tab);
        browser.screenshot(&tab, &format!("phone-edit-{scheme}"));
        browser.click(&tab, ".approval > .buttons button:nth-child(4)");
        browser.click(&tab, ".approval > .buttons .danger");
        browser.wait(&tab, "document.querySelector('.reason').checkVisibility()");
        check_layout(&mut browser, &tab);
        browser.click(&tab, ".reason button:nth-child(2)");
    }
    browser.click(&tab, ".head [aria-label=Sessions]");
    browser.wait(
        &tab,
        "getComputedStyle(document.querySelector('.sidebar')).visibility === 'visible'",
    );
    browser.press(&tab, "Escape", 27);
    browser.wait(&tab, "!document.body.classList.contains('drawer')");
    check_clean(&mut browser, &tab, &served);
    assert_eq!(
        browser.events(&tab, "Page.javascriptDialogOpening"),
        Vec::<Value>::new()
    );
}
