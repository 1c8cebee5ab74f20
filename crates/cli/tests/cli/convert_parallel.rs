//! JSON lines in several threads: the output of one thread, no file after Ctrl-C, and the bar.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Ran, folder, logue, run, run_with_input};
use crate::waiting::wait_until;

/// Thousands of rows of all shapes, whole and malformed, several batches long.
fn rows() -> Vec<u8> {
    let suites = [
        include_str!("../../../../conformance/shapes/messages.md"),
        include_str!("../../../../conformance/shapes/sharegpt.md"),
        include_str!("../../../../conformance/shapes/providers.md"),
        include_str!("../../../../conformance/shapes/rows.md"),
        include_str!("../../../../conformance/shapes/unknown.md"),
    ];
    let blocks = suites
        .iter()
        .flat_map(|suite| suite.split("```json\n").skip(1));
    let known: Vec<&str> = blocks.filter_map(|block| block.lines().next()).collect();
    let mut rows = Vec::new();
    let mut state = 7_u64;
    for number in 0..6_000_usize {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let chance = usize::try_from(state >> 33).unwrap();
        let row = known[chance % known.len()];
        match chance / 64 % 24 {
            0 => rows.extend_from_slice(&row.as_bytes()[..row.len() * 2 / 3]),
            1 => {
                rows.extend_from_slice(
                    b"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
                );
            }
            2 => rows.extend_from_slice(b"   \t"),
            3 => rows
                .extend_from_slice(b"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}"),
            4 => rows.extend_from_slice(b"{\"text\":\"<|start|>user<|message|>Hi<|end|>\"}"),
            5 => {
                rows.extend_from_slice(b"{\"text\":\"version: 2.2\\n<|start|>user<|message|>Hi\"}");
            }
            6 => rows.extend_from_slice(b"nope \x1b[31m"),
            7 => rows.extend_from_slice(
                b"{\"messages\":[{\"role\":\"user\",\"role\":\"user\",\"content\":\"a\"}]}",
            ),
            8 => rows.extend_from_slice(format!(" {row}\r").as_bytes()),
            _ => {
                let numbered =
                    row.replacen("\"content\":\"", &format!("\"content\":\"{number} "), 1);
                rows.extend_from_slice(numbered.as_bytes());
            }
        }
        rows.push(b'\n');
    }
    assert!(rows.len() > 2 * 256 * 1024, "{}", rows.len());
    rows
}

fn converted(folder: &Path, jobs: &str, flags: &[&str]) -> (i32, Vec<u8>, Vec<u8>) {
    let mut command = logue(folder);
    command
        .args(["convert", "rows.jsonl", "--jobs", jobs])
        .args(flags);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), output.stdout, output.stderr)
}

#[test]
fn several_threads_write_and_report_what_one_does() {
    let folder = folder(&[]);
    std::fs::write(folder.path().join("rows.jsonl"), rows()).unwrap();
    for (flags, status) in [
        (&["--to", "openai"][..], 3),
        (&["--to", "chatmd", "--json"], 3),
        (&["--to", "ocml2.2", "--strict=identity"], 3),
        (&["--to", "json", "--from", "openai", "--keep-reasoning"], 3),
    ] {
        let one = converted(folder.path(), "1", flags);
        assert_eq!(one.0, status, "{flags:?}");
        let errors = String::from_utf8_lossy(&one.2);
        assert!(one.1.len() + errors.len() > 100, "{flags:?}: {errors}");
        for jobs in ["2", "5"] {
            let several = converted(folder.path(), jobs, flags);
            assert!(several == one, "{flags:?} {jobs}: differs");
        }
    }
    let ran = run(
        folder.path(),
        ["convert", "rows.jsonl", "--jobs", "0", "--to", "openai"],
    );
    assert_eq!(ran.status, 2, "{}", ran.stderr);
}

#[test]
fn a_key_with_escapes_is_found() {
    let folder = folder(&[]);
    for key in [
        "text",
        "\\u0074ext",
        "t\\u0065xt",
        "te\\u0078t",
        "tex\\u0074",
    ] {
        let row = format!("{{\"{key}\":\"<|start|>user<|message|>Hi<|end|>\"}}\n");
        let arguments = ["convert", "--jsonl", "--to", "openai"];
        let ran = run_with_input(folder.path(), &arguments, &row);
        let expected = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n";
        assert_eq!(ran.stdout, expected, "{key}: {}", ran.stderr);
    }
}

