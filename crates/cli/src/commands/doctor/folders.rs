//! Check of the session store.

use std::path::{Path, PathBuf};

use logue_store::redacted_address;

use crate::arguments::DoctorArgs;
use crate::commands::doctor::finding::Finding;
use crate::counted::{amount, counted};
use crate::setup::settings::Settings;
use crate::setup::store;

const STORE: &str = "store";

pub(super) async fn check(arguments: &DoctorArgs, settings: &Settings) -> Vec<Finding> {
    let Some(url) = store::url(&arguments.store, settings) else {
        return vec![
            Finding::bad(STORE, "no directory for sessions")
                .with_help("name one: --store sqlite:PATH, or set HOME"),
        ];
    };
    vec![store(&url).await.with_fact("url", redacted_address(&url))]
}

/// Verifies the store if it exists; the check does not create one.
async fn store(url: &str) -> Finding {
    let shown = redacted_address(url);
    let file = url.strip_prefix("sqlite:").filter(|path| !path.is_empty());
    let file = file.map(PathBuf::from);
    if let Some(file) = file.filter(|file| !file.exists()) {
        let folder = file.ancestors().skip(1).find(|folder| folder.exists());
        let folder = folder.unwrap_or(Path::new("/"));
        return if writable(folder) {
            Finding::good(STORE, format!("{shown}: the first session creates it"))
        } else {
            let folder = folder.display();
            Finding::bad(STORE, format!("{shown}: cannot create files in {folder}"))
                .with_help("name another place: --store sqlite:PATH, LOGUE_STORE or [store] url")
        };
    }
    let store = match store::open_at(url) {
        Ok(store) => store,
        Err(failure) => {
            let finding = Finding::bad(STORE, format!("{shown}: {}", failure.message));
            return failure.help.into_iter().fold(finding, Finding::with_help);
        }
    };
    match store.verify(None).await {
        Err(error) => Finding::bad(STORE, format!("{shown}: {error}"))
            .with_help("run `logue sessions verify` for details, or restore a backup"),
        Ok(found) if !found.faults.is_empty() => {
            let first = found.faults.first().map(ToString::to_string);
            let message = format!(
                "{shown}: {}, such as: {}",
                counted(found.faults.len(), "fault"),
                first.unwrap_or_default()
            );
            Finding::bad(STORE, message).with_help("`logue sessions verify` lists them")
        }
        Ok(found) => {
            let message = format!(
                "{shown}: sound, {} with {}",
                counted(amount(found.sessions), "session"),
                counted(amount(found.messages), "message")
            );
            Finding::good(STORE, message)
                .with_fact("sessions", found.sessions)
                .with_fact("messages", found.messages)
        }
    }
}

/// Returns whether this user can create files in a directory.
///
/// The function creates and removes a file, because permissions do not reveal a read-only file
/// system.
fn writable(folder: &Path) -> bool {
    let path = folder.join(format!(".logue-doctor-{}", std::process::id()));
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path);
    if made.is_ok() {
        drop(std::fs::remove_file(&path));
    }
    made.is_ok()
}
