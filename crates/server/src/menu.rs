//! What is offered at a moment: one dish for each prompt, named after its file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chatmd::{ContentItem, Document, Element, MessageRole, parse};
use logue_agent::{into_text, read_bytes};

/// The longest name that clients accept.
const LONGEST_NAME: usize = 64;

/// Characters of a description.
const LONGEST_DESCRIPTION: usize = 300;

/// One prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dish {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) file: PathBuf,
}

/// All prompts, by the order of their files.
pub(crate) type Menu = Vec<Dish>;

/// What the files offer. Two files with the same name in different folders are told apart by the
/// folder; what cannot be read is left out until it can.
pub(crate) fn menu(files: &[PathBuf]) -> Menu {
    let mut names = BTreeSet::new();
    let mut menu = Menu::new();
    for file in files {
        let Some(description) = description(file) else {
            continue;
        };
        let candidates = names_of(file);
        let free = candidates.into_iter().find(|name| !names.contains(name));
        let Some(name) = free else { continue };
        names.insert(name.clone());
        menu.push(Dish {
            name,
            description,
            file: file.clone(),
        });
    }
    menu
}

/// The names that a file may have, best first: its stem, then with its folder before it, then with a
/// number.
fn names_of(file: &Path) -> Vec<String> {
    let safe = |text: String| -> String {
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
                c
            } else {
                '_'
            }
        };
        text.chars().take(LONGEST_NAME).map(safe).collect()
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

/// What a prompt is for: the first line that its instructions say, else the user's first line.
/// Nothing is evaluated. `None` if the file cannot be read.
fn description(file: &Path) -> Option<String> {
    let name = file.display().to_string();
    let text = into_text(&name, read_bytes(file).ok()?).ok()?;
    let tree = parse(&text);
    let (document, _) = Document::from_tree(&tree);
    let said = |speakers: &[MessageRole]| {
        document.elements.iter().find_map(|element| match element {
            Element::Message(message) if speakers.contains(&message.role) => {
                message.content.iter().find_map(|item| match item {
                    ContentItem::Text(text) => {
                        let words = text.payload.as_deref().unwrap_or(&text.text);
                        let line = words.lines().map(str::trim).find(|line| !line.is_empty())?;
                        Some(line.chars().take(LONGEST_DESCRIPTION).collect::<String>())
                    }
                    _ => None,
                })
            }
            _ => None,
        })
    };
    let said =
        said(&[MessageRole::System, MessageRole::Developer]).or_else(|| said(&[MessageRole::User]));
    Some(said.unwrap_or_else(|| format!("Runs the prompt {name}")))
}
