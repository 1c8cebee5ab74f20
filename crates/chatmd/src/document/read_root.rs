//! `<read>`: the directories to which a `<tool name="read_file">` is confined.

use logue_source::{Diagnostic, DiagnosticCode, Span};

use crate::document::strict;
use crate::findings::Findings;
use crate::syntax::tag::Tag;
use crate::syntax::tree::ElementNode;

/// A `<read>` of a `<tool name="read_file">`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadRoot {
    /// Span of the element.
    pub span: Span,
    /// Name of the directory, by which a call selects it.
    pub id: String,
    /// Path of the directory, as written.
    pub path: String,
    /// The directory that the path counts from.
    pub base: RootBase,
    /// Path from the base, or an absolute path.
    pub rest: String,
    /// Name of the imported file that declares it; `None` for the prompt itself.
    pub declared_in: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
}

/// The directory that the path of a [`ReadRoot`] counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootBase {
    /// The path is absolute.
    Absolute,
    /// The directory of the tools: `${workspace}` and `${tool_dir}`.
    Tools,
    /// The directory of the prompt: `${prompt_dir}`.
    Prompt,
    /// The directory of the declaring file: `${source_dir}`.
    Source,
    /// The home directory of the user: `${home}`.
    Home,
    /// A directory of another program: `${session_dir}` and `${cache_dir}`.
    Foreign,
}

/// Reads the `<read>` parts of a tool; `None` if one is invalid.
pub(super) fn read_roots(node: ElementNode<'_>, findings: &mut Findings) -> Option<Vec<ReadRoot>> {
    let mut roots: Vec<ReadRoot> = Vec::new();
    let mut errors = Findings::default();
    for part in strict::parts(node, &[Tag::Read], &mut errors) {
        strict::attributes(part, &["id", "path", "description"], &mut errors);
        strict::parts(part, &[], &mut errors);
        let id = strict::required(part, "id", &mut errors);
        let (Some(id), Some(path)) = (id, path(part, &mut errors)) else {
            continue;
        };
        if let Some(first) = roots.iter().find(|root| root.id == id) {
            errors.push(
                Diagnostic::error(
                    DiagnosticCode::MdToolDeclaration,
                    format!("duplicate root {id:?}"),
                    part.opener(),
                )
                .with_label(first.span, "the first one")
                .with_help("remove or rename one of them"),
            );
            continue;
        }
        let (base, rest) = split(&path);
        roots.push(ReadRoot {
            span: part.span(),
            id,
            base,
            rest: rest.to_owned(),
            declared_in: None,
            description: strict::optional(part, "description"),
            path,
        });
    }
    let is_valid = findings.extend(errors);
    is_valid.then_some(roots)
}

/// Returns the path of a `<read>`; reports a missing or invalid one.
fn path(node: ElementNode<'_>, findings: &mut Findings) -> Option<String> {
    let path = strict::required(node, "path", findings)?;
    let is_unknown = path.starts_with("${") && split(&path).1.len() == path.len();
    if !is_unknown && !path.contains('\0') {
        return Some(path);
    }
    let place = node
        .attribute("path")
        .map_or(node.opener(), |attribute| attribute.place());
    findings.push(
        Diagnostic::error(
            DiagnosticCode::MdInvalidAttribute,
            format!("invalid path {path:?} of a root"),
            place,
        )
        .with_expected(
            "an absolute path, one relative to the tools' directory, or one that begins with \
             `${prompt_dir}/` or another variable",
        )
        .with_help("the variables are workspace, tool_dir, prompt_dir and source_dir"),
    );
    None
}

/// Splits a path into its base and the path from there.
pub(super) fn split(path: &str) -> (RootBase, &str) {
    const VARIABLES: [(&str, RootBase); 7] = [
        ("${workspace}", RootBase::Tools),
        ("${tool_dir}", RootBase::Tools),
        ("${prompt_dir}", RootBase::Prompt),
        ("${source_dir}", RootBase::Source),
        ("${home}", RootBase::Home),
        ("${session_dir}", RootBase::Foreign),
        ("${cache_dir}", RootBase::Foreign),
    ];
    for (variable, base) in VARIABLES {
        if let Some(rest) = path.strip_prefix(variable)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return (base, rest.trim_start_matches('/'));
        }
    }
    if path.starts_with('/') {
        (RootBase::Absolute, path)
    } else {
        (RootBase::Tools, path)
    }
}
