//! The names of public types: each occurs once, and none is a bare generic noun.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::structure::PublicType;

/// Nouns that need the noun of their domain before them.
const BARE: &[&str] = &["Options", "Limits", "Event", "Document", "Found", "Kind"];

/// Reports shared and bare names of public types that `xtask/names.txt` does not list.
pub(super) fn check(
    root: &Path,
    types: &[PublicType],
    violations: &mut Vec<String>,
) -> Result<(), String> {
    let path = root.join("xtask/names.txt");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let listed: BTreeSet<&str> = lines
        .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
        .collect();
    let mut places: BTreeMap<&str, Vec<&PublicType>> = BTreeMap::new();
    for found in types {
        places.entry(&found.name).or_default().push(found);
    }
    let mut needed = BTreeSet::new();
    for (name, found) in &places {
        let is_bare = BARE.contains(name);
        if found.len() < 2 && !is_bare {
            continue;
        }
        needed.insert(*name);
        if !listed.contains(name) {
            let files: Vec<String> = found
                .iter()
                .map(|found| format!("{} ({})", found.file.display(), found.owner))
                .collect();
            let fault = if is_bare {
                "needs the noun of its domain"
            } else {
                "is defined more than once"
            };
            violations.push(format!("names: `{name}` {fault}: {}", files.join(", ")));
        }
    }
    for name in listed.difference(&needed) {
        violations.push(format!(
            "xtask/names.txt: `{name}` needs no exception; remove the line"
        ));
    }
    Ok(())
}
