//! The files of commands on data sets: no command writes over its inputs, or two outputs to one file.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::program::{Ran, folder, logue, run};

const ROWS: &str = "{\"messages\":[{\"role\":\"user\",\"content\":\"Why?\"},{\"role\":\"assistant\",\"content\":\"So.\"}]}\n\
                    {\"messages\":[{\"role\":\"user\"\n";

/// The names and contents of all files below a directory.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = fs::read(&path).unwrap_or_default();
                all.push((path.display().to_string(), bytes));
            }
        }
    }
    all.sort();
    all
}

fn assert_refused(ran: &Ran, names: &[&str], about: &str) {
    assert_eq!(ran.status, 2, "{about}: {}", ran.stderr);
    let code = "error[data_files_conflict]";
    assert!(ran.stderr.contains(code), "{about}: {}", ran.stderr);
    for name in names {
        let quoted = format!("`{name}`");
        assert!(ran.stderr.contains(&quoted), "{about}: {}", ran.stderr);
    }
}

#[test]
fn no_output_replaces_an_input_or_another_output() {
    let convert = "convert --to openai in.jsonl";
    let commands = [
        (format!("{convert} -o in.jsonl"), ["in.jsonl", "in.jsonl"]),
        (
            format!("{convert} -o out --quarantine in.jsonl"),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            format!("{convert} -o out --quarantine new/../in.jsonl"),
            ["new/../in.jsonl", "in.jsonl"],
        ),
        (
            format!("{convert} -o out --quarantine link"),
            ["link", "in.jsonl"],
        ),
        (format!("{convert} -o hard"), ["hard", "in.jsonl"]),
        (
            format!("{convert} -o out --quarantine ./out"),
            ["./out", "out"],
        ),
        (format!("{convert} -o out --quarantine out"), ["out", "out"]),
        (
            format!("{convert} -o out --quarantine dangling"),
            ["dangling", "out"],
        ),
        (
            format!("{convert} -o out --quarantine out.progress"),
            ["out.progress", "out"],
        ),
        (
            format!("{convert} --quarantine in.jsonl"),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "convert --to openai x.partial -o x".to_owned(),
            ["x.partial", "x"],
        ),
        (
            "convert --to openai x.partial -o to-x".to_owned(),
            ["x.partial", "to-x"],
        ),
        (
            "convert --to openai x.quarantine.jsonl -o x".to_owned(),
            ["x.quarantine.jsonl", "x.quarantine.jsonl"],
        ),
        (
            "convert --to openai x.quarantine.jsonl.partial -o x".to_owned(),
            ["x.quarantine.jsonl.partial", "x.quarantine.jsonl"],
        ),
        (
            "sample --count 1 in.jsonl -o out --quarantine in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "mask --to chatml in.jsonl -o out --quarantine in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "mask --to harmony --tokenizer t.json in.jsonl -o t.json".to_owned(),
            ["t.json", "t.json"],
        ),
        (
            "mask --to template --template t.json in.jsonl -o t.json".to_owned(),
            ["t.json", "t.json"],
        ),
        (
            "dedup in.jsonl -o out --evidence out".to_owned(),
            ["out", "out"],
        ),
        (
            "dedup in.jsonl -o out --evidence in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "dedup in.jsonl -o out --evidence out.quarantine.jsonl".to_owned(),
            ["out.quarantine.jsonl", "out.quarantine.jsonl"],
        ),
        (
            "dedup in.jsonl -o out --quarantine in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "decontaminate --against t.json in.jsonl -o t.json".to_owned(),
            ["t.json", "t.json"],
        ),
        (
            "decontaminate --against t.json --remove in.jsonl -o out --evidence t.json".to_owned(),
            ["t.json", "t.json"],
        ),
        (
            "decontaminate --against t.json --remove in.jsonl -o out --evidence out".to_owned(),
            ["out", "out"],
        ),
        (
            "split --train 1 --test 1 in.jsonl -o . --quarantine in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "split --train 1 --test 1 in.jsonl -o . --quarantine test.jsonl".to_owned(),
            ["test.jsonl", "./test.jsonl"],
        ),
        (
            "split --train 1 --test 1 in.jsonl -o . --quarantine train.jsonl.partial".to_owned(),
            ["train.jsonl.partial", "./train.jsonl"],
        ),
        (
            "split --train 1 train.jsonl -o .".to_owned(),
            ["./train.jsonl", "train.jsonl"],
        ),
        (
            "check in.jsonl --report in.jsonl".to_owned(),
            ["in.jsonl", "in.jsonl"],
        ),
        (
            "check in.jsonl --tokenizer t.json --report t.json".to_owned(),
            ["t.json", "t.json"],
        ),
        (
            "stats in.jsonl --report link".to_owned(),
            ["link", "in.jsonl"],
        ),
        (
            "from-sessions --store sqlite:store.db -o store.db".to_owned(),
            ["store.db", "store.db"],
        ),
        (
            "from-sessions --store sqlite:store.db -o store.db-wal".to_owned(),
            ["store.db-wal", "store.db-wal"],
        ),
    ];
    let inputs = [
        "in.jsonl",
        "x.partial",
        "x.quarantine.jsonl",
        "x.quarantine.jsonl.partial",
        "t.json",
        "train.jsonl",
        "store.db",
    ];
    let folder = folder(&inputs.map(|name| (name, ROWS)));
    let path = |name: &str| folder.path().join(name);
    fs::hard_link(path("in.jsonl"), path("hard")).unwrap();
    std::os::unix::fs::symlink("in.jsonl", path("link")).unwrap();
    std::os::unix::fs::symlink("out", path("dangling")).unwrap();
    std::os::unix::fs::symlink("x", path("to-x")).unwrap();
    let before = contents(folder.path());
    for (command, names) in &commands {
        let ran = run(
            folder.path(),
            ["data"].into_iter().chain(command.split(' ')),
        );
        assert_refused(&ran, names, command);
        assert!(before == contents(folder.path()), "{command}");
    }
}

