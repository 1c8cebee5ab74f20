//! The program as its users meet it: real processes, files, sockets and signals.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agent_calls;
mod agent_files;
mod agent_variables;
mod approvals;
mod asking;
mod attachments;
mod audit;
mod bad_prompts;
mod branches;
mod browser;
mod call_verdicts;
mod calls;
mod changed_in_runs;
mod check;
mod check_calls;
mod codes;
mod composed;
mod concurrent;
mod contract;
mod control_tokens;
mod convert;
mod convert_chatmd;
mod convert_losses;
mod convert_parallel;
mod convert_tools;
mod convert_variables;
mod damage;
mod data_check;
mod data_files;
mod data_inputs;
mod data_masks;
mod data_runs;
mod data_selection;
mod data_sessions;
mod data_templates;
mod debug;
mod did_you_mean;
mod doctor;
mod dry_run;
mod edited;
mod editing;
mod example;
mod example_screenshots;
mod examples;
mod expanded;
mod explain;
mod failed_turns;
mod fix;
mod fmt;
mod folder_modes;
mod fork;
mod formats;
mod handles;
mod help;
mod hostile;
mod hostile_tools;
mod init;
mod interrupted;
mod json_output;
mod killed;
mod leases;
mod limits;
mod mcp;
mod migrate;
mod migrate_postgres;
mod migrate_scene;
mod missing_files;
mod models;
mod moved;
mod network;
mod newer_ochat;
mod origins;
mod payloads;
mod phases;
mod pictures;
mod postgres_access;
mod private_files;
mod program;
mod progress;
mod project_grants;
mod prompt_files;
mod prompt_settings;
mod provider_errors;
mod providers;
mod questions;
mod readme;
mod recorded;
mod recovered;
mod redact;
mod redacted_sessions;
mod registries;
mod replayed;
mod response_events;
mod restored_moves;
mod resumed;
mod rule_names;
mod run;
mod scan;
mod screen;
mod screenshots;
mod send;
mod server_access;
mod sessions;
mod settings;
mod shape_table;
mod shapes;
mod signal;
mod streamed;
mod suspended_server;
mod telemetry;
mod terminal;
mod text_rows;
mod tls;
mod tokens;
mod tool_images;
mod tools;
mod transcript;
mod transcript_ends;
mod trust;
mod trusted_content;
mod undecided;
mod unlisted_losses;
mod variables;
mod view;
mod waiting;

/// Every file of this folder is a module above: a forgotten one would never run.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli");
    let own = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // Snapshots under review leave other files beside the modules.
        let Some(stem) = name.strip_suffix(".rs") else {
            continue;
        };
        assert!(
            stem == "main" || own.contains(&format!("mod {stem};")),
            "{name} is forgotten"
        );
    }
}
