//! `search`: finds the lines of files that match a regular expression.
//!
//! The directory tree, the files and the expression may be hostile. Expressions need time linear in
//! the text and have a size limit. Lines, files, the tree, the result and the time have limits too,
//! and a truncated result has a note. Files are searched in the order of their paths, so results
//! are reproducible.

mod rules;
mod scan;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::Builtin;
use super::arguments::ArgumentReader;
use super::blocking::blocking;
use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

use scan::{Query, Scan};

/// The limits of one search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchLimits {
    /// Number of files and directories visited.
    pub entries: usize,
    /// Size in bytes of a searched file; larger files are skipped.
    pub file_bytes: u64,
    /// Number of bytes searched per line, from its start.
    pub line_bytes: usize,
    /// Number of matches that a call may request.
    pub matches: usize,
    /// Size of the result in bytes.
    pub output_bytes: usize,
    /// Time limit.
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

impl SearchLimits {
    /// Sets the number of files and directories visited.
    #[must_use]
    pub const fn with_entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// Sets the maximum size of a searched file in bytes.
    #[must_use]
    pub const fn with_file_bytes(mut self, file_bytes: u64) -> Self {
        self.file_bytes = file_bytes;
        self
    }

    /// Sets the number of bytes searched per line.
    #[must_use]
    pub const fn with_line_bytes(mut self, line_bytes: usize) -> Self {
        self.line_bytes = line_bytes;
        self
    }

    /// Sets the number of matches that a call may request.
    #[must_use]
    pub const fn with_matches(mut self, matches: usize) -> Self {
        self.matches = matches;
        self
    }

    /// Sets the maximum size of the result in bytes.
    #[must_use]
    pub const fn with_output_bytes(mut self, output_bytes: usize) -> Self {
        self.output_bytes = output_bytes;
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

/// Default number of matches.
const DEFAULT_MATCHES: usize = 200;

/// Maximum number of context lines.
const MAX_CONTEXT: usize = 10;

/// Maximum size of an expression or glob in bytes.
const MAX_PATTERN_BYTES: usize = 4_096;

/// Searches the files below the roots.
#[derive(Clone, Debug)]
pub struct Search {
    definition: ToolDefinition,
    roots: Arc<Roots>,
    limits: SearchLimits,
}

impl Search {
    /// Creates a tool confined to `roots`.
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
                "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "Lines to show around each match; 0 if absent"},
                "max_results": {"type": "integer", "minimum": 1, "description": format!("Matches to stop after; {DEFAULT_MATCHES} if absent")},
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

    /// Sets the limits.
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
        if pattern.len().max(glob.map_or(0, str::len)) > MAX_PATTERN_BYTES {
            return Err(format!(
                "E-CALL-SCHEMA: pattern: expressions and globs have at most {MAX_PATTERN_BYTES} bytes"
            ));
        }
        let context = given.number("context")?.unwrap_or(0);
        if context > MAX_CONTEXT {
            return Err(format!(
                "E-CALL-SCHEMA: context: at most {MAX_CONTEXT} lines are shown around a match"
            ));
        }
        let limit = given.number("max_results")?.unwrap_or(DEFAULT_MATCHES);
        if limit == 0 {
            return Err("E-CALL-SCHEMA: max_results: must be at least 1".to_owned());
        }
        let path = given.optional_text("path")?;
        Ok(Query {
            regex: scan::compile(pattern, given.flag("ignore_case")?)?,
            glob: glob.map(str::to_owned),
            path: path.filter(|path| !path.is_empty()).map(str::to_owned),
            context,
            most: limit.min(self.limits.matches),
        })
    }
}

impl Tool for Search {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_read_only(&self) -> bool {
        Builtin::Search.is_read_only()
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

/// Stops the search on drop, because the blocked thread cannot be cancelled.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
