//! Execution of one search and its report.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ignore::overrides::{Override, OverrideBuilder};
use regex::bytes::{Regex, RegexBuilder};

use super::SearchLimits;
use super::walk::{Step, Walk};
use crate::hidden_files::HiddenNow;
use crate::roots::PlaceEntry;
use crate::{FolderHandle, RootError, Roots};
use logue_source::escape_unambiguous;

/// Maximum size of a compiled expression in bytes.
const COMPILED: usize = 1024 * 1024;

/// Maximum length of an expression quoted in an error.
const SHORT: usize = 200;

/// Maximum nesting of groups.
const NESTED: u32 = 64;

/// Number of bytes examined to distinguish text from binary content.
const PROBE: usize = 8_000;

/// Maximum number of bytes shown of a line, and of those before the match.
const LINE: usize = 500;
const BEFORE: usize = 100;

/// The query of a search.
pub(super) struct Query {
    pub(super) regex: Regex,
    pub(super) glob: Option<String>,
    pub(super) path: Option<String>,
    pub(super) context: usize,
    pub(super) most: usize,
}

/// Compiles an expression that matches in linear time.
pub(super) fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .nest_limit(NESTED)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                "E-CALL-SCHEMA: pattern: the expression is too large; search for less at once"
                    .to_owned()
            }
            error => {
                let why = error.to_string();
                // A report that quotes the expression is readable only if the expression is short.
                let last = why.lines().next_back().unwrap_or_default();
                let why = if pattern.len() > SHORT { last } else { &why };
                format!("E-CALL-SCHEMA: pattern: {why}")
            }
        })
}

pub(super) struct Scan<'a> {
    query: &'a Query,
    roots: &'a Roots,
    limits: &'a SearchLimits,
    cancelled: &'a AtomicBool,
    started: Instant,
    entries: usize,
    matches: usize,
    files: usize,
    searched: usize,
    left_out: LeftOut,
    /// The files that are not searched.
    hidden: HiddenNow,
    out: String,
}

/// Entries that were skipped for other reasons than ignore rules.
#[derive(Default)]
struct LeftOut {
    binary: usize,
    large: usize,
    unreadable: usize,
    links: usize,
    long_lines: usize,
}

/// The reason why a search stopped early.
struct Stop(String);

