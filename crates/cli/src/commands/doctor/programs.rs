//! Programs of this machine that tools use.

use std::path::PathBuf;

use crate::commands::doctor::finding::Finding;

/// Programs, each with the consequence of its absence and a remedy.
const PROGRAMS: &[(&str, &str, &str)] = &[(
    "python3",
    "the built-in tool `python` cannot run code",
    "install Python 3, or remove the tool from the prompt",
)];

pub(super) fn check() -> Vec<Finding> {
    PROGRAMS
        .iter()
        .map(|(program, lacks, help)| match find(program) {
            Some(path) => Finding::good("programs", format!("{program}: {}", path.display()))
                .with_fact("program", *program)
                .with_fact("path", path.display().to_string()),
            None => Finding::doubtful("programs", format!("{program} not found: {lacks}"))
                .with_help(*help)
                .with_fact("program", *program),
        })
        .collect()
}

/// Searches `PATH` for a program, as a shell does.
fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
}

fn is_program(path: &std::path::Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    let runs = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let runs = true;
    metadata.is_file() && runs
}
