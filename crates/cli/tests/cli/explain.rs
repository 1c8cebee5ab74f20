//! `logue explain` prints the page of each code that the program reports.

use std::path::Path;

use serde_json::Value;

use crate::program::{folder, run};

fn page(code: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap()
}

#[test]
fn the_code_of_an_error_leads_to_its_page() {
    let folder = folder(&[("p.md", "<user>{{topic}}</user>\n<var name=\"1\"/>\n")]);
    let checked = run(folder.path(), ["check", "p.md"]);
    let (_, rest) = checked.stderr.split_once("error[").unwrap();
    let (code, _) = rest.split_once(']').unwrap();
    let ran = run(folder.path(), ["explain", code]);
    assert_eq!((ran.status, ran.stdout), (0, page(code)), "{}", ran.stderr);
    // People type codes in any case.
    let ran = run(folder.path(), ["explain", &code.to_lowercase(), "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&shown["code"], &shown["page"]),
        (&code.into(), &page(code).into())
    );
}

#[test]
fn the_list_has_each_code_with_its_meaning() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["explain", "--json"]);
    let codes: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let index = page("README");
    let rows = index.lines().filter(|line| line.starts_with("| [`"));
    assert_eq!(codes.len(), rows.count());
    for code in &codes {
        assert!(!code["meaning"].as_str().unwrap().is_empty(), "{code}");
    }
    let listed = run(folder.path(), ["explain"]).stdout;
    assert_eq!(listed.lines().count(), codes.len());
    assert!(listed.contains("store_corrupt  "), "{listed}");
}

#[test]
fn a_wrong_code_names_the_similar_one() {
    let folder = folder(&[]);
    let ran = run(folder.path(), ["explain", "E-MD-VARABLE"]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr.contains("did you mean `E-MD-VARIABLE`?"),
        "{}",
        ran.stderr
    );
    let ran = run(folder.path(), ["explain", "zzz"]);
    assert!(
        ran.stderr.contains("`logue explain` lists the codes"),
        "{}",
        ran.stderr
    );
}
