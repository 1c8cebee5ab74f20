//! `cargo xtask bench stream`: a streamed answer beside other programs.

use std::ffi::OsString;
use std::path::Path;

use super::turn::find;

/// The peers: the program, and the variable that names it if it is not on the PATH.
const PEERS: [(&str, &str); 2] = [("aichat", "AICHAT"), ("llm", "LLM")];

pub(super) fn bench(root: &Path, arguments: &[&str]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask bench stream".to_owned());
    }
    let programs = super::build(root)?;
    let peer = |(name, variable)| find(name, variable).map_or("-".into(), OsString::from);
    let own = std::iter::once(programs.logue.into_os_string());
    let words: Vec<OsString> = own.chain(PEERS.map(peer)).collect();
    super::print_table(root, &programs.bench, "stream", &words)
}
