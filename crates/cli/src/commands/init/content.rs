//! The text of the files that `logue init` writes.

use crate::setup::default_model::{DefaultModel, quoted_toml};

pub(super) const FIRST_PROMPT: &str = include_str!("first_prompt.md");
pub(super) const GIT_ATTRIBUTES: &str = include_str!("gitattributes");
/// The address that the CI file installs the program from.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Returns the project's settings.
pub(super) fn settings(model: &DefaultModel) -> String {
    let lines = match model {
        DefaultModel::Found { name, base_url } => {
            let mut lines = format!("name = {}\n", quoted_toml(name));
            if let Some(url) = base_url {
                lines.push_str(&format!("base_url = {}\n", quoted_toml(url)));
            }
            lines
        }
        DefaultModel::OfUser(_) => {
            "# Your own settings name the model. A name here takes precedence:\n# name = \"gpt-5-mini\"\n"
                .to_owned()
        }
        DefaultModel::Missing => {
            "# No server of models answered. Name a model here, or set LOGUE_MODEL:\n\
             # name = \"gpt-5-mini\"\n# base_url = \"http://localhost:11434/v1\"\n"
                .to_owned()
        }
    };
    format!(
        "# Settings of runs in this directory and below. Flags and variables take precedence.\n\
         # Keys that grant access have an effect after `logue trust add .`; limits have it at once.\n\n\
         [model]\n{lines}\n\
         [run]\nmax_requests = 20            # of a run with its agents\n\
         # max_total_tokens = 100000\n\n\
         [permissions.rules]\n# deploy = \"ask\"             # or \"deny\": never, not even in a trusted prompt\n"
    )
}

/// Returns the CI file.
///
/// `folder` is the directory of the prompts, from the top of the repository.
pub(super) fn workflow(folder: Option<&str>) -> String {
    let folder = folder.map_or_else(String::new, |folder| {
        // A JSON string is a YAML string too.
        format!(
            "    defaults:\n      run:\n        working-directory: {}\n",
            quoted_toml(folder)
        )
    });
    format!(
        "# Checks prompts without a model and without a key.\n\
         name: prompts\non: [push, pull_request]\npermissions:\n  contents: read\njobs:\n  check:\n    \
         runs-on: ubuntu-latest\n{folder}    steps:\n      - uses: actions/checkout@v4\n      \
         - run: cargo install --locked --git {REPOSITORY} logue-cli\n      \
         - run: logue check .\n      - run: logue fmt --check .\n"
    )
}
