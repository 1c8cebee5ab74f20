//! Trust is in exactly one content: different grants have different canonical forms, and a damaged
//! list of trusted prompts trusts nothing.
#![expect(
    clippy::expect_used,
    reason = "a property panics where it does not hold"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use logue_agent::{DeclarationForm, GrantForm, PowerForm, PowerKind, TrustEntries};
use logue_tools::FileContent;
use serde_json::Value;

use crate::escape::unescaped;
use crate::input::Input;

/// The canonical form of a grant out of `data` can be read back, so no other grant has it. A list of
/// trusted prompts is read without a panic, and is the same after it was written.
pub fn trust(data: &[u8]) {
    let form = grant(&mut Input::new(data));
    let bytes = form.bytes();
    let value: Value = serde_json::from_slice(&bytes).expect("a form is JSON");
    assert_eq!(read_back(&value), form, "{value}");

    // The smallest differences: one element more, and two elements that are joined.
    let mut other = form.clone();
    for (path, declared) in &form.agents {
        other.own = declared.clone();
        other.agents.remove(path);
        assert_ne!(other.bytes(), bytes);
        other = form.clone();
    }
    for power in &form.own.powers {
        other.own.powers.remove(power);
        assert_ne!(other.bytes(), bytes);
        if let PowerKind::Command(name, words) = &power.tool
            && words.len() > 1
        {
            let joined = PowerKind::Command(name.clone(), vec![words.join(" ")]);
            let joined = PowerForm::new(joined, power.folder.clone());
            other.own.powers.insert(joined);
            assert_ne!(other.bytes(), bytes);
        }
        other = form.clone();
    }

    if let Ok(entries) = TrustEntries::parse(data) {
        let text = entries.to_text().expect("entries are JSON");
        let again = TrustEntries::parse(&text).expect("it was written as it is read");
        assert_eq!(
            (again.prompts, again.folders),
            (entries.prompts, entries.folders)
        );
    }
}

fn grant(input: &mut Input<'_>) -> GrantForm {
    let folder = path(input);
    let own = declarations(input);
    let mut agents = BTreeMap::new();
    for _ in 0..input.byte() % 4 {
        agents.insert(path(input), declarations(input));
    }
    GrantForm {
        folder,
        own,
        agents,
    }
}

fn declarations(input: &mut Input<'_>) -> DeclarationForm {
    let mut form = DeclarationForm::default();
    for _ in 0..input.byte() % 4 {
        let tool = match input.byte() % 4 {
            0 => PowerKind::Builtin(text(input)),
            1 => PowerKind::Command(text(input), texts(input)),
            2 => PowerKind::Server(text(input), Some(texts(input))),
            _ => PowerKind::Server(text(input), None),
        };
        form.powers.insert(PowerForm::new(tool, path(input)));
    }
    for _ in 0..input.byte() % 4 {
        let content = match input.byte() % 2 {
            0 => FileContent::Hashed(text(input)),
            _ => FileContent::Unhashed(text(input)),
        };
        form.files.insert(path(input), content);
    }
    form
}

fn text(input: &mut Input<'_>) -> String {
    String::from_utf8_lossy(input.line()).into_owned()
}

fn texts(input: &mut Input<'_>) -> Vec<String> {
    (0..input.byte() % 4).map(|_| text(input)).collect()
}

fn path(input: &mut Input<'_>) -> PathBuf {
    path_of(input.line())
}

/// A path of any bytes.
#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(<OsString as std::os::unix::ffi::OsStringExt>::from_vec(
        bytes.to_owned(),
    ))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from(String::from_utf8_lossy(bytes).into_owned()))
}

/// Reads a form back by its documented structure alone.
fn read_back(value: &Value) -> GrantForm {
    assert_eq!(value[1], "prompt");
    let agents = elements(&value[4]).iter();
    let agents = agents.map(|agent| (path_from(&agent[0]), declarations_from(&agent[1])));
    GrantForm {
        folder: path_from(&value[2]),
        own: declarations_from(&value[3]),
        agents: agents.collect(),
    }
}

fn declarations_from(value: &Value) -> DeclarationForm {
    let powers: BTreeSet<PowerForm> = elements(&value[0]).iter().map(power_from).collect();
    let files = elements(&value[1]).iter();
    let files = files.map(|file| {
        let label = string(&file[1]);
        let content = match label.strip_prefix("sha256:") {
            Some(digest) => FileContent::Hashed(digest.to_owned()),
            None => FileContent::Unhashed(
                label
                    .strip_prefix("not hashed: ")
                    .expect("a label has a kind")
                    .to_owned(),
            ),
        };
        (path_from(&file[0]), content)
    });
    DeclarationForm {
        powers,
        files: files.collect(),
    }
}

fn power_from(value: &Value) -> PowerForm {
    let strings = |value: &Value| elements(value).iter().map(string).collect::<Vec<_>>();
    let (tool, folder) = match string(&value[0]).as_str() {
        "builtin" => (PowerKind::Builtin(string(&value[1])), &value[2]),
        "command" => {
            let words = strings(&value[2]);
            (PowerKind::Command(string(&value[1]), words), &value[3])
        }
        kind => {
            assert_eq!(kind, "mcp");
            let names = (!value[2].is_null()).then(|| strings(&value[2]));
            (PowerKind::Server(string(&value[1]), names), &value[3])
        }
    };
    PowerForm::new(tool, path_from(folder))
}

fn path_from(value: &Value) -> PathBuf {
    path_of(&unescaped(&string(value)))
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn string(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}
