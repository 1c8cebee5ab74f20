//! `search`: lines of files that a regular expression matches.
//!
//! The tree, the files and the expression may be hostile. The expression is of a kind that needs
//! time linear in the text, and its size is limited; a line, a file, the tree, the answer and the
//! time have limits too, and an answer that a limit cut says so. The files come in the order of
//! their paths, so the same search gives the same answer.

mod rules;
mod scan;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::arguments::ArgumentReader;
use super::blocking;
use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

use scan::{Query, Scan};

/// What one search may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// Files and folders that are looked at.
    pub entries: usize,
    /// Bytes of a file that is searched; larger ones are left out.
    pub file_bytes: u64,
    /// Bytes of a line that are searched, from its beginning.
    pub line_bytes: usize,
    /// Matches that a call may ask for.
    pub matches: usize,
    /// Bytes of the answer.
    pub output_bytes: usize,
    /// Time until the search stops.
    pub time: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            entries: 200_000,
            file_bytes: 4 * 1024 * 1024,
            line_bytes: 32 * 1024,
            matches: 2_000,
            output_bytes: 128 * 1024,
            time: Duration::from_secs(10),
        }
    }
}

/// Matches of a call that does not say how many it wants.
const MATCHES: usize = 200;

/// Lines of context that a call may ask for.
const CONTEXT: usize = 10;

/// Bytes of an expression and of a glob.
const PATTERN: usize = 4_096;

/// Searches the files below the roots.
#[derive(Clone, Debug)]
pub struct Search {
    definition: ToolDefinition,
    roots: Arc<Roots>,
    limits: SearchLimits,
}

impl Search {
    /// A search confined to `roots`.
    pub fn new(roots: Arc<Roots>) -> Self {
        let description = "Finds the lines that a regular expression matches, in all files of the folders that \
             may be read. The answer has a line `file:line: text` for each. Hidden files, files that \
             .gitignore or .ignore name, binary files and links are left out.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The regular expression, held against each line; without backreferences and lookaround"},
                "path": {"type": "string", "description": "The folder or file to search; all if absent"},
                "glob": {"type": "string", "description": "Which files to search, such as *.rs or src/**/*.md; with ! in front which not"},
                "ignore_case": {"type": "boolean", "description": "Whether a and A are the same"},
                "context": {"type": "integer", "minimum": 0, "maximum": CONTEXT, "description": "Lines to show around each match; 0 if absent"},
                "max_results": {"type": "integer", "minimum": 1, "description": format!("Matches to stop after; {MATCHES} if absent")},
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("search", description, parameters),
            roots,
            limits: SearchLimits::default(),
        }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: SearchLimits) -> Self {
        self.limits = limits;
        self
    }

    fn search(&self, arguments: &Arguments, cancelled: &AtomicBool) -> Result<String, String> {
        let query = self.query(arguments)?;
        Scan::new(&query, &self.roots, &self.limits, cancelled).run()
    }

    fn query(&self, arguments: &Arguments) -> Result<Query, String> {
        let known = [
            "pattern",
            "path",
            "glob",
            "ignore_case",
            "context",
            "max_results",
        ];
        let given = ArgumentReader::read(arguments, &known)?;
        let pattern = given.text(&["pattern"])?;
        let glob = given.optional_text("glob")?.filter(|glob| !glob.is_empty());
        if pattern.len().max(glob.map_or(0, str::len)) > PATTERN {
            return Err(format!(
                "E-CALL-SCHEMA: pattern: expressions and globs have at most {PATTERN} bytes"
            ));
        }
        let context = given.number("context")?.unwrap_or(0);
        if context > CONTEXT {
            return Err(format!(
                "E-CALL-SCHEMA: context: at most {CONTEXT} lines are shown around a match"
            ));
        }
        let most = given.number("max_results")?.unwrap_or(MATCHES);
        if most == 0 {
            return Err("E-CALL-SCHEMA: max_results: must be at least 1".to_owned());
        }
        let path = given.optional_text("path")?;
        Ok(Query {
            regex: scan::compile(pattern, given.flag("ignore_case")?)?,
            glob: glob.map(str::to_owned),
            path: path.filter(|path| !path.is_empty()).map(str::to_owned),
            context,
            most: most.min(self.limits.matches),
        })
    }
}

impl Tool for Search {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        let cancel = Cancel(Arc::new(AtomicBool::new(false)));
        let cancelled = Arc::clone(&cancel.0);
        let searched = blocking(move || tool.search(&arguments, &cancelled));
        Box::pin(async move {
            let _cancel = cancel;
            searched.await
        })
    }
}

/// Ends the search when the call is dropped: a thread that is blocked in it cannot be.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
