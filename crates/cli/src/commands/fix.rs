//! `logue fix`: repairs of damaged transcripts.

use crate::arguments::FixArgs;
use crate::exit::{Exit, Failure};
use crate::rewrite::{Made, Options, rewrite};

pub(crate) fn fix(arguments: &FixArgs) -> Result<Exit, Failure> {
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
        Made {
            text: Some(repair.text),
            changes: repair.changes,
            remaining: repair.remaining,
        }
    })
}
