//! Migrations: the shortest chain, or an error that says what is missing.

use logue_harness::sessions::{MigrationError, Migrations};
use serde_json::{Map, Value, json};

fn edges(edges: &[(&str, &str)]) -> Migrations {
    edges
        .iter()
        .fold(Migrations::new(), |migrations, (from, to)| {
            let step = format!("{from}>{to}");
            let migrate = move |mut fields: Map<String, Value>| {
                let trace = fields.get("trace").and_then(Value::as_str).unwrap_or("");
                fields.insert("trace".to_owned(), json!(format!("{trace} {step}")));
                Ok(fields)
            };
            migrations.with(from, to, migrate).unwrap()
        })
}

fn trace(migrations: &Migrations, from: &str, to: &str) -> Result<String, MigrationError> {
    let migrated = migrations.migrate(Some(from), Some(to), Map::new())?;
    let steps: Vec<_> = migrated
        .steps
        .iter()
        .map(|(from, to)| format!("{from}>{to}"))
        .collect();
    let trace = migrated
        .fields
        .get("trace")
        .and_then(Value::as_str)
        .unwrap_or("")
        .trim();
    assert_eq!(steps.join(" "), trace);
    Ok(trace.to_owned())
}

#[test]
fn the_shortest_chain_is_taken() {
    let known = edges(&[("1", "2"), ("2", "3"), ("3", "4"), ("1", "3"), ("4", "1")]);
    for (from, to, chain) in [
        ("1", "2", "1>2"),
        ("1", "3", "1>3"),
        ("1", "4", "1>3 3>4"),
        ("2", "1", "2>3 3>4 4>1"),
        ("7", "7", ""),
    ] {
        assert_eq!(trace(&known, from, to).unwrap(), chain, "{from} to {to}");
    }
}

#[test]
fn two_chains_of_one_length_are_nobodys_choice() {
    let known = edges(&[
        ("1", "2a"),
        ("1", "2b"),
        ("2a", "3"),
        ("2b", "3"),
        ("3", "4"),
    ]);
    for to in ["3", "4"] {
        let error = trace(&known, "1", to).unwrap_err();
        assert_eq!(error.category(), "session_state_migration_chain_ambiguous");
    }
    assert_eq!(trace(&known, "2a", "4").unwrap(), "2a>3 3>4");
    let twice = edges(&[("1", "2")]).with("1", "2", Ok).unwrap_err();
    assert_eq!(twice.category(), "session_state_migration_chain_ambiguous");
}

#[test]
fn what_is_missing_is_told() {
    let error = trace(&edges(&[("1", "2"), ("3", "4")]), "1", "4").unwrap_err();
    assert_eq!(error.category(), "session_state_migration_missing");
    assert_eq!(
        error.to_string(),
        "no migration leads from version \"1\" to \"4\"; known are \"1\" to \"2\", \"3\" to \"4\""
    );
    let none = Migrations::new()
        .migrate(None, Some("1"), Map::new())
        .unwrap_err();
    assert_eq!(
        none.to_string(),
        "no migration leads from version \"\" to \"1\"; no migrations are known"
    );
}

#[test]
fn a_step_that_fails_ends_the_chain() {
    let known = edges(&[("1", "2")])
        .with("2", "3", |_| Err("no key `value`".to_owned()))
        .and_then(|known| known.with("3", "4", |_| panic!("never asked")))
        .unwrap();
    let error = trace(&known, "1", "4").unwrap_err();
    assert_eq!(error.category(), "session_state_migration_failed");
    assert_eq!(
        error.to_string(),
        "the migration from version \"2\" to \"3\" failed: no key `value`"
    );
}