impl<'a> Scan<'a> {
    pub(super) fn new(
        query: &'a Query,
        roots: &'a Roots,
        limits: &'a SearchLimits,
        cancelled: &'a AtomicBool,
    ) -> Self {
        Self {
            query,
            roots,
            limits,
            cancelled,
            started: Instant::now(),
            entries: 0,
            matches: 0,
            files: 0,
            searched: 0,
            left_out: LeftOut::default(),
            hidden: roots.hidden_now(),
            out: String::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<String, String> {
        let stopped = match &self.query.path {
            Some(path) => {
                let place = self.roots.find(path).map_err(|error| error.to_string())?;
                let found = place.path();
                match place.entry {
                    PlaceEntry::Folder => self.tree(&place.trail)?,
                    PlaceEntry::File { metadata, .. }
                        if self.hidden.contains(&found, &metadata) =>
                    {
                        return Err(RootError::Hidden(path.clone()).to_string());
                    }
                    PlaceEntry::File { file, metadata, .. } => {
                        self.opened(&found, file, metadata.len())
                    }
                    PlaceEntry::Other => return Err(format!("{path}: is not a regular file")),
                    PlaceEntry::Absent { .. } | PlaceEntry::Nowhere(_) => {
                        return Err(RootError::NotFound(path.clone()).to_string());
                    }
                }
            }
            None => self.all()?,
        };
        Ok(self.report(stopped.err()))
    }

    /// Searches all roots in their order; a root inside another is searched once.
    fn all(&mut self) -> Result<Result<(), Stop>, String> {
        let roots = self.roots;
        for root in roots.handles() {
            let within = |other: &FolderHandle| {
                other.path() != root.path() && root.path().starts_with(other.path())
            };
            if roots.handles().any(|other| within(other)) {
                continue;
            }
            if let Err(stop) = self.tree(std::slice::from_ref(root))? {
                return Ok(Err(stop));
            }
        }
        Ok(Ok(()))
    }

    /// Searches the last directory of `trail`, which begins with a root.
    fn tree(&mut self, trail: &[Arc<FolderHandle>]) -> Result<Result<(), Stop>, String> {
        let chosen = self.chosen(trail)?;
        let mut walk = Walk::new(trail, self.limits.entries).map_err(|error| {
            let folder = trail.last().map_or(Path::new(""), |last| last.path());
            format!("{}: cannot be read: {error}", self.name(folder))
        })?;
        while let Some(step) = walk.step() {
            if let Err(stop) = self.look(step, &chosen) {
                return Ok(Err(stop));
            }
        }
        Ok(Ok(()))
    }

    /// Compiles the glob of the call; without one, all files match.
    fn chosen(&self, trail: &[Arc<FolderHandle>]) -> Result<Override, String> {
        let root = trail.first().map_or(Path::new(""), |root| root.path());
        let mut chosen = OverrideBuilder::new(root);
        let wrong = |error: ignore::Error| format!("E-CALL-SCHEMA: glob: {error}");
        if let Some(glob) = &self.query.glob {
            chosen.add(glob).map_err(wrong)?;
        }
        chosen.build().map_err(wrong)
    }

    fn look(&mut self, step: Step, chosen: &Override) -> Result<(), Stop> {
        self.entries += 1;
        self.in_time()?;
        match step {
            Step::File(found) if chosen.matched(&found.path, false).is_ignore() => {}
            Step::File(found) => match found.open() {
                Ok((_, metadata)) if self.hidden.contains(&found.path, &metadata) => {
                    self.left_out.unreadable += 1;
                }
                Ok((file, metadata)) => self.opened(&found.path, file, metadata.len())?,
                Err(_) => self.left_out.unreadable += 1,
            },
            Step::Link => self.left_out.links += 1,
            Step::Unreadable => self.left_out.unreadable += 1,
            Step::Passed => {}
        }
        if self.entries >= self.limits.entries {
            let most = self.limits.entries;
            return Err(Stop(format!("after {most} files and folders")));
        }
        Ok(())
    }

    fn opened(&mut self, path: &Path, file: std::fs::File, size: u64) -> Result<(), Stop> {
        if size > self.limits.file_bytes {
            self.left_out.large += 1;
            return Ok(());
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read.
        let read = file.take(self.limits.file_bytes).read_to_end(&mut bytes);
        if read.is_err() {
            self.left_out.unreadable += 1;
            return Ok(());
        }
        if bytes.iter().take(PROBE).any(|byte| *byte == 0) {
            self.left_out.binary += 1;
            return Ok(());
        }
        self.searched += 1;
        self.lines(path, &bytes)
    }

    fn lines(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Stop> {
        let before = self.matches;
        let name = self.name(path);
        let context = self.query.context;
        let mut lines = Vec::new();
        // The end of the requested context, and the end of the lines already written.
        let (mut wanted, mut written) = (0, 0);
        let mut ended = Ok(());
        for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            lines.push(line);
            let found = match &ended {
                Ok(()) => {
                    self.in_time()?;
                    self.find(line)
                }
                // Only the context of the last match remains.
                Err(_) if at >= wanted => break,
                Err(_) => None,
            };
            let Some(found) = found else {
                if at < wanted {
                    self.write(&name, at, '-', line, 0)?;
                    written = at + 1;
                }
                continue;
            };
            let first = at.saturating_sub(context).max(written);
            if context > 0 && !self.out.is_empty() && (first > written || written == 0) {
                self.out.push_str("--\n");
            }
            for (before, line) in lines.iter().enumerate().take(at).skip(first) {
                self.write(&name, before, '-', line, 0)?;
            }
            self.write(&name, at, ':', line, found)?;
            (written, wanted) = (at + 1, at + 1 + context);
            self.matches += 1;
            if self.matches >= self.query.most {
                let most = self.query.most;
                ended = Err(Stop(format!("after {most} matches")));
            }
        }
        self.files += usize::from(self.matches > before);
        ended
    }

    /// Returns the start of the first match in a line.
    fn find(&mut self, line: &[u8]) -> Option<usize> {
        let searched = line.get(..self.limits.line_bytes);
        self.left_out.long_lines +=
            usize::from(searched.is_some_and(|part| part.len() < line.len()));
        let found = self.query.regex.find(searched.unwrap_or(line))?;
        Some(found.start())
    }

    fn in_time(&self) -> Result<(), Stop> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Stop("because the call was cancelled".to_owned()));
        }
        if self.started.elapsed() > self.limits.time {
            let most = self.limits.time.as_secs_f64();
            return Err(Stop(format!("after {most} s")));
        }
        Ok(())
    }

