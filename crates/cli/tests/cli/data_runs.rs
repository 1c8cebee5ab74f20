//! Runs over data sets: order, quarantine, compression, continuation after `kill -9`.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{folder, logue, run, run_with_input};
use crate::waiting::wait_until;

/// Rows of several batches; `broken` names the numbers of rows that are not conversations.
fn rows(count: usize, broken: &[usize]) -> String {
    let mut rows = String::new();
    for number in 0..count {
        if broken.contains(&number) {
            writeln!(rows, "{{\"conversations\":[{{\"from\":\"human\" {number}").unwrap();
        } else {
            writeln!(
                rows,
                "{{\"conversations\":[{{\"from\":\"human\",\"value\":\"Question {number}? {}\"}},\
                 {{\"from\":\"gpt\",\"value\":\"Answer é {number}.\"}}]}}",
                "word ".repeat(number % 150)
            )
            .unwrap();
        }
    }
    rows
}

const CONVERT: [&str; 6] = ["data", "convert", "in.jsonl", "--to", "openai", "-o"];

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn lines(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', text).count()
}

#[test]
fn the_output_has_the_order_of_the_input_for_any_number_of_threads() {
    let folder = folder(&[("in.jsonl", &rows(8_000, &[3, 77]))]);
    for jobs in ["1", "2", "5"] {
        let name = format!("out-{jobs}.jsonl");
        let arguments = CONVERT.into_iter().chain([name.as_str(), "--jobs", jobs]);
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 8, "{}", ran.stderr);
        assert!(
            ran.stderr
                .contains("8000 rows read, 7998 written, 2 refused"),
            "{}",
            ran.stderr
        );
    }
    let one = read(folder.path(), "out-1.jsonl");
    assert!(one.len() > 2 << 20);
    for (number, line) in String::from_utf8(one.clone()).unwrap().lines().enumerate() {
        let number = number + usize::from(number >= 3) + usize::from(number >= 76);
        assert!(
            line.contains(&format!("Question {number}?")),
            "{number}: {line}"
        );
    }
    for jobs in ["2", "5"] {
        assert!(
            one == read(folder.path(), &format!("out-{jobs}.jsonl")),
            "{jobs} threads"
        );
        let quarantine = format!("out-{jobs}.jsonl.quarantine.jsonl");
        let expected = read(folder.path(), "out-1.jsonl.quarantine.jsonl");
        assert!(
            expected == read(folder.path(), &quarantine),
            "{jobs} threads"
        );
    }
}

