//! The structure of each crate: import cycles between files and long functions.
//!
//! An edge leads from a file to the file that defines what it imports; re-exports are followed to the
//! definition, and a parent that only declares or re-exports a child has no edge to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The most files of one import cycle.
const MAX_CYCLE: usize = 6;
/// Lines of a function above which `xtask/long-functions.txt` gives the reason.
const MAX_FUNCTION: usize = 100;

/// A module of a crate: the path below the crate root.
type Module = Vec<String>;

/// A source file of a crate with its syntax tree.
struct Source {
    file: PathBuf,
    module: Module,
    text: String,
    tree: syn::File,
}

/// A public type with the crate and file that define it.
pub(super) struct PublicType {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) file: PathBuf,
}

/// Checks each crate below `crates/` and returns its public types.
pub(super) fn check(
    root: &Path,
    files: &[PathBuf],
    violations: &mut Vec<String>,
) -> Result<Vec<PublicType>, String> {
    let mut crates: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for file in files {
        let Some((owner, module)) = place(file) else {
            continue;
        };
        let text = std::fs::read_to_string(root.join(file))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let tree =
            syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        crates.entry(owner).or_default().push(Source {
            file: file.clone(),
            module,
            text,
            tree,
        });
    }
    let reasons = reasons(root)?;
    let mut types = Vec::new();
    let mut largest = (0, String::new());
    let mut long = BTreeSet::new();
    for (owner, sources) in &crates {
        let cycle = largest_cycle(sources);
        if cycle.len() > MAX_CYCLE {
            let names: Vec<String> = cycle
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            violations.push(format!(
                "crates/{owner}: an import cycle of {} files, more than {MAX_CYCLE}: {}",
                cycle.len(),
                names.join(" ")
            ));
        }
        if cycle.len() > largest.0 {
            largest = (cycle.len(), owner.clone());
        }
        for source in sources {
            for (name, line, lines) in long_functions(&source.text) {
                let key = format!("{}::{name}", source.file.display());
                if !reasons.contains_key(&key) {
                    violations.push(format!(
                        "{}:{line}: `{name}` has {lines} lines; split it, or give a reason in xtask/long-functions.txt",
                        source.file.display()
                    ));
                }
                long.insert(key);
            }
            types.extend(public_types(owner, source));
        }
    }
    for key in reasons.keys().filter(|key| !long.contains(*key)) {
        violations.push(format!(
            "xtask/long-functions.txt: `{key}` is not a long function; remove the line"
        ));
    }
    println!(
        "structure: largest import cycle {} files (crates/{}), {} functions above {MAX_FUNCTION} lines",
        largest.0,
        largest.1,
        long.len()
    );
    Ok(types)
}

/// Reads `PATH::FUNCTION: reason` lines.
fn reasons(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let path = root.join("xtask/long-functions.txt");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (key, reason) = line
                .split_once(": ")
                .ok_or_else(|| format!("long-functions.txt: no reason: {line}"))?;
            Ok((key.to_owned(), reason.to_owned()))
        })
        .collect()
}

/// Returns the crate folder and module path of `crates/NAME/src/…`.
fn place(file: &Path) -> Option<(String, Module)> {
    let below = file.strip_prefix("crates").ok()?;
    let mut parts = below.iter().map(|part| part.to_string_lossy().into_owned());
    let owner = parts.next()?;
    if parts.next()? != "src" {
        return None;
    }
    let mut module: Module = parts.collect();
    let last = module.pop()?;
    let stem = last.strip_suffix(".rs")?;
    if module.first().is_some_and(|first| first == "bin") || stem == "main" && !module.is_empty() {
        return None;
    }
    if !matches!(stem, "mod" | "lib" | "main") {
        module.push(stem.to_owned());
    }
    Some((owner, module))
}

/// The definitions and re-exports of one file.
#[derive(Default)]
struct Names {
    /// Names re-exported with the full path that they lead to.
    exports: BTreeMap<String, Vec<String>>,
    /// Modules whose every name is re-exported.
    globs: Vec<Vec<String>>,
}

