//! Inputs of commands on data sets: pipes, unknown forms, broken rows, large rows, columns.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{Ran, folder, logue, run, run_with_input};
use crate::waiting::wait_until;

const BROKEN: &str = "{\"messages\":[{\"role\":\"user\"\n";

fn rows(count: usize) -> String {
    let row = |number: usize| {
        format!(
            "{{\"messages\":[{{\"role\":\"user\",\"content\":\"Question {number}?\"}},{{\"role\":\"assistant\",\"content\":\"So.\"}}]}}\n"
        )
    };
    (0..count).map(row).collect()
}

fn convert<'a>(input: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["data", "convert", "--to", "openai"];
    arguments.extend(input);
    arguments
}

fn quarantine(folder: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_broken_first_row_of_an_unknown_form_is_refused_alone() {
    let text = format!("{BROKEN}{}", rows(2));
    let folder = folder(&[("rows", &text)]);
    let from_file = run(folder.path(), convert(&["rows", "--quarantine", "q"]));
    let from_stdin = run_with_input(folder.path(), &convert(&["--quarantine", "q2"]), &text);
    for (ran, name) in [(from_file, "q"), (from_stdin, "q2")] {
        assert_eq!(ran.status, 8, "{}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
        let refused = quarantine(folder.path(), name);
        assert_eq!(refused.len(), 1);
        assert_eq!(
            (&refused[0]["line"], &refused[0]["code"]),
            (&1.into(), &"E-JSON-SYNTAX".into())
        );
    }
}

#[test]
fn pipes_give_the_rows_of_files() {
    let text = rows(3_000);
    let folder = folder(&[("in.jsonl", &text)]);
    let zstd = zstd_of(folder.path());
    let expected = run(folder.path(), convert(&["in.jsonl"])).stdout;
    assert_eq!(expected.lines().count(), 3_000);
    for bytes in [text.into_bytes(), zstd] {
        let pipe = folder.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let child = logue(folder.path())
            .args(convert(&["pipe"]))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Opening waits for the program, which reads the pipe once.
        fs::OpenOptions::new()
            .write(true)
            .open(&pipe)
            .unwrap()
            .write_all(&bytes)
            .unwrap();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(ran.stdout == expected, "{}", ran.stderr);
        fs::remove_file(&pipe).unwrap();
        for input in ["-", "/dev/stdin", "/dev/fd/0"] {
            let ran = piped(folder.path(), input, &bytes);
            assert!(ran.stdout == expected, "{input}: {}", ran.stderr);
        }
    }
}

fn zstd_of(folder: &Path) -> Vec<u8> {
    let ran = run(folder, convert(&["in.jsonl", "-o", "out.jsonl.zst"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    fs::read(folder.join("out.jsonl.zst")).unwrap()
}

fn piped(folder: &Path, input: &str, bytes: &[u8]) -> Ran {
    let mut child = logue(folder)
        .args(convert(&[input]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that refuses its input closes the pipe.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        Ran::from(child.wait_with_output().unwrap())
    })
}

#[test]
fn parquet_in_a_pipe_is_refused() {
    let folder = folder(&[("in.jsonl", &rows(3))]);
    let ran = run(folder.path(), convert(&["in.jsonl", "-o", "out.parquet"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let bytes = fs::read(folder.path().join("out.parquet")).unwrap();
    for input in ["-", "/dev/stdin"] {
        let ran = piped(folder.path(), input, &bytes);
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        assert!(ran.stdout.is_empty());
        assert!(
            ran.stderr.contains("error[E-SOURCE-READ]"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("write it to a file"), "{}", ran.stderr);
    }
}

#[test]
fn a_broken_element_of_an_array_is_refused_alone() {
    let row = rows(1);
    let row = row.trim();
    let text = format!("[\n  {row},\n  {{\"messages\": [}},\n  {row}\n]\n");
    let in_one_line = format!("[{row}, {{\"messages\": [}}, {row}]");
    let folder = folder(&[("in.json", &text), ("one.json", &in_one_line)]);
    let ran = run(folder.path(), convert(&["in.json", "--quarantine", "q"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stderr);
    let refused = quarantine(folder.path(), "q");
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (&refused[0]["line"], &refused[0]["column"]),
        (&3.into(), &17.into())
    );
    assert_eq!(refused[0]["row"], "{\"messages\": [}");
    let ran = run(folder.path(), convert(&["one.json", "--quarantine", "q"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1);
    let refused = quarantine(folder.path(), "q");
    assert_eq!(refused.len(), 1);
    let unread = format!("{} bytes from here on were not read", row.len() + 4);
    assert!(
        refused[0]["message"].as_str().unwrap().contains(&unread),
        "{refused:?}"
    );
}

#[test]
fn large_rows_need_little_memory() {
    let folder = folder(&[]);
    let mut input = fs::File::create(folder.path().join("in.jsonl")).unwrap();
    let text = "word é ".repeat((20 << 20) / 8);
    for _ in 0..5 {
        writeln!(input, "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}},{{\"role\":\"assistant\",\"content\":\"So.\"}}]}}").unwrap();
    }
    let mut child = logue(folder.path())
        .args(convert(&["in.jsonl", "-o", "out.jsonl", "--jobs", "4"]))
        // The allocator of each thread keeps freed memory, which is not in use.
        .env("MALLOC_MMAP_THRESHOLD_", "1048576")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut highest = 0_u64;
    wait_until(
        || "the run did not end".to_owned(),
        || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            highest = highest.max(kib.unwrap_or(0));
            child.try_wait().unwrap().is_some()
        },
    );
    assert!(child.wait().unwrap().success());
    assert!((20 << 10..200_000).contains(&highest), "{highest} KiB");
}

#[test]
fn columns_keep_nulls_and_integers() {
    let lines = "{\"messages\":[{\"role\":\"user\",\"content\":null}],\"n\":9007199254740993,\"only\":null,\"j\":null}\n\
                 {\"messages\":[],\"n\":0.5,\"j\":{\"a\":1}}\n\
                 {\"messages\":[]}\n";
    let folder = folder(&[
        ("in.jsonl", lines),
        ("empty.jsonl", BROKEN),
        ("braces.jsonl", "{}\n{}\n"),
        ("nul.jsonl", "{\"a\\u0000b\":1}\n"),
    ]);
    let sample = |input: &str, output: &str| {
        run(
            folder.path(),
            ["data", "sample", "--fraction", "1", input, "-o", output],
        )
    };
    for (input, back) in [("in.jsonl", "back.jsonl"), ("braces.jsonl", "back2.jsonl")] {
        for (from, to) in [(input, "x.parquet"), ("x.parquet", back)] {
            let ran = sample(from, to);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
        }
        let [one, other] =
            [input, back].map(|name| fs::read_to_string(folder.path().join(name)).unwrap());
        assert_eq!(one, other);
    }
    let ran = run(
        folder.path(),
        convert(&["empty.jsonl", "-o", "empty.parquet"]),
    );
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let bytes = fs::read(folder.path().join("empty.parquet")).unwrap();
    assert!(
        memchr::memmem::find(&bytes, b"messages").is_some(),
        "no column"
    );
    let ran = sample("nul.jsonl", "nul.parquet");
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("NUL in its name"), "{}", ran.stderr);
}

#[test]
fn refused_rows_can_be_recovered_from_the_quarantine() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let rows: [&[u8]; 4] = [
        b"{\"a\":\"\\ud800\"}",
        deep.as_bytes(),
        "{\"a\":\"\u{FFFD}\"".as_bytes(),
        b"{\"a\":\"\xFF\"}",
    ];
    let folder = folder(&[]);
    fs::write(folder.path().join("in.jsonl"), rows.join(&b'\n')).unwrap();
    let ran = run(folder.path(), convert(&["in.jsonl", "--quarantine", "q"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let refused = quarantine(folder.path(), "q");
    assert_eq!(refused.len(), 4);
    for (entry, row) in refused.iter().zip(rows) {
        let hex = row.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        if let Some(bytes) = entry["row_bytes"].as_str() {
            assert_eq!(bytes, hex);
        } else {
            assert_eq!(entry["row"].as_str().unwrap().as_bytes(), row);
        }
    }
    assert!(refused[3]["row_bytes"].is_string() && refused[2]["row_bytes"].is_null());
}

#[test]
fn errors_of_names_are_reported_before_any_work() {
    let folder = folder(&[("in.jsonl", &rows(2))]);
    let ran = run(folder.path(), convert(&["in.jsonl", "missing.jsonl"]));
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("error[E-SOURCE-READ]: cannot read `missing.jsonl`"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("= help: check the path"),
        "{}",
        ran.stderr
    );
    for output in ["out.csv", "out.parquet.gz", "out.csv.zst"] {
        let ran = run(folder.path(), convert(&["in.jsonl", "-o", output]));
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(
            ran.stderr.contains(".jsonl.zst or .parquet"),
            "{}",
            ran.stderr
        );
        assert!(!folder.path().join(output).exists());
    }
    let ran = run(folder.path(), ["data", "check", "--by", "", "in.jsonl"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let ran = run(folder.path(), convert(&["in.jsonl", "-o", "in.jsonl/out"]));
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error[data_write_failed]"),
        "{}",
        ran.stderr
    );
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(rows(2).as_bytes()).unwrap();
    let mut bytes = gzip.finish().unwrap();
    bytes.resize(bytes.len() + 1000, 0);
    fs::write(folder.path().join("padded.gz"), bytes).unwrap();
    let ran = run(folder.path(), convert(&["padded.gz"]));
    assert_eq!(
        (ran.status, ran.stdout.lines().count()),
        (0, 2),
        "{}",
        ran.stderr
    );
}