#[test]
fn refused_rows_are_in_the_quarantine_and_their_correction_gives_the_whole_output() {
    let broken: Vec<usize> = (0..3_000).filter(|number| number % 100 == 42).collect();
    let folder = folder(&[
        ("in.jsonl", &rows(3_000, &broken)),
        ("whole.jsonl", &rows(3_000, &[])),
    ]);
    let ran = run(folder.path(), CONVERT.into_iter().chain(["out.jsonl"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    // Three are shown with their text, all are counted.
    assert_eq!(
        ran.stderr.matches("error[E-JSON-SYNTAX]").count(),
        3,
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("E-JSON-SYNTAX: 30 rows, first in.jsonl:43:"),
        "{}",
        ran.stderr
    );
    let quarantine = read(folder.path(), "out.jsonl.quarantine.jsonl");
    let entries: Vec<Value> = quarantine
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(entries.len(), broken.len());
    for (entry, number) in entries.iter().zip(&broken) {
        assert_eq!(entry["file"], "in.jsonl");
        assert_eq!(entry["line"], number + 1);
        let row = format!("{{\"conversations\":[{{\"from\":\"human\" {number}");
        // The number follows a string where `,` is expected.
        assert_eq!(entry["column"], 35, "{entry}");
        assert_eq!(entry["code"], "E-JSON-SYNTAX");
        assert_eq!(entry["row"], row);
    }
    fs::rename(
        folder.path().join("whole.jsonl"),
        folder.path().join("in.jsonl"),
    )
    .unwrap();
    let ran = run(folder.path(), CONVERT.into_iter().chain(["out.jsonl"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = run(folder.path(), CONVERT.into_iter().chain(["again.jsonl"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(read(folder.path(), "out.jsonl") == read(folder.path(), "again.jsonl"));
    assert!(!folder.path().join("out.jsonl.quarantine.jsonl").exists());
}

#[test]
fn compressed_files_and_arrays_give_the_rows_of_the_plain_file() {
    let text = rows(2_000, &[5]);
    let folder = folder(&[("in.jsonl", &text)]);
    let array = format!(
        "[{}]",
        text.replacen("{\"from\":\"human\" 5", "5]}", 1)
            .trim()
            .replace('\n', ",\n ")
    );
    fs::write(folder.path().join("rows.json"), array).unwrap();
    let gzip = fs::File::create(folder.path().join("rows.jsonl.gz")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(gzip, flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let ran = run(folder.path(), CONVERT.into_iter().chain(["plain.jsonl"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let plain = read(folder.path(), "plain.jsonl");
    for (input, output) in [
        ("rows.jsonl.gz", "a.jsonl"),
        ("rows.json", "b.jsonl"),
        ("in.jsonl", "c.jsonl.gz"),
        ("in.jsonl", "d.jsonl.zst"),
    ] {
        let ran = run(
            folder.path(),
            ["data", "convert", input, "--to", "openai", "-o", output],
        );
        assert_eq!(ran.status, 8, "{input}: {}", ran.stderr);
        let bytes = read(folder.path(), output);
        let same = if output == "c.jsonl.gz" {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut text)
                .unwrap();
            text == plain
        } else if output == "d.jsonl.zst" {
            assert!(bytes.len() < plain.len() / 4);
            let ran = run(
                folder.path(),
                ["data", "convert", output, "--to", "openai", "-o", "e.jsonl"],
            );
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            read(folder.path(), "e.jsonl") == plain
        } else {
            bytes == plain
        };
        assert!(same, "{input} {output}");
    }
}

#[test]
fn an_array_without_an_end_is_an_error_with_its_place() {
    let folder = folder(&[("in.json", "[{\"messages\": []},\n {\"messages\": []}\n")]);
    let ran = run(
        folder.path(),
        ["data", "convert", "in.json", "--to", "openai", "-o", "out"],
    );
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[E-JSON-SYNTAX]: in.json:"),
        "{}",
        ran.stderr
    );
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_killed_run_continues_with_the_same_bytes() {
    let broken: Vec<usize> = (0..90_000).filter(|number| number % 997 == 5).collect();
    let folder = folder(&[("in.jsonl", &rows(90_000, &broken))]);
    let expected = run(
        folder.path(),
        CONVERT.into_iter().chain(["whole.jsonl.zst"]),
    );
    assert_eq!(expected.status, 8, "{}", expected.stderr);
    let arguments = || CONVERT.into_iter().chain(["out.jsonl.zst", "--jobs", "1"]);
    let progress = folder.path().join("out.jsonl.zst.progress");
    let mut resumed = 0;
    for kill in 0..3 {
        let before = fs::read(&progress).ok();
        let mut child = logue(folder.path())
            .args(arguments())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ended = false;
        wait_until(
            || "no progress was recorded".to_owned(),
            || {
                ended = child.try_wait().unwrap().is_some();
                ended || fs::read(&progress).ok() != before
            },
        );
        child.kill().unwrap();
        let mut errors = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        child.wait().unwrap();
        assert!(
            kill > 0 || !ended,
            "the run ended before it could be killed"
        );
        resumed += usize::from(errors.contains("continuing an interrupted run after"));
        assert!(ended || !folder.path().join("out.jsonl.zst").exists());
    }
    let ran = run(folder.path(), arguments());
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    resumed += usize::from(ran.stderr.contains("continuing an interrupted run after"));
    assert!(resumed > 0, "{}", ran.stderr);
    for suffix in ["", ".quarantine.jsonl"] {
        let [one, other] =
            ["whole", "out"].map(|name| read(folder.path(), &format!("{name}.jsonl.zst{suffix}")));
        assert!(one == other, "{suffix}");
    }
    let counts = "90000 rows read, 89910 written, 90 refused";
    let summaries = |text: &str| {
        text.lines()
            .filter(|line| line.contains(" rows read, "))
            .count()
    };
    assert_eq!(
        (
            summaries(&ran.stderr),
            ran.stderr.contains("90000 rows read")
        ),
        (1, true),
        "{counts}: {}",
        ran.stderr
    );
    for left in ["out.jsonl.zst.partial", "out.jsonl.zst.progress"] {
        assert!(!folder.path().join(left).exists(), "{left}");
    }
}

#[test]
fn a_changed_input_or_option_begins_again() {
    let folder = folder(&[("in.jsonl", &rows(90_000, &[]))]);
    let progress = folder.path().join("out.jsonl.progress");
    let interrupt = || {
        let mut child = logue(folder.path())
            .args(CONVERT.into_iter().chain(["out.jsonl", "--jobs", "1"]))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| "no progress".to_owned(), || progress.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    };
    interrupt();
    let ran = run(
        folder.path(),
        [
            "data",
            "convert",
            "in.jsonl",
            "--to",
            "sharegpt",
            "-o",
            "out.jsonl",
        ],
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains("continuing"), "{}", ran.stderr);
    assert_eq!(lines(&read(folder.path(), "out.jsonl")), 90_000);
    fs::remove_file(folder.path().join("out.jsonl")).unwrap();
    interrupt();
    fs::write(folder.path().join("in.jsonl"), rows(1_000, &[])).unwrap();
    let ran = run(folder.path(), CONVERT.into_iter().chain(["out.jsonl"]));
    assert!(!ran.stderr.contains("continuing"), "{}", ran.stderr);
    assert_eq!(lines(&read(folder.path(), "out.jsonl")), 1_000);
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let folder = folder(&[("in.jsonl", &rows(2, &[]))]);
    let ran = run(folder.path(), CONVERT.into_iter().chain(["./in.jsonl"]));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert_eq!(read(folder.path(), "in.jsonl"), rows(2, &[]).into_bytes());
}

#[test]
fn standard_input_becomes_standard_output() {
    let folder = folder(&[]);
    let arguments = ["data", "convert", "--to", "openai"];
    let ran = run_with_input(folder.path(), &arguments, &rows(2, &[]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 2);
}

#[test]
fn parquet_gives_back_the_rows_that_it_was_written_from() {
    let tool = "{\"messages\":[{\"role\":\"user\",\"content\":\"42\"},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": null}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"é\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"null\",\"string\"]}}}}}]}\n";
    let folder = folder(&[("in.jsonl", &format!("{}{tool}", rows(8_000, &[5])))]);
    let ran = run(folder.path(), CONVERT.into_iter().chain(["lines.jsonl"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    for jobs in ["1", "4"] {
        let output = format!("out{jobs}.parquet");
        let ran = run(
            folder.path(),
            CONVERT.into_iter().chain([output.as_str(), "--jobs", jobs]),
        );
        assert_eq!(ran.status, 8, "{}", ran.stderr);
    }
    let parquet = read(folder.path(), "out1.parquet");
    assert!(parquet.starts_with(b"PAR1"));
    assert!(
        parquet == read(folder.path(), "out4.parquet"),
        "other bytes with four threads"
    );
    let back = [
        "data",
        "convert",
        "out4.parquet",
        "--to",
        "openai",
        "-o",
        "back.jsonl",
    ];
    let ran = run(folder.path(), back);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(read(folder.path(), "lines.jsonl") == read(folder.path(), "back.jsonl"));
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("out4"))
        .collect();
    names.sort();
    assert_eq!(names, ["out4.parquet", "out4.parquet.quarantine.jsonl"]);
}