fn largest_cycle(sources: &[Source]) -> Vec<PathBuf> {
    let modules: BTreeMap<&[String], usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| (source.module.as_slice(), index))
        .collect();
    let mut names = Vec::with_capacity(sources.len());
    let mut imports = Vec::with_capacity(sources.len());
    for source in sources {
        let mut own = Names::default();
        let mut paths = Vec::new();
        for item in &source.tree.items {
            if let syn::Item::Use(item) = item
                && !matches!(item.vis, syn::Visibility::Inherited)
            {
                for (path, name) in use_paths(&item.tree) {
                    let Some(path) = absolute(&source.module, &path, &modules) else {
                        continue;
                    };
                    match name {
                        Some(name) => drop(own.exports.insert(name, path)),
                        None => own.globs.push(path),
                    }
                }
            }
        }
        let mut visitor = Imports {
            module: source.module.clone(),
            modules: &modules,
            paths: &mut paths,
        };
        visitor.visit_file(&source.tree);
        names.push(own);
        imports.push(paths);
    }
    let edges: Vec<BTreeSet<usize>> = imports
        .iter()
        .enumerate()
        .map(|(from, paths)| {
            let targets = paths
                .iter()
                .filter_map(|path| defined_in(path, &modules, &names, 0));
            targets.filter(|target| *target != from).collect()
        })
        .collect();
    let cycle = strongly_connected(&edges);
    cycle
        .into_iter()
        .map(|index| sources[index].file.clone())
        .collect()
}

/// Returns the file that defines what an absolute path names.
fn defined_in(
    path: &[String],
    modules: &BTreeMap<&[String], usize>,
    names: &[Names],
    depth: usize,
) -> Option<usize> {
    let known = (0..=path.len())
        .rev()
        .find(|length| modules.contains_key(&path[..*length]))?;
    let index = modules[&path[..known]];
    let Some(name) = path.get(known) else {
        return Some(index);
    };
    if depth < 8
        && let Some(target) = names[index].exports.get(name)
    {
        let mut target = target.clone();
        target.extend(path[known + 1..].iter().cloned());
        return defined_in(&target, modules, names, depth + 1);
    }
    Some(index)
}

/// Returns the path from the crate root, or `None` outside the crate.
fn absolute(
    module: &[String],
    path: &[String],
    modules: &BTreeMap<&[String], usize>,
) -> Option<Vec<String>> {
    let mut base: Vec<String> = module.to_vec();
    let mut parts = path.iter().peekable();
    match parts.peek().map(|part| part.as_str()) {
        Some("crate") => {
            base.clear();
            parts.next();
        }
        Some("self") => drop(parts.next()),
        Some("super") => {
            while parts.peek().is_some_and(|part| *part == "super") {
                base.pop();
                parts.next();
            }
        }
        Some(first) => {
            // A child module that is named without `self::`.
            let mut child = base.clone();
            child.push(first.to_owned());
            if !modules.contains_key(child.as_slice()) {
                return None;
            }
        }
        None => return None,
    }
    base.extend(parts.cloned());
    Some(base)
}

