//! The manifest and files that a published crate needs.

use std::path::Path;

use serde_json::Value;

/// Reports what the published packages of the workspace lack.
pub(super) fn check(root: &Path, packages: &[Value], violations: &mut Vec<String>) {
    for package in packages {
        let is_published = package["publish"]
            .as_array()
            .is_none_or(|registries| !registries.is_empty());
        if !is_published {
            continue;
        }
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().unwrap_or(root);
        for field in ["description", "license", "readme", "repository"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                violations.push(format!("{name}: Cargo.toml has no `{field}`"));
            }
        }
        for field in ["keywords", "categories"] {
            if package[field].as_array().is_none_or(Vec::is_empty) {
                violations.push(format!("{name}: Cargo.toml has no `{field}`"));
            }
        }
        if package["metadata"]["docs"]["rs"]["all-features"] != true {
            violations.push(format!(
                "{name}: Cargo.toml has no `[package.metadata.docs.rs] all-features = true`"
            ));
        }
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            let path = folder.join(file);
            if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
                violations.push(format!("{name}: no file {file}"));
            }
        }
        let library = folder.join("src/lib.rs");
        let text = std::fs::read_to_string(&library).unwrap_or_default();
        if library.exists()
            && !(text.contains("//! ```") || text.contains("include_str!(\"../README.md\")"))
        {
            violations.push(format!("{name}: lib.rs has no example"));
        }
    }
}
