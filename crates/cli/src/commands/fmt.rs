//! `logue fmt`: the canonical layout.

use crate::arguments::FmtArgs;
use crate::exit::{Exit, Failure};
use crate::rewrite::{Made, Options, rewrite};

pub(crate) fn fmt(arguments: &FmtArgs) -> Result<Exit, Failure> {
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
        Made {
            text,
            changes: Vec::new(),
            remaining,
        }
    })
}
