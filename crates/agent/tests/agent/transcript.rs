//! Transcripts through the disk: what is appended reads back exactly, and nothing is in the way.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{
    FileLoader, Prompt, TranscriptError, TranscriptFile, TranscriptItem, TranscriptWriter as _,
};
use logue_message::ToolCall;
use logue_tools::Roots;

fn load(folder: &Path, text: &str) -> Prompt {
    let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
    Prompt::load("prompt.md", text, &mut FileLoader::new(roots, folder))
}

fn open(path: &Path) -> TranscriptFile {
    TranscriptFile::open(path, Duration::ZERO, || {}).unwrap()
}

#[test]
fn a_call_without_a_result_is_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    let mut file = open(&path);
    let calls = [ToolCall::new("a", "f", "{}"), ToolCall::new("b", "f", "{}")];
    file.append(&calls.clone().map(TranscriptItem::ToolCall))
        .unwrap();
    file.append(&[TranscriptItem::ToolResponse {
        call: calls[0].clone(),
        text: "done".into(),
        images: Vec::new(),
    }])
    .unwrap();
    let open_calls = load(folder.path(), &fs::read_to_string(&path).unwrap()).unanswered_calls();
    assert!(
        matches!(&open_calls[..], [TranscriptItem::ToolResponse { call, text, .. }]
        if call.id == "b" && text.starts_with("E-TOOL-CANCELLED")),
        "{open_calls:?}"
    );
    file.append(&open_calls).unwrap();
    let prompt = load(folder.path(), &fs::read_to_string(&path).unwrap());
    assert_eq!(prompt.unanswered_calls(), []);
    assert!(prompt.diagnostics.is_empty(), "{:?}", prompt.diagnostics);
}

#[test]
fn payload_names_never_collide_nor_leave_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.md", "b.md", "a.md"] {
        let path = folder.path().join(name);
        if !path.exists() {
            fs::write(&path, "<user>go</user>\n").unwrap();
        }
        let mut file = open(&path);
        file.externalise_payloads();
        let call = ToolCall::new("../../x/\u{0}y", "f", format!("{{\"from\":\"{name}\"}}"));
        file.append(&[TranscriptItem::ToolCall(call)]).unwrap();
    }
    let mut names: Vec<String> = fs::read_dir(folder.path().join(".chatmd"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["0", "1", "2"].map(|number| format!("{number}.tool-call.______x__y.json"))
    );
    let prompt = load(
        folder.path(),
        &fs::read_to_string(folder.path().join("b.md")).unwrap(),
    );
    assert_eq!(
        prompt.messages[1].tool_calls[0].arguments.as_str(),
        "{\"from\":\"b.md\"}"
    );
}

#[test]
fn one_holder_at_a_time_and_the_lock_follows_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    let mut first = open(&path);
    for round in 0..3 {
        let mut told = 0;
        let second = TranscriptFile::open(&path, Duration::from_millis(120), || told += 1);
        assert!(
            matches!(second, Err(TranscriptError::Busy(_))),
            "round {round}"
        );
        assert_eq!(told, 1);
        first
            .append(&[TranscriptItem::assistant(format!("{round}"))])
            .unwrap();
    }
    drop(first);
    assert!(open(&path).content().ends_with(b"RAW|2|RAW</assistant>\n"));
}

#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.md");
    fs::write(&real, "<user>go</user>").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.md");
    symlink("real.md", &link).unwrap();
    open(&link)
        .append(&[TranscriptItem::assistant("x")])
        .unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::read_to_string(&real).unwrap(),
        "<user>go</user>\n<assistant>\nRAW|x|RAW</assistant>\n"
    );
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
}

#[test]
fn a_folder_that_takes_nothing_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    fs::write(&path, "<user>go</user>\n").unwrap();
    // Something that cannot be removed as a file has the temporary name.
    fs::create_dir(folder.path().join(".prompt.md.logue-tmp")).unwrap();
    let mut file = open(&path);
    let error = file.append(&[TranscriptItem::assistant("x")]).unwrap_err();
    assert_eq!(error.category(), "transcript_write_failed");
    assert_eq!(fs::read_to_string(&path).unwrap(), "<user>go</user>\n");
    fs::remove_dir(folder.path().join(".prompt.md.logue-tmp")).unwrap();
    file.append(&[TranscriptItem::assistant("y")]).unwrap();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .ends_with("RAW|y|RAW</assistant>\n")
    );
}

#[test]
fn a_transcript_never_grows_too_large_to_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prompt.md");
    let mut text = String::from("<user>");
    text.push_str(&"a".repeat(usize::try_from(logue_agent::MAX_SOURCE_BYTES).unwrap() - 40));
    text.push_str("</user>\n");
    fs::write(&path, &text).unwrap();
    let mut file = open(&path);
    let error = file
        .append(&[TranscriptItem::assistant("x".repeat(40))])
        .unwrap_err();
    assert!(matches!(error, TranscriptError::TooLarge(_)), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), text.len() as u64);
}

#[test]
fn a_new_transcript_is_made_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.md");
    let mut first = TranscriptFile::create(&path, b"<user>go</user>\n").unwrap();
    let mut second = TranscriptFile::create(&path, b"<user>other</user>\n").unwrap();
    assert!(!path.exists());
    first.prepare().unwrap();
    assert_eq!(
        second.prepare().unwrap_err().category(),
        "transcript_locked"
    );
    let third = TranscriptFile::open(&path, Duration::ZERO, || {});
    assert!(matches!(third, Err(TranscriptError::Busy(_))));
    first.append(&[TranscriptItem::assistant("x")]).unwrap();
    drop(first);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "<user>go</user>\n<assistant>\nRAW|x|RAW</assistant>\n"
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}