#[test]
fn a_file_is_replaced_only_as_a_whole() {
    let folder = folder(&[("out.jsonl", "before")]);
    let mut rows = Vec::new();
    for number in 0..20_000 {
        let row = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{number}\"}}]}}\n");
        rows.extend_from_slice(row.as_bytes());
    }
    let image = "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://e.org/a.png\"}}]}]}\n";
    rows.extend_from_slice(image.as_bytes());
    std::fs::write(folder.path().join("rows.jsonl"), &rows).unwrap();
    let arguments = [
        "convert",
        "rows.jsonl",
        "--to",
        "sharegpt",
        "-o",
        "out.jsonl",
    ];
    let strict = run(folder.path(), arguments.iter().chain(&["--strict"]));
    assert_eq!(strict.status, 8, "{}", strict.stderr);
    assert!(
        strict.stderr.contains("rows.jsonl:20001"),
        "{}",
        strict.stderr
    );
    let out = || std::fs::read_to_string(folder.path().join("out.jsonl")).unwrap();
    assert_eq!((out().as_str(), names(folder.path()).len()), ("before", 2));
    let whole = run(folder.path(), arguments);
    assert_eq!(whole.status, 8, "{}", whole.stderr);
    let numbers = (0..20_000).map(|number| format!("\"value\":\"{number}\""));
    assert!(
        out()
            .lines()
            .zip(numbers)
            .all(|(line, number)| line.contains(&number))
    );
    assert_eq!(out().lines().count(), 20_001);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.contains("jsonl") || name.contains("logue"))
        .collect()
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_no_temporary_file() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        for flags in [&["-o", "out.jsonl"][..], &["--strict"]] {
            let folder = folder(&[]);
            let mut child = logue(folder.path())
                .args(["convert", "--jsonl", "--to", "openai"])
                .args(flags)
                .env("TMPDIR", folder.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut input = child.stdin.take().unwrap();
            input
                .write_all(b"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n")
                .unwrap();
            wait_until(
                || format!("no temporary file: {:?}", names(folder.path())),
                || {
                    names(folder.path())
                        .iter()
                        .any(|name| name.ends_with("logue-tmp"))
                },
            );
            kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert_eq!(ran.status, status, "{}", ran.stderr);
            assert_eq!(names(folder.path()), Vec::<String>::new());
            drop(input);
        }
    }
}

#[test]
fn a_line_of_a_pipe_is_written_before_the_next_one_is_there() {
    use std::io::{BufRead as _, BufReader};

    let folder = folder(&[]);
    let mut child = logue(folder.path())
        .args(["convert", "--jsonl", "--to", "sharegpt", "--jobs", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in 0..5 {
        let mut row = String::new();
        write!(
            row,
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{number}\"}}]}}"
        )
        .unwrap();
        writeln!(input, "{row}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains(&format!("\"value\":\"{number}\"")), "{line}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_bar_is_on_a_terminal_that_can_show_it_only() {
    use crate::screen::Screen;

    let folder = folder(&[]);
    let row = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}\n";
    let path = folder.path().join("rows.pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (term, no_color, json, is_shown) in [
        ("xterm", "1", false, true),
        ("xterm", "", false, true),
        ("dumb", "1", false, false),
        ("xterm", "1", true, false),
    ] {
        let json = if json { " --json" } else { "" };
        let script = format!(
            "TERM={term} NO_COLOR={no_color} exec {} convert --jsonl --to openai -o out.jsonl{json} < rows.pipe",
            env!("CARGO_BIN_EXE_logue")
        );
        let mut command = std::process::Command::new("sh");
        command.current_dir(folder.path()).args(["-c", &script]);
        let screen = Screen::start(&mut command);
        let mut rows = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        if is_shown {
            wait_until(
                || format!("no bar: {:?}", screen.text()),
                || {
                    rows.write_all(row.as_bytes()).unwrap();
                    screen.text().contains("/s")
                },
            );
        } else {
            // The time of work that other cases need for a bar.
            let begun = std::time::Instant::now();
            while begun.elapsed() < std::time::Duration::from_millis(1500) {
                rows.write_all(row.as_bytes()).unwrap();
                std::thread::yield_now();
            }
        }
        drop(rows);
        let (status, text) = screen.end();
        assert_eq!(status, 0, "{text}");
        assert_eq!(text.contains("/s"), is_shown, "{term} {json}: {text:?}");
        assert!(!text.contains("\u{1b}[3"), "colours: {text:?}");
    }
}
