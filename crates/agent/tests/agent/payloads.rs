//! Payload files: where they are, who may read them, what they are named by.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logue_agent::{
    DEFAULT_INLINE_BYTES, FileLoader, Prompt, TranscriptError, TranscriptFile, TranscriptItem,
    TranscriptWriter as _,
};
use logue_message::ToolCall;
use logue_source::DiagnosticCode;
use logue_tools::Roots;

const START: &str = "<user>go</user>\n";

fn load(path: &Path) -> Prompt {
    let folder = path.parent().unwrap();
    let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
    let text = fs::read_to_string(path).unwrap();
    Prompt::load("prompt.md", &text, &mut FileLoader::new(roots, folder))
}

fn open(path: &Path) -> TranscriptFile {
    TranscriptFile::open(path, Duration::ZERO, || {}).unwrap()
}

fn start(folder: &tempfile::TempDir, name: &str) -> TranscriptFile {
    let path = folder.path().join(name);
    fs::write(&path, START).unwrap();
    open(&path)
}

/// A call with its arguments, and its result.
fn exchange(id: &str, arguments: &str, result: &str) -> [TranscriptItem; 2] {
    let call = ToolCall::new(id, "f", arguments);
    let response = TranscriptItem::ToolResponse {
        call: call.clone(),
        text: result.to_owned(),
        images: Vec::new(),
    };
    [TranscriptItem::ToolCall(call), response]
}

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder.path().join(".chatmd")) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn small_payloads_stand_where_the_prompt_says() {
    for external in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut file = start(&folder, "t.md");
        if external {
            file.externalise_payloads();
        }
        let largest = "x".repeat(DEFAULT_INLINE_BYTES);
        file.append(&exchange("c1", "{\"a\":1}", &largest)).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        if external {
            assert_eq!(
                text,
                format!(
                    "{START}<tool_call tool_call_id=\"c1\" function_name=\"f\">\n  \
                     <doc src=\"./.chatmd/0.tool-call.c1.json\" local/>\n</tool_call>\n\
                     <tool_response tool_call_id=\"c1\">\n  \
                     <doc src=\"./.chatmd/1.tool-call-result.c1.json\" local/>\n</tool_response>\n"
                )
            );
            assert_eq!(
                names(&folder),
                ["0.tool-call.c1.json", "1.tool-call-result.c1.json"]
            );
        } else {
            assert_eq!(
                text,
                format!(
                    "{START}<tool_call tool_call_id=\"c1\" function_name=\"f\">\n\
                     RAW|{{\"a\":1}}|RAW</tool_call>\n<tool_response tool_call_id=\"c1\">\n\
                     RAW|{largest}|RAW</tool_response>\n"
                )
            );
            assert_eq!(names(&folder), [""; 0]);
        }
        assert_eq!(load(file.path()).messages[2].text(), largest);
    }
}

#[test]
fn large_payloads_are_known_by_what_they_hold_and_kept_once() {
    // The hashes of "hello world" and of the JSON below, as sha256sum gives them.
    let text = "sha256-b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9.txt";
    let json = "sha256-9b2d43affbf49a367028df2e1414f84c0e099ac98c3d54a8a80157fd7771af25.json";
    for external in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.md", "b.md", "a.md"] {
            let path = folder.path().join(name);
            if !path.exists() {
                fs::write(&path, START).unwrap();
            }
            let mut file = open(&path);
            file.set_inline_bytes(10);
            if external {
                file.externalise_payloads();
            }
            file.append(&exchange("c1", "{\"message\":\"hello\"}", "hello world"))
                .unwrap();
        }
        // As arguments here and as a result there: the same file.
        let mut file = open(&folder.path().join("b.md"));
        file.set_inline_bytes(10);
        file.append(&exchange("c2", "hello world", "{\"message\":\"hello\"}"))
            .unwrap();
        let kept = names(&folder);
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(kept, [json, text]);
        let written = fs::read_to_string(folder.path().join("b.md")).unwrap();
        let stub = format!("  <doc src=\"./.chatmd/{text}\" local/>\n</tool_response>\n");
        assert!(written.contains(&stub), "{written}");
        for (name, messages) in [("a.md", 5), ("b.md", 5)] {
            let prompt = load(&folder.path().join(name));
            assert_eq!(prompt.messages.len(), messages);
            assert_eq!(prompt.messages[2].text(), "hello world");
            assert!(
                !prompt
                    .diagnostics
                    .iter()
                    .any(logue_source::Diagnostic::is_error)
            );
        }
    }
}

