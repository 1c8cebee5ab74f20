//! A folder that tools write in, and calls of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_message::ToolCall;
use logue_tools::{AccessScope, Builtin, Roots, ToolResult, Toolbox};
use serde_json::json;

pub(crate) async fn call_with(scope: &AccessScope, name: &str, arguments: &str) -> ToolResult {
    let mut toolbox = Toolbox::new();
    let names = [
        "append_to_file",
        "find_and_replace",
        "apply_patch",
        "write_file",
    ];
    for builtin in Builtin::from_names(&names).unwrap() {
        toolbox.add(builtin.tool(scope)).unwrap();
    }
    toolbox.call(&ToolCall::new("c", name, arguments)).await
}

pub(crate) async fn call(root: &Path, name: &str, arguments: serde_json::Value) -> ToolResult {
    let roots = Arc::new(Roots::new([root.to_owned()]).unwrap());
    call_with(&AccessScope::new(roots), name, &arguments.to_string()).await
}

pub(crate) async fn patch(root: &Path, patch: &str) -> ToolResult {
    call(root, "apply_patch", json!({ "input": patch })).await
}

/// A folder with a root `project` in it and a file beside the root.
pub(crate) struct Project {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self {
            _folder: folder,
            root,
        }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// Every file below and beside the root with its content.
    pub(crate) fn all(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        let mut folders = vec![self.root.parent().unwrap().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path.clone());
                }
                all.push((path.clone(), fs::read(&path).ok()));
            }
        }
        all.sort();
        all
    }
}
