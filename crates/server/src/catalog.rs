//! The published prompts, named after their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chatmd::{ContentItem, Document, Element, MessageRole, parse};
use logue_agent::{into_text, read_bytes};

/// The maximum length of a name that clients accept.
const MAX_NAME_CHARS: usize = 64;

/// The maximum number of characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// A published prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PromptEntry {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) file: PathBuf,
}

/// All published prompts, in the order of their files.
pub(crate) type PromptCatalog = Vec<PromptEntry>;

/// Builds the catalog of files.
///
/// Two files with one name get the names of their directories as well; a file that cannot be read
/// is left out until it can.
pub(crate) fn catalog(files: &[PathBuf]) -> PromptCatalog {
    let mut names = BTreeSet::new();
    let mut catalog = PromptCatalog::new();
    for file in files {
        let Some(description) = description(file) else {
            continue;
        };
        let candidates = names_of(file);
        let free = candidates.into_iter().find(|name| !names.contains(name));
        let Some(name) = free else { continue };
        names.insert(name.clone());
        catalog.push(PromptEntry {
            name,
            description,
            file: file.clone(),
        });
    }
    catalog
}

/// Returns the candidate names of a file, the best first.
///
/// They are its stem, the stem with its directory, then the stem with a number.
fn names_of(file: &Path) -> Vec<String> {
    let safe = |text: String| -> String {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        };
        text.chars().take(MAX_NAME_CHARS).map(safe).collect()
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default();
    let with_folder = safe(format!("{}_{stem}", folder.to_string_lossy()));
    let numbered = (2..100).map(|number| safe(format!("{number}_{stem}")));
    [safe(stem.to_string()), with_folder]
        .into_iter()
        .chain(numbered)
        .collect()
}

/// Describes a prompt by the first line of its instructions, or of the user's message.
///
/// Nothing is evaluated. Returns `None` if the file cannot be read.
fn description(file: &Path) -> Option<String> {
    let name = file.display().to_string();
    let text = into_text(&name, read_bytes(file).ok()?).ok()?;
    let tree = parse(&text);
    let (document, _) = Document::from_tree(&tree);
    let first_line = |speakers: &[MessageRole]| {
        document.elements.iter().find_map(|element| match element {
            Element::Message(message) if speakers.contains(&message.role) => {
                message.content.iter().find_map(|item| match item {
                    ContentItem::Text(text) => {
                        let words = text.payload.as_deref().unwrap_or(&text.text);
                        let line = words.lines().map(str::trim).find(|line| !line.is_empty())?;
                        Some(line.chars().take(MAX_DESCRIPTION_CHARS).collect::<String>())
                    }
                    _ => None,
                })
            }
            _ => None,
        })
    };
    let line = first_line(&[MessageRole::System, MessageRole::Developer])
        .or_else(|| first_line(&[MessageRole::User]));
    Some(line.unwrap_or_else(|| format!("Runs the prompt {name}")))
}
