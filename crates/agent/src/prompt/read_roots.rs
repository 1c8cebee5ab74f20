//! The directories that `<read>` names for the reading tools of a prompt.

use std::path::{Path, PathBuf};

use chatmd::{ReadRoot, RootBase, ToolDecl};
use logue_source::{Diagnostic, DiagnosticCode};
use logue_tools::{NamedRoot, RootError, Roots};

/// Opens the directories that declarations name, below those that the user allows.
///
/// `within` are the directories that a calling prompt is confined to; empty if it is not.
///
/// # Errors
/// Returns the first directory that the user does not allow, or that does not exist.
pub fn named_roots<'d>(
    tools: impl IntoIterator<Item = &'d ToolDecl>,
    allowed: &Roots,
    prompt_folder: &Path,
    within: &[NamedRoot],
) -> Result<Vec<NamedRoot>, Box<Diagnostic>> {
    let roots = tools.into_iter().flat_map(|tool| &tool.roots);
    roots
        .map(|root| open(root, allowed, prompt_folder, within))
        .collect()
}

fn open(
    root: &ReadRoot,
    allowed: &Roots,
    prompt_folder: &Path,
    within: &[NamedRoot],
) -> Result<NamedRoot, Box<Diagnostic>> {
    let Some(path) = place(root, allowed, prompt_folder) else {
        return Err(Box::new(refused(root, &root.path)));
    };
    let description = root.description.clone();
    let opened = NamedRoot::below(allowed, root.id.clone(), &path, description.clone());
    let opened = match opened {
        Ok(_) if !within.is_empty() => {
            let opened = NamedRoot::inside(within, root.id.clone(), &path, description);
            if matches!(opened, Err(RootError::Outside(_))) {
                return Err(Box::new(outside_caller(root, &path)));
            }
            opened
        }
        opened => opened,
    };
    opened.map_err(|error| match error {
        RootError::Outside(_) => Box::new(refused(root, &path.display().to_string())),
        other => {
            let message = format!("cannot open the root {:?}: {other}", root.id);
            Box::new(
                Diagnostic::error(DiagnosticCode::MissingFile, message, root.span)
                    .with_help("create the directory, or change the path"),
            )
        }
    })
}

/// Returns the path of a root; `None` for a base that is never allowed.
fn place(root: &ReadRoot, allowed: &Roots, prompt_folder: &Path) -> Option<PathBuf> {
    let base = match root.base {
        RootBase::Tools => allowed.base().to_owned(),
        RootBase::Prompt => prompt_folder.to_owned(),
        RootBase::Source => match &root.declared_in {
            Some(file) => {
                let file = prompt_folder.join(file);
                file.parent().map(Path::to_owned)?
            }
            None => prompt_folder.to_owned(),
        },
        RootBase::Absolute => PathBuf::new(),
        _ => return None,
    };
    Some(base.join(&root.rest))
}

fn outside_caller(root: &ReadRoot, path: &Path) -> Diagnostic {
    let (id, path) = (&root.id, path.display());
    let message =
        format!("root {id:?} ({path}) is outside those of the prompt that calls this agent");
    Diagnostic::error(DiagnosticCode::ReadRootRefused, message, root.span).with_help(
        "narrow the path, or add the directory to the `<read>` elements of the calling prompt",
    )
}

fn refused(root: &ReadRoot, path: &str) -> Diagnostic {
    let message = format!("root {:?} ({path}) is outside what you allow", root.id);
    Diagnostic::error(DiagnosticCode::ReadRootRefused, message, root.span).with_help(
        "a prompt cannot widen reading; narrow the path, or add that directory to your own settings: \
         `--root DIR` or `[tools] roots`",
    )
}
