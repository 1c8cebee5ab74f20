//! `logue trust`, and the question whether a prompt is trusted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logue_agent::{FileWorld, Grant, Surroundings, TrustFile, Trusted};
use logue_harness::Clock as _;
use logue_source::visible;
use logue_tools::{Roots, ShellOptions};
use serde_json::json;

use crate::arguments::TrustCommand;
use crate::asking::line;
use crate::config::{Config, data_folder};
use crate::exit::{Exit, Failure};
use crate::run::input::folder_of;
use crate::run::source_failure;
use crate::store::SystemClock;
use crate::terminal::{closed_pipe_is_done, complain, print};

pub(crate) fn trust(arguments: &TrustCommand) -> Result<Exit, Failure> {
    let file = file().ok_or_else(|| {
        let message = "there is no folder to keep in which prompts are trusted";
        Failure::user("trust_unavailable", message).with_help("set HOME or XDG_DATA_HOME")
    })?;
    let mut text = String::new();
    if arguments.list {
        let listed = file.list().map_err(|error| failed(&file, &error))?;
        for one in &listed {
            text.push_str(&listing(one, arguments.json));
        }
        return closed_pipe_is_done(print(&text));
    }
    // A run may name agents in the folders of the configuration.
    let roots = Config::load()?.roots();
    for path in &arguments.files {
        text.push_str(&if arguments.remove {
            removed(&file, path, arguments.json)?
        } else {
            added(&file, path, &roots, arguments.json)?
        });
    }
    closed_pipe_is_done(print(&text))
}

/// The file with the prompts that are trusted; `None` where there is no folder of the user's.
pub(crate) fn file() -> Option<TrustFile> {
    data_folder().map(|folder| TrustFile::new(folder.join("trust.json")))
}

/// The failure of a command that cannot know what is trusted.
pub(crate) fn failed(file: &TrustFile, error: &io::Error) -> Failure {
    let message = format!(
        "what is trusted cannot be read or written: {}: {error}",
        file.path().display()
    );
    Failure::user("trust_unavailable", message)
        .with_help("check the file and its permissions; without it nothing is trusted")
}

/// Where a prompt is; one on standard input is where the command runs.
pub(crate) fn place_of(prompt: Option<&Path>) -> PathBuf {
    let path = prompt.unwrap_or(Path::new("-"));
    let real = path.canonicalize();
    real.unwrap_or_else(|_| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Whether a prompt lies in a folder that the user calls their own.
pub(crate) fn is_own(config: &Config, place: &Path) -> bool {
    let folders = config.trusted_folders();
    let mut folders = folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok());
    folders.any(|folder| place.starts_with(folder))
}

fn listing(one: &Trusted, json: bool) -> String {
    if json {
        return format!("{}\n", json!(one));
    }
    let mut text = format!("{}\n  {}\n", one.path, one.grant);
    for line in &one.declares {
        text.push_str(&format!("  - {}\n", single(line)));
    }
    text
}

fn added(file: &TrustFile, path: &Path, roots: &[PathBuf], json: bool) -> Result<String, Failure> {
    let bytes = logue_agent::read_bytes(path).map_err(|error| source_failure(&error))?;
    let name = path.display().to_string();
    let text = logue_agent::into_text(&name, bytes).map_err(|error| source_failure(&error))?;
    let folder = folder_of(path);
    let folders = std::iter::once(folder.clone()).chain(roots.iter().cloned());
    let roots = Roots::new(folders).map_err(|error| {
        let message = format!("a folder of `{name}` cannot be used: {error}");
        Failure::user("E-SOURCE-READ", message)
    })?;
    let world = FileWorld::new(Arc::new(roots), &folder).of_file(path);
    let grant = Surroundings::new(world, ShellOptions::default()).grant(&name, &text);
    let place = place_of(Some(path));
    if !grant.is_empty() {
        let added = file.add(&place, &grant, SystemClock.now());
        added.map_err(|error| failed(file, &error))?;
    }
    if json {
        let told = json!({"path": place, "grant": grant.id(), "declares": grant.lines()});
        return Ok(format!("{told}\n"));
    }
    if grant.is_empty() {
        return Ok(format!(
            "{name} declares nothing that does more than read its folder: there is nothing to trust.\n"
        ));
    }
    let mut text = format!("{name} is trusted with:\n");
    for line in grant.lines() {
        text.push_str(&format!("  - {}\n", single(&line)));
    }
    Ok(text)
}

fn removed(file: &TrustFile, path: &Path, json: bool) -> Result<String, Failure> {
    let name = path.display().to_string();
    let count = file.remove(&place_of(Some(path)), &name);
    let count = count.map_err(|error| failed(file, &error))?;
    if json {
        return Ok(format!("{}\n", json!({"path": name, "removed": count})));
    }
    if count == 0 {
        return Err(
            Failure::user("prompt_not_trusted", format!("`{name}` was not trusted"))
                .with_help("`logue trust --list` names what is"),
        );
    }
    Ok(format!("{name} is not trusted any more.\n"))
}

/// A prompt that nobody knows.
pub(crate) struct Question<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: &'a Path,
    pub(crate) grant: &'a Grant,
    pub(crate) file: Option<&'a TrustFile>,
}

impl Question<'_> {
    /// Asks at the terminal whether the prompt is trusted, and remembers it if that is said.
    pub(crate) async fn ask(&self) -> Result<bool, Failure> {
        complain(&self.words()?);
        loop {
            complain("Trust it? [y/o/N/?] ");
            let Some(line) = line().await else {
                complain("\n");
                return Ok(false);
            };
            match (line.trim(), self.file) {
                ("y" | "Y" | "yes", Some(file)) => {
                    let added = file.add(self.place, self.grant, SystemClock.now());
                    added.map_err(|error| failed(file, &error))?;
                    return Ok(true);
                }
                ("y" | "Y" | "yes", None) | ("o" | "O", _) => return Ok(true),
                ("" | "n" | "N" | "no", _) => return Ok(false),
                _ => complain(
                    "  y  yes, until what it declares changes (`logue trust --remove` takes it back)\n  \
                     o  once, for this command\n  \
                     n  no: each call of these tools is asked about\n",
                ),
            }
        }
    }

    fn words(&self) -> Result<String, Failure> {
        let lines = self.grant.lines();
        let known = self.file.map(|file| {
            let known = file.known(self.place);
            known.map_err(|error| failed(file, &error))
        });
        let known = known.transpose()?.flatten();
        let name = single(self.name);
        let mut text = match &known {
            None => format!("\n{name} is not trusted yet. Its model may use:\n"),
            Some(_) => format!(
                "\n{name} declares something else than what you trusted (- before, + now):\n"
            ),
        };
        let known = known.map(|known| known.declares);
        let was = |line: &String| known.as_ref().is_some_and(|known| known.contains(line));
        for line in known.iter().flatten().filter(|line| !lines.contains(line)) {
            text.push_str(&format!("  │ - {}\n", single(line)));
        }
        for line in &lines {
            let mark = match (&known, was(line)) {
                (None, _) => "",
                (Some(_), true) => "  ",
                (Some(_), false) => "+ ",
            };
            text.push_str(&format!("  │ {mark}{}\n", single(line)));
        }
        Ok(text)
    }
}

/// Text from a prompt on one line.
fn single(text: &str) -> String {
    visible(&text.replace(['\n', '\t'], " ")).into_owned()
}
