//! Trust covers content: of random trees of prompts, imports, agents and scripts.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use logue_agent::{FileLoader, Grant, PromptScope, TrustFile};
use logue_tools::{Roots, ShellOptions};
use proptest::prelude::*;
use serde_json::json;

/// One prompt, import or agent of a tree.
#[derive(Clone, Debug)]
struct Node {
    /// The file of an earlier node that names it, and how.
    parent: usize,
    is_agent: bool,
    /// Whether a message calls the agent, instead of a tool.
    is_called: bool,
    /// How its tools name scripts.
    tools: Vec<ToolForm>,
}

#[derive(Clone, Copy, Debug)]
enum ToolForm {
    Argument,
    Program,
    Option,
    Server,
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let form = prop_oneof![
        Just(ToolForm::Argument),
        Just(ToolForm::Program),
        Just(ToolForm::Option),
        Just(ToolForm::Server),
    ];
    let tools = proptest::collection::vec(form, 1..3);
    let node = (any::<usize>(), any::<bool>(), any::<bool>(), tools);
    let node = node.prop_map(|(parent, is_agent, is_called, tools)| Node {
        parent,
        is_agent,
        is_called,
        tools,
    });
    proptest::collection::vec(node, 1..5)
}

/// The files of a tree, and the names of those that nothing names.
fn tree(nodes: &[Node]) -> (BTreeMap<String, String>, Vec<String>) {
    // An import runs in the folder of the prompt or agent that imports it.
    let mut folders: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut texts: Vec<String> = Vec::new();
    let mut files = BTreeMap::new();
    let mut others = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let parent = (at > 0).then(|| node.parent % at.max(1));
        let folder = match parent {
            Some(parent) if node.is_agent => format!("{}d{at}/", folders[parent]),
            Some(parent) => folders[parent].clone(),
            None => String::new(),
        };
        let kind = if node.is_agent { "md" } else { "chatmd" };
        let name = format!("{folder}n{at}.{kind}");
        if let Some(parent) = parent {
            let below = name.strip_prefix(&folders[parent]).unwrap();
            let line = if node.is_agent && node.is_called {
                format!("<user><agent src=\"{below}\" local>Act.</agent></user>\n")
            } else if node.is_agent {
                format!("<tool name=\"agent{at}\" agent=\"{below}\" local/>\n")
            } else {
                format!("<import src=\"{below}\"/>\n")
            };
            texts[parent].insert_str(0, &line);
        }
        let doc = format!("{folder}doc{at}.txt");
        let mut text = format!("<user><doc src=\"doc{at}.txt\" local/></user>\n");
        files.insert(doc.clone(), "read\n".to_owned());
        others.push(doc);
        for (number, form) in node.tools.iter().enumerate() {
            let script = format!("s{at}-{number}.sh");
            let tool = format!("name=\"t{at}_{number}\"");
            text.push_str(&match form {
                ToolForm::Argument => format!("<tool {tool} command=\"sh {script} now\"/>\n"),
                ToolForm::Program => format!("<tool {tool} command=\"./{script}\"/>\n"),
                ToolForm::Option => format!("<tool {tool} command=\"run --file={script}\"/>\n"),
                ToolForm::Server => {
                    format!(
                        "<tool mcp_server=\"stdio:sh '{script}' --x\" name=\"m{at}_{number}\"/>\n"
                    )
                }
            });
            let script = format!("{folder}{script}");
            files.insert(script, format!("echo {at} {number}\n"));
            let other = format!("{folder}other{at}-{number}.sh");
            files.insert(other.clone(), "echo other\n".to_owned());
            others.push(other);
        }
        folders.push(folder);
        names.push(name);
        texts.push(text);
    }
    files.extend(names.into_iter().zip(texts));
    (files, others)
}

fn grant(folder: &Path, name: &str) -> Grant {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
    let world = FileLoader::new(roots, folder).with_file(&folder.join(name));
    PromptScope::new(world, ShellOptions::default()).grant(name, &text)
}

/// A list that trusts the prompt as it is.
///
/// [`TrustFile::add`] waits for the disk, which is slow in many cases.
fn list(folder: &Path, name: &str) -> TrustFile {
    let grant = grant(folder, name);
    let entry = json!({"path": name, "grant": grant.id(), "declares": grant.lines(), "at": 1});
    let path = folder.join(".trust.json");
    let entries = json!({"version": 2, "prompts": [entry]});
    fs::write(&path, entries.to_string()).unwrap();
    TrustFile::new(path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 4_096)))]

    #[test]
    fn any_byte_of_a_covered_file_and_no_other_one_withdraws_trust(
        nodes in nodes(),
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let (files, others) = tree(&nodes);
        let own = if nodes[0].is_agent { "n0.md" } else { "n0.chatmd" };
        for (name, text) in &files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let list = list(root, own);
        prop_assert!(list.trusts(&grant(root, own)).unwrap());
        let trusts = || list.trusts(&grant(root, own)).unwrap();
        for (name, text) in &files {
            let is_other = others.contains(name);
            let path = root.join(name);
            if name == own {
                fs::write(&path, format!("{text}<user>More {bit}.</user>\n")).unwrap();
                prop_assert!(trusts(), "a conversation grows in {name}");
            } else {
                let mut bytes = text.clone().into_bytes();
                let at = place.index(bytes.len());
                bytes[at] ^= 1 << bit;
                fs::write(&path, bytes).unwrap();
                prop_assert_eq!(trusts(), is_other, "{} at {}", name, at);
            }
            fs::write(&path, text).unwrap();
        }
        fs::write(root.join("new.sh"), "echo new\n").unwrap();
        prop_assert!(trusts(), "all files are as they were, beside a new one");
    }
}
