//! `logue fix`: repairs of damaged transcripts.

use crate::arguments::FixArgs;
use crate::exit::{CliError, Exit};
use crate::rewrite::{Options, RewriteResult, rewrite};

pub(crate) fn fix(arguments: &FixArgs) -> Result<Exit, CliError> {
    let options = Options {
        write: !arguments.check && !arguments.diff,
        backup: !arguments.no_backup,
        diff: arguments.diff,
        json: arguments.json,
        from: arguments.from,
        done: "repaired",
        would: "would be repaired",
    };
    rewrite(&arguments.paths, options, &|text| {
        let repair = chatmd::repair(text);
        RewriteResult {
            text: Some(repair.text),
            changes: repair.changes,
            remaining: repair.remaining,
        }
    })
}