#[test]
fn standard_streams_that_are_files_are_compared() {
    let folder = folder(&[("in.jsonl", ROWS)]);
    let path = folder.path().join("in.jsonl");
    let input = fs::File::open(&path).unwrap();
    let convert = ["data", "convert", "--to", "openai"];
    let ran = logue(folder.path())
        .args(convert)
        .args(["-o", "in.jsonl"])
        .stdin(input)
        .output();
    assert_refused(&Ran::from(ran.unwrap()), &["in.jsonl"], "standard input");
    let output = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let ran = logue(folder.path())
        .args(convert)
        .arg("in.jsonl")
        .stdout(output)
        .output();
    assert_refused(&Ran::from(ran.unwrap()), &["in.jsonl"], "standard output");
    assert_eq!(fs::read_to_string(path).unwrap(), ROWS);
}

#[test]
fn pipes_and_devices_may_be_outputs() {
    let folder = folder(&[("in.jsonl", ROWS)]);
    let convert = ["data", "convert", "--to", "openai", "in.jsonl"];
    let written = |output: &[&str]| {
        let ran = run(folder.path(), convert.iter().chain(output));
        assert_eq!(ran.status, 8, "{output:?}: {}", ran.stderr);
        ran.stdout
    };
    let lines = written(&[]);
    assert_eq!(lines.lines().count(), 1);
    assert_eq!(written(&["-o", "/dev/stdout"]), lines);
    assert_eq!(
        written(&["-o", "/dev/fd/1", "--quarantine", "/dev/null"]),
        lines
    );
    assert_eq!(
        written(&["-o", "/dev/null", "--quarantine", "/dev/null"]),
        ""
    );
    assert!(fs::metadata("/dev/null").is_ok_and(|found| !found.is_file()));
    assert_eq!(contents(folder.path()).len(), 1);
}

#[test]
fn a_second_run_with_the_same_output_is_refused() {
    let folder = folder(&[("in.jsonl", ROWS)]);
    let convert = ["data", "convert", "--to", "openai", "-o", "out.jsonl"];
    let mut first = logue(folder.path())
        .args(convert)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let partial = folder.path().join("out.jsonl.partial");
    // More than a pipe holds is read by a run that has its locks.
    let mut input = first.stdin.take().unwrap();
    input.write_all(&vec![b'\n'; 1 << 19]).unwrap();
    for name in ["out.jsonl", "other.jsonl"] {
        let other = ["in.jsonl", "--restart", "-o", name, "--quarantine"];
        let files = ["out.jsonl.quarantine.jsonl", "q"];
        let quarantine = files[usize::from(name == "out.jsonl")];
        let ran = run(
            folder.path(),
            convert[..4].iter().chain(&other).chain([&quarantine]),
        );
        assert_eq!(ran.status, 7, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("error[data_output_busy]"),
            "{}",
            ran.stderr
        );
        assert!(partial.exists() && !folder.path().join(name).exists());
    }
    input.write_all(ROWS.as_bytes()).unwrap();
    drop(input);
    let ran = Ran::from(first.wait_with_output().unwrap());
    assert_eq!(ran.status, 8, "{}", ran.stderr);
    let ran = run(folder.path(), convert.iter().chain(&["in.jsonl"]));
    assert_eq!(ran.status, 8, "{}", ran.stderr);
}
