//! Servers whose store cannot be written.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::Served;
use crate::program::{folder, logue};

const AGENT: &str = "<config model=\"echo:\"/>\n";
const STORE: &str = "sqlite:data/s.db";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn start(place: &Path) -> Served {
    Served::start_on(logue(place), "127.0.0.1:0", STORE, &["agent.md"])
}

/// Creates a store with one session, and the log of events beside it.
fn filled() -> tempfile::TempDir {
    let folder = folder(&[("agent.md", AGENT), ("data/other", "")]);
    set_mode(&folder.path().join("data"), 0o700);
    let served = start(folder.path());
    let sent = served.post("/v1/sessions/s1/send", &json!({"message": "one"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    assert_eq!(served.end().status, Some(143));
    folder
}

/// Requires that a start names the file that cannot be written, and the next step.
fn is_refused(place: &Path, store: &str, named: &str, cause: &str) {
    let mut command = logue(place);
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", store]);
    command.arg("agent.md").stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // The first line is that of the error, or of a server that would run on.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    if first.starts_with("listening on") {
        child.kill().unwrap();
    }
    let mut text = first;
    stderr.read_to_string(&mut text).unwrap();
    let (status, stderr) = (child.wait().unwrap().code(), text);
    assert_eq!(status, Some(3), "{stderr}");
    let error = format!("error[store_read_only]: {named}: {cause}");
    assert!(stderr.contains(&error), "{stderr}");
    let help = "help: make the file and its directory writable, or copy it";
    assert!(stderr.contains(help), "{stderr}");
}

#[test]
fn a_start_names_the_file_that_cannot_be_written() {
    let folder = filled();
    let place = folder.path();
    let (data, log) = (place.join("data"), place.join("data/s.db-events"));
    let cause = "cannot write: the file or its directory is read-only";
    for has_log in [true, false] {
        if !has_log {
            fs::remove_file(&log).unwrap();
        }
        set_mode(&data, 0o500);
        is_refused(place, STORE, "data/s.db-events", cause);
        assert_eq!(log.exists(), has_log);
        set_mode(&data, 0o700);
    }
    drop(start(place));
    set_mode(&log, 0o400);
    is_refused(place, STORE, "data/s.db-events", cause);
    set_mode(&log, 0o600);
    drop(start(place));
}

/// No user can create a file there, root included.
#[cfg(target_os = "linux")]
#[test]
fn a_new_store_where_nothing_can_be_created_is_named() {
    let folder = folder(&[("agent.md", AGENT)]);
    let cause = "cannot create: its directory is read-only";
    let store = "sqlite:/sys/logue.db";
    is_refused(folder.path(), store, "/sys/logue.db", cause);
}

#[test]
fn a_store_that_is_only_read_is_shown_and_accepts_nothing() {
    let folder = filled();
    let file = folder.path().join("data/s.db");
    set_mode(&file, 0o400);
    let served = start(folder.path());
    let shown = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(shown["to"], 2, "{shown}");
    let run = json!({"threadId": "s1", "runId": "r", "tools": [], "context": [], "state": {},
        "forwardedProps": {}, "messages": [{"id": "m", "role": "user", "content": "two"}]});
    let chat = json!({"model": "agent", "messages": [{"role": "user", "content": "two"}]});
    for (path, body) in [
        ("/v1/sessions/s1/send", json!({"message": "two"})),
        ("/v1/sessions/s2/send", json!({"message": "two"})),
        ("/v1/sessions/s1/fork", json!({})),
        ("/v1/sessions/s1/cancel", json!({})),
        ("/v1/chat/completions", chat),
        ("/v1/responses", json!({"model": "agent", "input": "two"})),
        ("/v1/ag-ui/agent", run),
    ] {
        let in_session = [("x-logue-session", "s1")];
        let refused = served.request("POST", path, &in_session, &body.to_string());
        for found in ["store_unavailable", "the session store is only read"] {
            assert!(refused.text.contains(found), "{path}: {refused:?}");
        }
        // A run reports its errors as events.
        let expected = if path.contains("ag-ui") { 200 } else { 503 };
        assert_eq!(refused.status, expected, "{path}: {refused:?}");
        let has_wait = refused.head.to_lowercase().contains("retry-after: 1");
        assert_eq!(has_wait, expected == 503, "{path}: {refused:?}");
    }
    assert_eq!(served.get("/readyz").status, 503);
    assert_eq!(served.end().status, Some(143));
    set_mode(&file, 0o600);
    let served = start(folder.path());
    let listed: Value = served.get("/v1/sessions").json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    let shown = served.get("/v1/sessions/s1/messages").json();
    assert_eq!(shown["to"], 2, "{shown}");
}
