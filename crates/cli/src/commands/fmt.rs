//! `logue fmt`: the canonical layout.

use crate::arguments::FmtArgs;
use crate::exit::{CliError, Exit};
use crate::rewrite::{Options, RewriteResult, rewrite};

pub(crate) fn fmt(arguments: &FmtArgs) -> Result<Exit, CliError> {
    let options = Options {
        write: !arguments.check && !arguments.diff,
        backup: false,
        diff: arguments.diff,
        json: arguments.json,
        from: arguments.from,
        done: "formatted",
        would: "would be formatted",
    };
    rewrite(&arguments.paths, options, &|text| {
        let (text, remaining) = match chatmd::format(text) {
            Ok(text) => (Some(text), Vec::new()),
            Err(errors) => (None, errors),
        };
        RewriteResult {
            text,
            changes: Vec::new(),
            remaining,
        }
    })
}
