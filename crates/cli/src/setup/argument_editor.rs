//! Editing the arguments of a call: in the user's editor, or as one line.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use logue_message::Arguments;
use logue_source::escape_line;
use serde_json::{Map, Value};

use crate::setup::environment::variable;
use crate::setup::store::new_id;
use crate::setup::terminal_approver::line;
use crate::terminal::print_error;

/// A directory with the edited file, removed with it when it is dropped.
struct PrivateFile {
    folder: PathBuf,
    path: PathBuf,
}

/// Lets the user edit a text of arguments; `None` if there is no new text.
///
/// `VISUAL` or `EDITOR` opens a file that only the user can read. Without an editor, the new
/// arguments are one line of input.
pub(crate) async fn edited(arguments: &str) -> Option<String> {
    let Some(editor) = ["VISUAL", "EDITOR"].into_iter().find_map(variable) else {
        print_error("New arguments as one line of JSON (Enter keeps them): ");
        let line = line().await?;
        return Some(line.trim().to_owned()).filter(|line| !line.is_empty());
    };
    match in_editor(&editor, arguments).await {
        Ok(text) => Some(text),
        Err(error) => {
            let error = error.to_string();
            print_error(&format!("nothing was edited: {}\n", escape_line(&error)));
            None
        }
    }
}

/// Returns arguments on several lines, if that changes nothing but blanks.
pub(crate) fn spread(arguments: &Arguments) -> String {
    let text = arguments.as_str();
    let object = serde_json::from_str::<Map<String, Value>>(text);
    let pretty = object.and_then(|object| serde_json::to_string_pretty(&object));
    let without_blanks = |text: &str| text.split_ascii_whitespace().collect::<String>();
    match pretty {
        Ok(pretty) if without_blanks(&pretty) == without_blanks(text) => pretty + "\n",
        _ => text.to_owned(),
    }
}

async fn in_editor(editor: &str, text: &str) -> io::Result<String> {
    let file = PrivateFile::create(text)?;
    let (mut command, path) = (command(editor, &file.path), file.path.clone());
    // The editor owns the terminal until it ends.
    let ended = tokio::task::spawn_blocking(move || command.status());
    let status: ExitStatus = ended.await.map_err(io::Error::other)??;
    if !status.success() {
        return Err(io::Error::other(format!("the editor ended with {status}")));
    }
    std::fs::read_to_string(path)
}

/// Returns the command that opens a file; an editor may have arguments of its own.
fn command(editor: &str, path: &Path) -> Command {
    if cfg!(unix) {
        let mut command = Command::new("sh");
        let script = format!("{editor} \"$@\"");
        command.args(["-c", &script, editor]).arg(path);
        return command;
    }
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(editor));
    command.args(words).arg(path);
    command
}

impl PrivateFile {
    fn create(text: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("logue-{}", new_id()));
        let (mut builder, mut options) = (DirBuilder::new(), OpenOptions::new());
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
            builder.mode(0o700);
            options.mode(0o600);
        }
        builder.create(&folder)?;
        let path = folder.join("arguments.json");
        let file = Self { folder, path };
        options.open(&file.path)?.write_all(text.as_bytes())?;
        Ok(file)
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // Editors leave copies beside the file.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
