//! Every code has a page and a line in the index, and no page or line has no code.

use std::collections::BTreeSet;
use std::path::Path;

use logue_model::Category;
use logue_source::DiagnosticCode;

/// Categories that the program itself gives.
const OWN: &[&str] = &[
    "approval_expired",
    "approval_not_expired",
    "approval_stale",
    "arguments_redacted",
    "audit_write_failed",
    "chat_message_shape_invalid",
    "harness_path_classification_ambiguous",
    "harness_session_id_unresolved",
    "harness_signal_correlation_failed",
    "idempotency_key_reused",
    "init_file_exists",
    "init_write_failed",
    "internal",
    "budget_exceeded",
    "max_requests_reached",
    "agent_not_configured",
    "model_not_configured",
    "invalid_token_ids",
    "no_user_input",
    "nothing_to_retry",
    "data_files_conflict",
    "data_output_busy",
    "data_write_failed",
    "stdout_write_failed",
    "pages_write_failed",
    "prompt_not_trusted",
    "refine_rejected",
    "session_arriving",
    "session_awaiting_signal",
    "session_busy",
    "session_exists",
    "session_load_failed",
    "session_moved",
    "session_not_found",
    "session_save_failed",
    "session_write_conflict",
    "signal_contradicts_earlier",
    "state_validation_error",
    "store_corrupt",
    "store_read_only",
    "store_unavailable",
    "suspension_persistence_failed",
    "suspension_record_invalid",
    "suspension_resume_payload_invalid",
    "tool_result_required",
    "transcript_locked",
    "transcript_write_failed",
    "tool_not_permitted",
    "trust_not_coverable",
    "trust_unavailable",
    "turn_cancelled",
    "turn_interrupted",
    "usage",
];

/// Codes of `logue serve`.
const OF_SERVER: &[&str] = &[
    "agent_broken",
    "agent_differs",
    "agent_not_found",
    "agent_removed",
    "agent_repeated",
    "answer_withdrawn",
    "body_too_large",
    "content_type_unsupported",
    "debug_view_disabled",
    "host_refused",
    "listen_failed",
    "method_not_allowed",
    "model_not_found",
    "origin_refused",
    "path_not_found",
    "conversation_locked",
    "conversation_not_found",
    "response_deleted",
    "response_not_found",
    "rate_limited",
    "request_invalid",
    "request_timeout",
    "scope_missing",
    "server_draining",
    "server_ends",
    "signal_not_found",
    "step_invalid",
    "token_exists",
    "token_not_found",
    "too_many_requests",
    "tool_arguments_invalid",
    "turns_limited",
    "unauthorized",
];

#[test]
fn codes_and_pages_are_the_same_list() {
    let mut codes: BTreeSet<String> = DiagnosticCode::ALL
        .iter()
        .map(|code| code.as_str().to_owned())
        .collect();
    codes.extend(
        Category::ALL
            .iter()
            .map(|category| category.as_str().to_owned()),
    );
    codes.extend(OWN.iter().chain(OF_SERVER).map(|code| (*code).to_owned()));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut pages = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if stem == "README" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with(&format!("# {stem}\n")),
            "{stem}: the title is another one"
        );
        pages.insert(stem);
    }
    let missing: Vec<_> = codes.difference(&pages).collect();
    let orphans: Vec<_> = pages.difference(&codes).collect();
    assert!(missing.is_empty(), "codes without a page: {missing:?}");
    assert!(orphans.is_empty(), "pages without a code: {orphans:?}");
    let index = include_str!("../../../../docs/errors/README.md");
    let listed: BTreeSet<String> = index
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| [`")?.split_once("`](")?.0.to_owned()))
        .collect();
    assert_eq!(listed, codes, "docs/errors/README.md");
    for code in &listed {
        assert!(
            index.contains(&format!("| [`{code}`]({code}.md) |")),
            "{code}"
        );
    }
}

#[test]
fn the_table_of_statuses_names_codes() {
    let index = include_str!("../../../../docs/errors/README.md");
    let rows = index.lines().filter(|line| {
        let first = line
            .strip_prefix("| ")
            .and_then(|row| row.split(' ').next());
        first.is_some_and(|status| status.parse::<u8>().is_ok())
    });
    let named: Vec<&str> = rows
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .filter(|code| !code.starts_with("logue "))
        .collect();
    assert!(named.len() > 10, "{named:?}");
    for code in named {
        let line = format!("| [`{code}`]({code}.md) |");
        assert!(index.contains(&line), "{code} is not in the index");
    }
}

/// Returns the codes that a source gives to errors.
fn codes_of(source: &str) -> BTreeSet<&str> {
    let mut codes = BTreeSet::new();
    for opening in [
        "CliError::user(",
        "CliError::new(",
        "Problem::new(",
        "Self::new(",
    ] {
        for rest in source.split(opening).skip(1) {
            let statement = rest.split(';').next().unwrap_or_default();
            let Some((before, literal)) = statement.split_once('"') else {
                continue;
            };
            let literal = literal.split('"').next().unwrap_or_default();
            let is_code = literal.contains('_')
                && literal.chars().all(|c| c == '_' || c.is_ascii_lowercase());
            if before.len() < 80 && is_code {
                codes.insert(literal);
            }
        }
    }
    codes
}

#[test]
fn codes_in_the_sources_have_pages() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = crates.join("../docs/errors");
    let mut found = BTreeSet::new();
    let mut folders = vec![crates.join("cli/src"), crates.join("server/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                found.extend(codes_of(&source).into_iter().map(str::to_owned));
            }
        }
    }
    assert!(found.contains("agent_repeated"), "{found:?}");
    let has_page = |code: &String| pages.join(format!("{code}.md")).exists();
    let missing: Vec<_> = found.iter().filter(|code| !has_page(code)).collect();
    assert!(missing.is_empty(), "codes without a page: {missing:?}");
}
