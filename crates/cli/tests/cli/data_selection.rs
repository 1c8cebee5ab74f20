//! The choice of rows: duplicates, texts of benchmarks, parts and samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{folder, run};

/// Numbers out of a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn words(&mut self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| format!("word{}", self.below(5_000)))
            .collect()
    }
}

/// A conversation as the words of its turns.
type Turns = Vec<Vec<String>>;

fn conversation(random: &mut Random) -> Turns {
    (0..2)
        .map(|_| {
            let count = 20 + random.below(60);
            random.words(count)
        })
        .collect()
}

/// A copy with some other words.
fn edited(turns: &Turns, random: &mut Random, edits: usize) -> Turns {
    let mut copy = turns.clone();
    for _ in 0..edits {
        let turn = random.below(copy.len());
        let word = random.below(copy[turn].len());
        copy[turn][word] = random.words(1).remove(0);
    }
    copy
}

fn row(turns: &Turns) -> Value {
    let messages: Vec<Value> = turns
        .iter()
        .enumerate()
        .map(|(number, words)| json!({"role": role(number), "content": words.join(" ")}))
        .collect();
    json!({"messages": messages})
}

fn role(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "user"
    } else {
        "assistant"
    }
}

/// The shingles of a row by the rule of the documentation, without any hash.
fn shingles(row: &str) -> BTreeSet<Vec<String>> {
    let row: Value = serde_json::from_str(row).unwrap();
    let mut words = Vec::new();
    for message in row["messages"].as_array().unwrap() {
        words.push(format!("<{}>", message["role"].as_str().unwrap()));
        let content = message["content"].as_str().unwrap().to_lowercase();
        let content = content.split(|c: char| !c.is_alphanumeric());
        words.extend(content.filter(|word| !word.is_empty()).map(str::to_owned));
    }
    words.windows(5).map(<[String]>::to_vec).collect()
}

/// Returns whether two sets are near duplicates: 5 · shared ≥ 4 · united.
fn are_near(one: &BTreeSet<Vec<String>>, two: &BTreeSet<Vec<String>>) -> bool {
    let shared = one.intersection(two).count();
    let united = one.len() + two.len() - shared;
    5 * shared >= 4 * united
}

/// Rows of which many are near duplicates of earlier ones, some closely and some by a little less
/// than the threshold.
fn rows_with_duplicates(count: usize) -> Vec<String> {
    let mut random = Random(7);
    let mut all: Vec<Turns> = Vec::new();
    let mut rows = Vec::new();
    for number in 0..count {
        let turns = if number % 3 == 2 {
            let original = all[random.below(all.len())].clone();
            let edits = random.below(5);
            edited(&original, &mut random, edits)
        } else {
            conversation(&mut random)
        };
        rows.push(row(&turns).to_string());
        all.push(turns);
    }
    rows
}

