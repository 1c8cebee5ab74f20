//! A log of events that another process holds while an answer arrives.

use std::fs::OpenOptions;
use std::os::fd::AsFd as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde_json::json;
use testkit::{Delivery, Gate, ModelServer, Reply, end_of_stream, text_delta};

use crate::client::Served;
use crate::history::{check_numbers, count};
use crate::program::{folder, logue};
use crate::waiting::wait_until;

/// The place of the lock of writers in the file `-shm` of SQLite.
const WRITER: libc::off_t = 120;

/// Returns a function that takes the lock of writers, or gives it back.
pub(crate) fn writer_lock(shared: &Path) -> impl Fn(libc::c_int) + use<> {
    let mut options = OpenOptions::new();
    let shared = options.read(true).write(true).open(shared).unwrap();
    move |kind| {
        let place = libc::flock {
            l_type: libc::c_short::try_from(kind).unwrap(),
            l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap(),
            l_start: WRITER,
            l_len: 1,
            l_pid: 0,
        };
        fcntl(shared.as_fd(), FcntlArg::F_SETLKW(&place)).unwrap();
    }
}

#[test]
fn an_answer_that_its_log_cannot_take_is_complete_afterwards() {
    let gate = Gate::new();
    let words: Vec<String> = (0..500).map(|number| format!("{number} ")).collect();
    let mut pieces: Vec<Vec<u8>> = words.iter().map(|word| text_delta(word)).collect();
    pieces.push(end_of_stream());
    let replies = vec![Reply::Gated(pieces, gate.clone())];
    let model = ModelServer::start(replies, Delivery::Whole).unwrap();
    let folder = folder(&[("agent.md", "<config model=\"m\"/>\n")]);
    let mut command = logue(folder.path());
    command.env("OPENAI_BASE_URL", model.base_url());
    let served = Served::start_with(command, &["agent.md"]);
    let body = json!({"message": "go"}).to_string();
    let mut stream = served.events("POST", "/v1/sessions/s1/send", None, &body);
    let mut events = stream.until("answer.delta");
    let lock = writer_lock(&folder.path().join("s.db-events-shm"));
    lock(libc::F_WRLCK);
    for _ in &words {
        gate.open();
    }
    // The turn does not wait for the log.
    let history = || served.get("/v1/sessions/s1/messages").json();
    wait_until(
        || "the answer is not stored".to_owned(),
        || history()["messages"].as_array().unwrap().len() == 2,
    );
    lock(libc::F_UNLCK);
    events.extend(stream.until("turn.completed"));
    check_numbers(&events);
    let texts = events
        .iter()
        .filter(|event| event.kind() == "answer.delta")
        .filter_map(|event| event.data["text"].as_str());
    assert_eq!(texts.collect::<String>(), words.concat());
    assert_eq!(history()["messages"][1]["content"], words.concat());
    let pieces = count(&events, "answer.delta");
    assert!(pieces < 20, "{pieces} pieces were not joined");
}