    /// Writes a line; a long line is shortened around the match.
    fn write(
        &mut self,
        name: &str,
        at: usize,
        mark: char,
        line: &[u8],
        found: usize,
    ) -> Result<(), Stop> {
        let mut from = if line.len() > LINE {
            found.saturating_sub(BEFORE)
        } else {
            0
        };
        let mut to = (from + LINE).min(line.len());
        // Characters are not split.
        let within = |at: usize| line.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        while from > 0 && within(from) && found - from < BEFORE + 4 {
            from -= 1;
        }
        while to > from && within(to) {
            to -= 1;
        }
        let text = String::from_utf8_lossy(line.get(from..to).unwrap_or_default());
        let (head, tail) = (
            if from > 0 { "[…] " } else { "" },
            if to < line.len() { " […]" } else { "" },
        );
        let line = format!("{name}{mark}{}{mark} {head}{text}{tail}\n", at + 1);
        if self.out.len() + line.len() > self.limits.output_bytes {
            let most = self.limits.output_bytes;
            return Err(Stop(format!("because the answer has {most} bytes")));
        }
        self.out.push_str(&line);
        Ok(())
    }

    /// Returns the path relative to the first root, or the absolute path outside it.
    fn name(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.roots.base()).unwrap_or(path);
        let mut name = String::new();
        name.push_str(&escape_unambiguous(below.as_os_str().as_encoded_bytes()));
        name
    }

    fn report(mut self, stopped: Option<Stop>) -> String {
        let summary = match self.matches {
            0 => format!("no match in {}\n", many(self.searched, "file")),
            _ => format!(
                "{} in {}\n",
                self.matches_told(),
                many(self.files.max(1), "file")
            ),
        };
        self.out.push_str(&summary);
        if let Some(Stop(why)) = stopped {
            self.out.push_str(&format!(
                "[the search stopped {why}; there may be more. Give a narrower `path`, `glob` or \
                 `pattern`]\n"
            ));
        }
        let LeftOut {
            binary,
            large,
            unreadable,
            links,
            long_lines,
        } = self.left_out;
        let file_bytes = self.limits.file_bytes;
        let left = [
            (binary, many(binary, "binary file")),
            (
                large,
                format!("{} larger than {file_bytes} bytes", many(large, "file")),
            ),
            (unreadable, many(unreadable, "unreadable entry")),
            (links, many(links, "link")),
            (
                long_lines,
                format!(
                    "what follows {} bytes in {}",
                    self.limits.line_bytes,
                    many(long_lines, "line")
                ),
            ),
        ];
        let left: Vec<String> = left
            .into_iter()
            .filter_map(|(count, text)| (count > 0).then_some(text))
            .collect();
        if !left.is_empty() {
            self.out
                .push_str(&format!("[not searched: {}]\n", left.join(", ")));
        }
        self.out
    }

    fn matches_told(&self) -> String {
        match self.matches {
            1 => "1 match".to_owned(),
            count => format!("{count} matches"),
        }
    }
}

fn many(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (count, Some(stem)) => format!("{count} {stem}ies"),
        (count, None) => format!("{count} {what}s"),
    }
}