fn lines(folder: &Path, name: &str) -> Vec<String> {
    let text =
        fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_removal_is_verified_and_no_near_duplicate_remains() {
    let rows = rows_with_duplicates(600);
    let folder = folder(&[("in.jsonl", &rows.join("\n"))]);
    for jobs in ["1", "2", "5"] {
        let name = format!("out-{jobs}.jsonl");
        let ran = run(
            folder.path(),
            ["data", "dedup", "in.jsonl", "-o", &name, "--jobs", jobs],
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let kept = lines(folder.path(), "out-1.jsonl");
    let evidence = lines(folder.path(), "out-1.jsonl.duplicates.jsonl");
    assert_eq!(kept.len() + evidence.len(), rows.len());
    assert!(evidence.len() > 100, "{}", evidence.len());

    let sets: Vec<_> = rows.iter().map(|row| shingles(row)).collect();
    let mut removed = BTreeSet::new();
    let (mut exact, mut near) = (0, 0);
    for line in &evidence {
        let pair: Value = serde_json::from_str(line).unwrap();
        let line = |side: &str| usize::try_from(pair[side]["line"].as_u64().unwrap()).unwrap() - 1;
        let (one, two) = (line("removed"), line("kept"));
        assert!(two < one, "{pair}");
        assert!(are_near(&sets[one], &sets[two]), "{pair}");
        if pair["reason"] == "exact" {
            exact += 1;
            assert_eq!(rows[one], rows[two]);
        } else {
            near += 1;
            let shared = sets[one].intersection(&sets[two]).count();
            assert_eq!(pair["shared_shingles"], shared);
            assert_eq!(
                pair["united_shingles"],
                sets[one].len() + sets[two].len() - shared
            );
        }
        assert!(!removed.contains(&two), "a removed row is not kept: {pair}");
        removed.insert(one);
    }
    assert!(exact > 20 && near > 20, "{exact} exact, {near} near");
    // The kept rows are those of the input, in its order, and no two of them are near.
    let expected: Vec<&String> = (0..rows.len())
        .filter(|row| !removed.contains(row))
        .map(|row| &rows[row])
        .collect();
    assert!(kept.iter().eq(expected));
    let sets: Vec<_> = kept.iter().map(|row| shingles(row)).collect();
    for (number, one) in sets.iter().enumerate() {
        assert!(!sets[..number].iter().any(|two| are_near(one, two)));
    }

    for name in ["jsonl", "jsonl.duplicates.jsonl"] {
        let one = lines(folder.path(), &format!("out-1.{name}"));
        for jobs in ["2", "5"] {
            assert!(one == lines(folder.path(), &format!("out-{jobs}.{name}")));
        }
    }
}

#[test]
fn duplicates_are_found_in_any_shape_and_compression_and_broken_rows_are_in_the_quarantine() {
    let text = "Where does the ferry to the island leave, and how long is the crossing?";
    let rows = [
        json!({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "From pier 4; an hour."}]}),
        json!({"conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": "From  pier 4;\nan hour. "}]}),
        json!({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "Nobody knows."}]}),
    ];
    let rows = rows.map(|row| row.to_string());
    let text = format!("{}\n{{\"messages\":[\n{}\n{}\n", rows[0], rows[1], rows[2]);
    let folder = folder(&[("in.jsonl", &text)]);
    let file = fs::File::create(folder.path().join("in.jsonl.gz")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap();
    for input in ["in.jsonl", "in.jsonl.gz"] {
        let arguments = ["data", "dedup", "--json", "-o", "out.jsonl", input];
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, 8, "{}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["rows"], 4);
        assert_eq!(report["refused"], 1);
        assert_eq!(report["found"][0]["kind"], "removed: exact duplicate");
        assert_eq!(
            lines(folder.path(), "out.jsonl"),
            [rows[0].clone(), rows[2].clone()]
        );
        let refused = lines(folder.path(), "out.jsonl.quarantine.jsonl");
        let refused: Value = serde_json::from_str(&refused[0]).unwrap();
        assert_eq!(
            (&refused["line"], &refused["code"]),
            (&json!(2), &json!("E-JSON-SYNTAX"))
        );
    }
    let ran = run(
        folder.path(),
        [
            "data", "dedup", "--exact", "--field", "messages", "in.jsonl",
        ],
    );
    // The ShareGPT row has no member of this name.
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stderr);
}

