//! A headless Chromium, driven over the pipes of its remote debugging interface.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest wait for anything that a page does.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two looks at a page.
const LOOK: Duration = Duration::from_millis(20);

/// A browser, which is ended when it is dropped.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    next: u64,
    /// The events that were received, with the session of their page.
    events: VecDeque<Value>,
    _profile: TempDir,
}

/// A tab of the browser.
#[derive(Clone, Debug)]
pub(crate) struct Tab {
    session: String,
    target: String,
}

/// Returns the browser's program: `LOGUE_CHROMIUM`, the first one on the path, or the one that
/// `testing/testkit/chromium/fetch` has unpacked.
fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("LOGUE_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let installed = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unpacked = root.join("testing/testkit/chromium/.cache/chromium");
    installed.or_else(|| unpacked.is_file().then_some(unpacked))
}

impl Browser {
    /// Starts a browser; `None`, with a note, where none is installed.
    #[expect(clippy::print_stdout, reason = "a skipped test is reported")]
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = program() else {
            println!("SKIPPED: Chromium is not installed; run testing/testkit/chromium/fetch");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            // Chromium reads messages from descriptor 3 and writes them to 4.
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", "sh"])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-default-apps",
                "--disable-extensions",
                "--disable-sync",
                "--hide-scrollbars",
                "--window-size=1280,860",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut message = Vec::new();
                let read = output.read_until(0, &mut message);
                if read.unwrap_or_default() == 0 {
                    return;
                }
                message.pop();
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (next, events) = (1, VecDeque::new());
        Some(Self {
            child,
            input,
            messages,
            next,
            events,
            _profile: profile,
        })
    }

