//! The trust in prompts, and the question to the user about it.

use std::io;
use std::path::{Path, PathBuf};

use logue_agent::{Grant, TrustFile};
use logue_harness::Clock as _;
use logue_source::escape_unambiguous;

use crate::exit::CliError;
use crate::setup::environment::data_folder;
use crate::setup::settings::TrustSettings;
use crate::setup::terminal_approver::line;
use crate::terminal::print_error;
use logue_harness::SystemClock;

/// Returns the file of trusted prompts, or `None` without a user data directory.
pub(crate) fn file() -> Option<TrustFile> {
    data_folder().map(|folder| TrustFile::new(folder.join("trust.json")))
}

/// Returns the failure of a command that cannot access the trust file.
pub(crate) fn failed(file: &TrustFile, error: &io::Error) -> CliError {
    let message = format!(
        "cannot read or write the trusted prompts: {}: {error}",
        file.path().display()
    );
    CliError::user("trust_unavailable", message)
        .with_help("check the file and its permissions; without it no prompt is trusted")
}

/// Returns the path of a prompt; standard input is `-` in the current directory.
pub(crate) fn place_of(prompt: Option<&Path>) -> PathBuf {
    let path = prompt.unwrap_or(Path::new("-"));
    let real = path.canonicalize();
    real.unwrap_or_else(|_| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Returns whether a prompt is in a trusted directory.
pub(crate) fn is_own(settings: &TrustSettings, place: &Path) -> bool {
    let mut folders = settings
        .directories
        .iter()
        .filter_map(|folder| folder.canonicalize().ok());
    folders.any(|folder| place.starts_with(folder))
}

/// The question about an unknown prompt.
pub(crate) struct TrustRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) place: &'a Path,
    pub(crate) grant: &'a Grant,
    pub(crate) file: Option<&'a TrustFile>,
}

impl TrustRequest<'_> {
    /// Asks at the terminal whether to trust the prompt, and stores the trust.
    pub(crate) async fn ask(&self) -> Result<bool, CliError> {
        print_error(&self.words()?);
        loop {
            print_error("Trust it? [y/o/N/?] ");
            let Some(line) = line().await else {
                print_error("\n");
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
                _ => print_error(
                    "  y  yes, until its declarations change (`logue trust remove` withdraws it)\n  \
                     o  once, for this command\n  \
                     n  no: each call of these tools requires approval\n",
                ),
            }
        }
    }

    fn words(&self) -> Result<String, CliError> {
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
                "\n{name} has different declarations than those you trusted (- before, + now):\n"
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

/// Returns escaped text of a prompt on one line.
pub(crate) fn single(text: &str) -> String {
    escape_unambiguous(text.replace(['\n', '\t'], " "))
}