/// Returns each imported path with its local name, or none for a glob.
fn use_paths(tree: &syn::UseTree) -> Vec<(Vec<String>, Option<String>)> {
    fn walk(
        tree: &syn::UseTree,
        before: &[String],
        found: &mut Vec<(Vec<String>, Option<String>)>,
    ) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || before.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            syn::UseTree::Path(path) => walk(&path.tree, &with(&path.ident), found),
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                let last = path.last().cloned();
                found.push((path, last));
            }
            syn::UseTree::Rename(rename) => {
                found.push((with(&rename.ident), Some(rename.rename.to_string())));
            }
            syn::UseTree::Glob(_) => found.push((before.to_vec(), None)),
            syn::UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| walk(tree, before, found)),
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Collects the paths below the crate root that the code of a file uses.
struct Imports<'a> {
    module: Module,
    modules: &'a BTreeMap<&'a [String], usize>,
    paths: &'a mut Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A re-export declares a name; it does not use it.
        if !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        for (path, _) in use_paths(&item.tree) {
            self.paths
                .extend(absolute(&self.module, &path, self.modules));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if parts.len() > 1 {
            self.paths
                .extend(absolute(&self.module, &parts, self.modules));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // Unit tests are not part of the structure.
        let is_test = item
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("cfg"));
        if !is_test {
            self.module.push(item.ident.to_string());
            syn::visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Returns the largest strongly connected set of more than one node (Tarjan's algorithm).
fn strongly_connected(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    struct Search<'a> {
        edges: &'a [BTreeSet<usize>],
        order: Vec<Option<usize>>,
        low: Vec<usize>,
        stack: Vec<usize>,
        on_stack: Vec<bool>,
        next: usize,
        largest: Vec<usize>,
    }
    impl Search<'_> {
        fn visit(&mut self, node: usize) {
            self.order[node] = Some(self.next);
            self.low[node] = self.next;
            self.next += 1;
            self.stack.push(node);
            self.on_stack[node] = true;
            for &target in &self.edges[node] {
                match self.order[target] {
                    None => {
                        self.visit(target);
                        self.low[node] = self.low[node].min(self.low[target]);
                    }
                    Some(order) if self.on_stack[target] => {
                        self.low[node] = self.low[node].min(order);
                    }
                    Some(_) => {}
                }
            }
            if Some(self.low[node]) == self.order[node] {
                let at = self
                    .stack
                    .iter()
                    .rposition(|other| *other == node)
                    .unwrap_or_default();
                let set = self.stack.split_off(at);
                for &member in &set {
                    self.on_stack[member] = false;
                }
                if set.len() > self.largest.len() && set.len() > 1 {
                    self.largest = set;
                }
            }
        }
    }
    let mut search = Search {
        edges,
        order: vec![None; edges.len()],
        low: vec![0; edges.len()],
        stack: Vec::new(),
        on_stack: vec![false; edges.len()],
        next: 0,
        largest: Vec::new(),
    };
    for node in 0..edges.len() {
        if search.order[node].is_none() {
            search.visit(node);
        }
    }
    search.largest.sort_unstable();
    search.largest
}

/// Returns the functions above [`MAX_FUNCTION`] lines of formatted source: name, first line, lines.
///
/// The formatter puts the closing brace of a function at the indentation of its first line.
fn long_functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let before = trimmed.split("fn ").next().unwrap_or_default();
        let is_function = trimmed.contains("fn ")
            && before
                .split_whitespace()
                .all(|word| matches!(word, "const" | "async") || word.starts_with("pub"));
        if !is_function || trimmed.starts_with("//") {
            continue;
        }
        let closes = |line: &&str| line.trim_end() == format!("{}}}", " ".repeat(indent));
        let is_declaration = |line: &&str| {
            line.trim_end().ends_with(';') && line.len() - line.trim_start().len() == indent
        };
        let body = &lines[start..];
        let Some(end) = body
            .iter()
            .position(|line| closes(line) || is_declaration(line))
        else {
            continue;
        };
        if end + 1 > MAX_FUNCTION {
            let after = trimmed.split_once("fn ").map_or("", |(_, after)| after);
            let name = after.split(['(', '<']).next().unwrap_or_default();
            found.push((name.to_owned(), start + 1, end + 1));
        }
    }
    found
}

fn public_types(owner: &str, source: &Source) -> Vec<PublicType> {
    let mut found = Vec::new();
    for item in &source.tree.items {
        let (visibility, name) = match item {
            syn::Item::Struct(item) => (&item.vis, &item.ident),
            syn::Item::Enum(item) => (&item.vis, &item.ident),
            syn::Item::Trait(item) => (&item.vis, &item.ident),
            syn::Item::Type(item) => (&item.vis, &item.ident),
            _ => continue,
        };
        if matches!(visibility, syn::Visibility::Public(_)) {
            found.push(PublicType {
                name: name.to_string(),
                owner: owner.to_owned(),
                file: source.file.clone(),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::strongly_connected;

    #[test]
    fn the_largest_cycle_is_found() {
        let edges = [vec![1], vec![2], vec![0], vec![4], vec![3], vec![0]];
        let edges: Vec<BTreeSet<usize>> = edges.into_iter().map(BTreeSet::from_iter).collect();
        assert_eq!(strongly_connected(&edges), [0, 1, 2]);
        assert!(strongly_connected(&[BTreeSet::new(), BTreeSet::from([0])]).is_empty());
    }
}