    /// Sends a command and returns its result.
    #[expect(clippy::needless_pass_by_value, reason = "a literal at each call")]
    pub(crate) fn command(&mut self, tab: Option<&Tab>, method: &str, parameters: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(tab) = tab {
            message["sessionId"] = json!(tab.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            let mut message = message.unwrap_or_else(|_| panic!("no answer to {method}"));
            if message["id"] == id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }

    /// Opens a tab with an address, and records its requests and dialogs.
    ///
    /// It is visible, and hides the other tabs of its window.
    pub(crate) fn open(&mut self, address: &str) -> Tab {
        let tab = self.blank(false);
        self.command(Some(&tab), "Page.navigate", json!({ "url": address }));
        tab
    }

    /// Opens a tab like [`open`](Self::open) in a window of its own.
    pub(crate) fn open_window(&mut self, address: &str) -> Tab {
        let tab = self.blank(true);
        self.command(Some(&tab), "Page.navigate", json!({ "url": address }));
        tab
    }

    /// Opens a tab without a page.
    pub(crate) fn blank(&mut self, is_window: bool) -> Tab {
        let create = json!({"url": "about:blank", "newWindow": is_window});
        let target = self.command(None, "Target.createTarget", create);
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.command(None, "Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let target = target["targetId"].as_str().unwrap().to_owned();
        let tab = Tab { session, target };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.command(Some(&tab), &format!("{domain}.enable"), json!({}));
        }
        tab
    }

    /// Shows a tab in place of the others of its window.
    pub(crate) fn show(&mut self, tab: &Tab) {
        self.command(Some(tab), "Page.bringToFront", json!({}));
        self.wait(tab, "!document.hidden");
    }

    /// Closes a tab.
    pub(crate) fn close(&mut self, tab: &Tab) {
        let target = json!({ "targetId": tab.target });
        self.command(None, "Target.closeTarget", target);
    }

    /// Evaluates an expression of a page, after its promise.
    pub(crate) fn evaluate(&mut self, tab: &Tab, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true,
            "awaitPromise": true, "userGesture": true});
        let mut answer = self.command(Some(tab), "Runtime.evaluate", parameters);
        let failure = answer.get("exceptionDetails");
        assert!(failure.is_none(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression of a page is true.
    pub(crate) fn wait(&mut self, tab: &Tab, expression: &str) {
        let begun = Instant::now();
        // An expression fails while the page is being replaced.
        let safe = format!(
            "(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"
        );
        loop {
            let parameters = json!({"expression": safe, "returnByValue": true});
            let answer = self.command(Some(tab), "Runtime.evaluate", parameters);
            if answer["result"]["value"] == true {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let shown = self.evaluate(tab, "document.body?.innerText");
                panic!("`{expression}` did not become true; the page shows: {shown}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until the page shows a text.
    pub(crate) fn wait_for_text(&mut self, tab: &Tab, text: &str) {
        let text = json!(text);
        self.wait(tab, &format!("document.body.innerText.includes({text})"));
    }

    /// Types a text into an element, as a person does.
    pub(crate) fn type_into(&mut self, tab: &Tab, selector: &str, text: &str) {
        let selector = json!(selector);
        self.wait(tab, &format!("document.querySelector({selector})"));
        self.evaluate(tab, &format!("document.querySelector({selector}).focus()"));
        self.command(Some(tab), "Input.insertText", json!({ "text": text }));
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, tab: &Tab, key: &str, code: u32) {
        self.press_with(tab, 0, key, code);
    }

    /// Presses a key with modifiers: 1 is Alt, 2 is Ctrl, 8 is Shift.
    pub(crate) fn press_with(&mut self, tab: &Tab, modifiers: u32, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key,
                "windowsVirtualKeyCode": code, "modifiers": modifiers});
            if key == "Enter" {
                event["text"] = json!("\r");
            }
            self.command(Some(tab), "Input.dispatchKeyEvent", event);
        }
    }

    /// Clicks the middle of an element with the mouse.
    pub(crate) fn click(&mut self, tab: &Tab, selector: &str) {
        let quoted = json!(selector);
        self.wait(tab, &format!("document.querySelector({quoted})?.getBoundingClientRect().width > 0 && !document.querySelector({quoted}).disabled"));
        let place = self.evaluate(tab, &format!(
            "(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.command(Some(tab), "Input.dispatchMouseEvent", event);
        }
    }

    /// Sends a message by the page's field.
    pub(crate) fn send(&mut self, tab: &Tab, text: &str) {
        self.type_into(tab, ".composer textarea", text);
        self.press(tab, "Enter", 13);
    }

    /// Returns the events of a kind that were received so far.
    pub(crate) fn events(&mut self, tab: &Tab, method: &str) -> Vec<Value> {
        // A command makes the earlier events arrive.
        self.command(Some(tab), "Runtime.evaluate", json!({"expression": "0"}));
        let own = self.events.iter().filter(|event| {
            event["method"] == method && event["sessionId"] == tab.session.as_str()
        });
        own.map(|event| event["params"].clone()).collect()
    }

    /// Returns the addresses that a page has requested.
    pub(crate) fn requests(&mut self, tab: &Tab) -> Vec<String> {
        let events = self.events(tab, "Network.requestWillBeSent");
        let addresses = events.iter().map(|event| event["request"]["url"].as_str());
        addresses
            .map(|address| address.unwrap().to_owned())
            .collect()
    }

    /// Fails if a page has requested anything of another server.
    pub(crate) fn check_requests(&mut self, tab: &Tab, server: &str) {
        let own = format!("http://{server}/");
        for address in self.requests(tab) {
            let is_own = address.starts_with(&own)
                || address.starts_with("data:")
                || address == "about:blank";
            assert!(is_own, "a request to {address}");
        }
    }

    /// Saves a screenshot, if `LOGUE_SCREENSHOTS` names a folder.
    pub(crate) fn screenshot(&mut self, tab: &Tab, name: &str) {
        let Some(folder) = std::env::var_os("LOGUE_SCREENSHOTS") else {
            return;
        };
        let taken = self.command(
            Some(tab),
            "Page.captureScreenshot",
            json!({"format": "png"}),
        );
        let data = taken["data"].as_str().unwrap();
        let data = base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), data).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