#[test]
fn texts_of_benchmarks_are_found_at_their_place() {
    let question = "A ferry leaves the harbour at noon and sails twelve miles each hour, how far \
                    from the harbour is it at a quarter to four?";
    let benchmark = json!({"question": question, "choices": ["12 miles", "45 miles"]});
    let clean = json!({"messages": [
        {"role": "user", "content": "How far does a ferry sail, leaving the harbour at noon?"},
        {"role": "assistant", "content": "It depends."}
    ]});
    let reply = format!("Zähle: {}", question.to_uppercase().replace(", ", " — "));
    let dirty = json!({"messages": [
        {"role": "user", "content": "Ask me."},
        {"role": "assistant", "content": reply}
    ]});
    let folder = folder(&[
        ("in.jsonl", &format!("{clean}\n{dirty}\n")),
        (
            "benchmark.jsonl",
            &format!("{{\"question\":\"Why?\"}}\n{benchmark}\n"),
        ),
        ("benchmark.txt", &format!("A first line\n{question}\n")),
    ]);
    for (name, words) in [("benchmark.jsonl", 25), ("benchmark.txt", 25)] {
        let ran = run(
            folder.path(),
            ["data", "decontaminate", "--against", name, "in.jsonl"],
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let found: Vec<Value> = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(found.len(), 1, "{}", ran.stdout);
        let found = &found[0];
        assert_eq!((&found["line"], &found["turn"]), (&json!(2), &json!(1)));
        let place = |key: &str| usize::try_from(found[key].as_u64().unwrap()).unwrap();
        let text = reply.get(place("start")..place("end")).unwrap();
        assert!(text.starts_with("A FERRY") && text.ends_with("TO FOUR"));
        assert_eq!(found["text"], text);
        assert_eq!(found["words"], words);
        assert_eq!(
            found["benchmark"],
            json!({"file": name, "line": 2, "words": 25})
        );
    }
    let arguments = [
        "data",
        "decontaminate",
        "--remove",
        "--against",
        "benchmark.jsonl",
        "-o",
        "out.jsonl",
        "in.jsonl",
    ];
    let ran = run(folder.path(), arguments);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(lines(folder.path(), "out.jsonl"), [clean.to_string()]);
    assert_eq!(
        lines(folder.path(), "out.jsonl.contaminated.jsonl").len(),
        1
    );
    // A text of fewer words than a run is found as a whole.
    let ran = run(
        folder.path(),
        [
            "data",
            "decontaminate",
            "--words",
            "26",
            "--against",
            "benchmark.txt",
            "in.jsonl",
        ],
    );
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn no_part_has_a_near_duplicate_a_fork_or_a_beginning_of_another_part() {
    let mut random = Random(11);
    let mut rows = rows_with_duplicates(500);
    for number in 0..60 {
        // Forks of one session, each with its own text.
        let mut row = row(&conversation(&mut random));
        row["metadata"] = json!({"session_id": number / 3});
        rows.push(row.to_string());
        // Conversations that begin alike.
        let mut turns = conversation(&mut random);
        turns[0] = vec![format!("Beginning number {}", number / 4)];
        rows.push(self::row(&turns).to_string());
    }
    let folder = folder(&[("in.jsonl", &rows.join("\n"))]);
    let split = |directory: &str, seed: &str, jobs: &str| {
        let ran = run(
            folder.path(),
            [
                "data", "split", "--train", "0.8", "--test", "0.2", "--seed", seed, "--jobs", jobs,
                "-o", directory, "in.jsonl",
            ],
        );
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ["train", "test"].map(|part| lines(folder.path(), &format!("{directory}/{part}.jsonl")))
    };
    let parts = split("parts", "1", "1");
    assert_eq!(parts, split("again", "1", "5"));
    assert_ne!(parts, split("other", "2", "2"));

    let [train, test] = parts;
    assert_eq!(train.len() + test.len(), rows.len());
    assert!(test.len().abs_diff(rows.len() / 5) < 10, "{}", test.len());
    let mut later = rows.iter();
    let is_in_order = train.iter().all(|line| later.any(|row| row == line));
    assert!(is_in_order, "a part has the order of the input");

    let sets: Vec<_> = train.iter().map(|row| shingles(row)).collect();
    let in_train: Vec<Value> = train
        .iter()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    for line in &test {
        let set = shingles(line);
        assert!(!sets.iter().any(|other| are_near(other, &set)), "{line}");
        let row: Value = serde_json::from_str(line).unwrap();
        for other in &in_train {
            let session = &row["metadata"]["session_id"];
            assert!(session.is_null() || *session != other["metadata"]["session_id"]);
            assert_ne!(row["messages"][0], other["messages"][0]);
        }
    }
}

#[test]
fn samples_depend_on_the_seed_and_the_rows_alone() {
    // Several batches.
    let mut random = Random(3);
    let rows: Vec<String> = (0..4_000)
        .map(|number| {
            let source = if number % 10 == 0 { "a" } else { "b" };
            let text = random.words(100).join(" ");
            json!({"number": number, "source": source, "text": text}).to_string()
        })
        .collect();
    let (first, second) = rows.split_at(1_234);
    let folder = folder(&[
        ("in.jsonl", &rows.join("\n")),
        ("1.jsonl", &first.join("\n")),
        ("2.jsonl", &second.join("\n")),
    ]);
    let sample = |arguments: &str| {
        let arguments = format!("data sample {arguments}");
        let ran = run(folder.path(), arguments.split(' '));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let numbers = ran.stdout.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                rows[usize::try_from(row["number"].as_u64().unwrap()).unwrap()],
                line
            );
            (row["number"].as_u64().unwrap(), row["source"].to_string())
        });
        numbers.collect::<BTreeMap<u64, String>>()
    };
    let one = sample("--count 500 --seed 1 --jobs 1 in.jsonl");
    assert_eq!(one.len(), 500);
    assert_eq!(one, sample("--count 500 --seed 1 --jobs 5 in.jsonl"));
    assert_eq!(one, sample("--count 500 --seed 1 1.jsonl 2.jsonl"));
    assert_eq!(one, sample("--fraction 0.125 --seed 1 in.jsonl"));
    assert_ne!(one, sample("--count 500 --seed 2 in.jsonl"));
    let by = sample("--count 500 --seed 1 --by source in.jsonl");
    assert_eq!(by.values().filter(|source| *source == "\"a\"").count(), 50);
}
