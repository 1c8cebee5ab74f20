//! The files that a path or a pattern names.

use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use ignore::WalkBuilder;
use logue_source::DiagnosticCode;

use crate::exit::CliError;

/// The maximum number of files that one pattern may name.
const MAX_FILES: usize = 1000;

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The files that an attachment names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedFiles {
    pub(super) files: Vec<PathBuf>,
    /// Whether a pattern found them; binary files among them are left out.
    pub(super) is_pattern: bool,
}

/// Returns the files that a path or pattern names, in the order of their names.
///
/// A pattern finds no file that `.gitignore` ignores, and hidden files only if it names them.
pub(super) fn files(name: &str) -> Result<NamedFiles, CliError> {
    let path = Path::new(name);
    if path.is_dir() {
        let shown = name.trim_end_matches('/');
        let message = format!("`{name}` is a directory");
        return Err(
            refused(message).with_help(format!("attach the files below it: -a '{shown}/**'"))
        );
    }
    if path.exists() || !name.contains(['*', '?', '[']) {
        return Ok(NamedFiles {
            files: vec![path.to_owned()],
            is_pattern: false,
        });
    }
    let files = matches(name)?;
    if files.is_empty() {
        return Err(refused(format!("no file fits `{name}`")).with_help(
            "check the pattern; `**` stands for any directories, and files that .gitignore ignores \
             are left out",
        ));
    }
    Ok(NamedFiles {
        files,
        is_pattern: true,
    })
}

fn refused(message: String) -> CliError {
    CliError::user(DiagnosticCode::SourceRead.as_str(), message)
}

fn matches(name: &str) -> Result<Vec<PathBuf>, CliError> {
    // `**` at the end fits directories; their files are meant.
    let full = if name == "**" || name.ends_with("/**") {
        format!("{name}/*")
    } else {
        name.to_owned()
    };
    let full = full.strip_prefix("./").unwrap_or(&full);
    let pattern = Pattern::new(full).map_err(|error| refused(format!("`{name}`: {error}")))?;
    let has_signs = |part: &Component<'_>| {
        let part = part.as_os_str().to_string_lossy();
        part.contains(['*', '?', '['])
    };
    let parts = Path::new(full).components();
    let base: PathBuf = parts.clone().take_while(|part| !has_signs(part)).collect();
    let varying: Vec<Component<'_>> = parts.skip_while(|part| !has_signs(part)).collect();
    let is_deep = varying.iter().any(|part| part.as_os_str() == "**");
    let names_hidden = varying.iter().any(|part| {
        let part = part.as_os_str().to_string_lossy();
        part.starts_with('.')
    });
    let root = if base.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &base
    };
    let mut walk = WalkBuilder::new(root);
    walk.hidden(!names_hidden)
        .require_git(false)
        .max_depth((!is_deep).then_some(varying.len()))
        .sort_by_file_path(Path::cmp);
    let mut files = Vec::new();
    for entry in walk.build() {
        // A directory that cannot be read has no files to attach.
        let Ok(entry) = entry else {
            continue;
        };
        let path = entry.path();
        let path = path.strip_prefix("./").unwrap_or(path);
        if !pattern.matches_path_with(path, OPTIONS) || !path.is_file() {
            continue;
        }
        if files.len() == MAX_FILES {
            let message = format!("`{name}` names more than {MAX_FILES} files");
            return Err(refused(message).with_help("choose a narrower pattern"));
        }
        files.push(path.to_owned());
    }
    Ok(files)
}