#[test]
fn a_payload_that_was_changed_is_an_error_where_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = start(&folder, "t.md");
    file.set_inline_bytes(0);
    file.append(&exchange("c1", "{}", "the result")).unwrap();
    let kept = names(&folder);
    let result = kept
        .iter()
        .find(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|kind| kind == "txt")
        })
        .unwrap();
    let result = folder.path().join(".chatmd").join(result);
    for forged in [&b"another one"[..], b"", b"the resul\xFF"] {
        fs::write(&result, forged).unwrap();
        let prompt = load(file.path());
        let errors: Vec<_> = prompt
            .diagnostics
            .iter()
            .filter(|found| found.is_error())
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].code, DiagnosticCode::MdPayloadChanged);
        let text = fs::read_to_string(file.path()).unwrap();
        let place = errors[0].primary.text(&text).unwrap();
        assert!(place.starts_with("<doc src=\"./.chatmd/sha256-"), "{place}");
        assert!(!errors[0].help.is_empty());
    }
    // The same result again puts it right, for all who name it.
    file.append(&exchange("c2", "{}", "the result")).unwrap();
    assert_eq!(fs::read_to_string(&result).unwrap(), "the result");
    assert!(
        !load(file.path())
            .diagnostics
            .iter()
            .any(logue_source::Diagnostic::is_error)
    );
    assert_eq!(names(&folder).len(), 2);

    fs::remove_file(&result).unwrap();
    let prompt = load(file.path());
    let missing: Vec<_> = prompt
        .diagnostics
        .iter()
        .filter(|found| found.code == DiagnosticCode::MdPayloadMissing)
        .collect();
    assert_eq!(missing.len(), 2, "{:?}", prompt.diagnostics);
    assert!(missing[0].help[0].contains("beside the transcript"));
}

#[test]
fn a_name_that_only_looks_like_a_hash_promises_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".chatmd")).unwrap();
    let short = "sha256-abc.txt".to_owned();
    let upper = format!("sha256-{}.txt", "A".repeat(64));
    let other = format!("sha256-{}.md", "a".repeat(64));
    for name in [short, upper, other] {
        fs::write(folder.path().join(".chatmd").join(&name), "said").unwrap();
        let path = folder.path().join("t.md");
        fs::write(
            &path,
            format!("<user><doc src=\".chatmd/{name}\" local/></user>"),
        )
        .unwrap();
        assert_eq!(load(&path).messages[0].text(), "said");
    }
}

#[test]
fn what_a_run_makes_is_for_its_owner_and_what_is_there_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.md");
    let payloads = folder.path().join(".chatmd");
    let mut file = TranscriptFile::create(&path, START.as_bytes()).unwrap();
    file.prepare().unwrap();
    file.externalise_payloads();
    file.set_inline_bytes(5);
    file.append(&exchange("c1", "{}", "the result")).unwrap();
    assert_eq!((mode(&path), mode(&payloads)), (0o600, 0o700));
    let kept = names(&folder);
    assert_eq!(kept.len(), 2);
    for name in &kept {
        assert_eq!(mode(&payloads.join(name)), 0o600, "{name}");
    }
    // Somebody shares them with a group.
    let by_content = payloads.join(kept.iter().find(|name| name.starts_with("sha")).unwrap());
    for (path, mode) in [(&path, 0o640), (&payloads, 0o750), (&by_content, 0o640)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    drop(file);
    let mut file = open(&path);
    file.set_inline_bytes(5);
    file.append(&exchange("c2", "{}", "the result")).unwrap();
    assert_eq!(
        (mode(&path), mode(&payloads), mode(&by_content)),
        (0o640, 0o750, 0o640)
    );
}

#[test]
fn what_a_killed_run_left_unfinished_is_cleared_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = start(&folder, "t.md");
    fs::create_dir(folder.path().join(".chatmd")).unwrap();
    fs::write(folder.path().join(".chatmd/.t.md.logue-tmp"), "hal").unwrap();
    file.set_inline_bytes(0);
    file.append(&exchange("c1", "{}", "half a result")).unwrap();
    let kept = names(&folder);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(
        kept.iter().all(|name| name.starts_with("sha256-")),
        "{kept:?}"
    );
}

#[test]
fn a_payload_that_nobody_could_read_again_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = start(&folder, "t.md");
    file.externalise_payloads();
    let size = usize::try_from(logue_agent::MAX_SOURCE_BYTES).unwrap();
    let error = file
        .append(&exchange("c1", "{}", &"x".repeat(size + 1)))
        .unwrap_err();
    assert!(matches!(error, TranscriptError::TooLarge(_)), "{error}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), START);
    // One that is larger than other documents may be is read again.
    let large = "y".repeat(17 * 1024 * 1024);
    file.append(&exchange("c2", "{}", &large)).unwrap();
    assert_eq!(load(file.path()).messages[2].text().len(), large.len());
}
