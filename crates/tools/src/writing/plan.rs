//! Planned changes of a call: preview, fingerprint and execution.

use std::fs::Metadata;
use std::io::Read as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use super::diff::{BoundedText, Difference};
use super::{Change, MAX_FILE_BYTES, commit};
use crate::{AccessScope, Preview};
use logue_source::escape_unambiguous;

/// Maximum size of a preview in bytes.
const MAX_PREVIEW_BYTES: usize = 128 * 1024;

/// The fingerprint of a call that would fail; no plan has it.
const FAILS: &str = "fails";

/// Changes that are made together.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The changes, one per file.
    pub(crate) changes: Vec<Change>,
    /// The result that the model gets after the changes are made.
    pub(crate) report: String,
}

impl Plan {
    /// Makes the changes if they are the approved ones.
    ///
    /// # Errors
    /// Returns a text for the model if the fingerprint differs from the approved one, or if a file
    /// cannot be written.
    pub(crate) fn carry_out(
        self,
        scope: &AccessScope,
        approved: Option<&str>,
    ) -> Result<String, String> {
        if let Some(approved) = approved
            && self.fingerprint(&self.before()?, scope) != approved
        {
            let names = self
                .changes
                .iter()
                .map(|change| change.target.asked.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{names}: changed since this call was approved, so the call would do something else \
                 than what was shown. Nothing was changed; call again if it shall still be done"
            ));
        }
        commit(scope, &self.changes)?;
        Ok(self.report)
    }

    /// Returns the text that a person reads before approving the call.
    pub(crate) fn preview(plan: Result<Self, String>, scope: &AccessScope) -> Preview {
        let planned = plan.and_then(|plan| {
            let before = plan.before()?;
            Ok((plan, before))
        });
        match planned {
            Ok((plan, before)) => Preview::new(plan.text(&before, scope))
                .with_fingerprint(plan.fingerprint(&before, scope)),
            Err(reason) => Preview::new(format!(
                "The call would fail: {}\n",
                escape_unambiguous(&reason)
            ))
            .with_fingerprint(FAILS),
        }
    }

    /// Reads the current contents of the files.
    fn before(&self) -> Result<Vec<Before>, String> {
        self.changes.iter().map(Before::read).collect()
    }

    fn text(&self, before: &[Before], scope: &AccessScope) -> String {
        if self.changes.is_empty() {
            return "Nothing would change.\n".to_owned();
        }
        let mut out = BoundedText::new(MAX_PREVIEW_BYTES);
        for (change, before) in self.changes.iter().zip(before) {
            write_change(change, before, scope, &mut out);
        }
        out.finish()
    }

    /// Returns a digest of the paths, the current contents and the new contents.
    ///
    /// Paths are relative to their root, since another machine may resume the turn.
    fn fingerprint(&self, before: &[Before], scope: &AccessScope) -> String {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        for (change, before) in self.changes.iter().zip(before) {
            let (root, path) = place(&change.target.real, scope);
            part(&(root as u64).to_le_bytes());
            part(path.as_os_str().as_encoded_bytes());
            match before {
                Before::Absent => part(b"absent"),
                Before::Content(content) => {
                    part(b"content");
                    part(content);
                }
                Before::Large(metadata) => {
                    part(b"large");
                    part(&metadata.len().to_le_bytes());
                    let modified = metadata.modified().ok();
                    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                    part(&since.unwrap_or_default().as_nanos().to_le_bytes());
                }
            }
            match &change.content {
                None => part(b"removed"),
                Some(content) => {
                    part(b"becomes");
                    part(content);
                }
            }
        }
        format!("sha256:{:x}", digest.finalize())
    }
}

/// Returns the number of a file's root and the path below it.
fn place<'p>(real: &'p Path, scope: &AccessScope) -> (usize, &'p Path) {
    let mut roots = scope.roots.folders().iter().enumerate();
    let found = roots.find_map(|(at, root)| Some((at, real.strip_prefix(root).ok()?)));
    found.unwrap_or((usize::MAX, real))
}

fn size(bytes: usize, lines: usize) -> String {
    let ending = |count: usize| if count == 1 { "" } else { "s" };
    let (byte_ending, line_ending) = (ending(bytes), ending(lines));
    format!("{bytes} byte{byte_ending}, {lines} line{line_ending}")
}

/// Returns the numbers of added and removed lines between two contents.
pub(crate) fn lines_changed(old: &[u8], new: &[u8]) -> (usize, usize) {
    Difference::between(old, new).counts()
}

/// The content of a file before a change.
enum Before {
    Absent,
    Content(Vec<u8>),
    /// More than [`MAX_FILE_BYTES`]: the file can only be removed.
    Large(Metadata),
}

impl Before {
    fn read(change: &Change) -> Result<Self, String> {
        let target = &change.target;
        let Some(metadata) = &target.metadata else {
            return Ok(Self::Absent);
        };
        let unreadable = |error| target.unreadable(&error);
        let file = target.open().map_err(unreadable)?;
        let mut content = Vec::new();
        file.take(MAX_FILE_BYTES as u64 + 1)
            .read_to_end(&mut content)
            .map_err(unreadable)?;
        if content.len() > MAX_FILE_BYTES {
            return Ok(Self::Large(metadata.clone()));
        }
        Ok(Self::Content(content))
    }
}

/// Writes the change of one file: a summary line, then the diff.
fn write_change(change: &Change, before: &Before, scope: &AccessScope, out: &mut BoundedText) {
    let target = &change.target;
    let name = display_name(change, scope);
    let asked = escape_unambiguous(&target.asked);
    let lead = if name == asked {
        name.clone()
    } else {
        format!("{asked} (which is {name})")
    };
    let empty = Vec::new();
    let (old, from) = match before {
        Before::Absent => (&empty, "/dev/null".to_owned()),
        Before::Content(content) => (content, format!("a/{name}")),
        Before::Large(metadata) => {
            let size = metadata.len();
            let line = format!("{lead}: is removed ({size} bytes, too large to be shown)");
            return out.line(b"", line.as_bytes());
        }
    };
    let (new, to) = match &change.content {
        None => (&empty, "/dev/null".to_owned()),
        Some(content) => (content, format!("b/{name}")),
    };
    let difference = Difference::between(old, new);
    let (added, removed) = difference.counts();
    let what = match (before, &change.content) {
        (Before::Absent, _) => format!("is created ({})", size(new.len(), added)),
        (_, None) => format!("is removed ({})", size(old.len(), removed)),
        _ if old == new => "stays as it is".to_owned(),
        _ => format!("changes (+{added} -{removed} lines)"),
    };
    let binary = match (is_text(old), is_text(new)) {
        (true, true) => "",
        (false, true) => "; it is not text now",
        (true, false) => "; it is not text then",
        (false, false) => "; it is not text",
    };
    out.line(b"", format!("{lead}: {what}{binary}").as_bytes());
    if added + removed > 0 {
        out.line(b"", format!("--- {from}").as_bytes());
        out.line(b"", format!("+++ {to}").as_bytes());
        difference.write(out);
    }
}

fn is_text(content: &[u8]) -> bool {
    !content.contains(&0) && std::str::from_utf8(content).is_ok()
}

/// Returns the path relative to the first root, or the absolute path outside it.
fn display_name(change: &Change, scope: &AccessScope) -> String {
    let real = &change.target.real;
    let below = real.strip_prefix(scope.roots.base()).unwrap_or(real);
    let mut name = String::new();
    name.push_str(&escape_unambiguous(below.as_os_str().as_encoded_bytes()));
    name
}
