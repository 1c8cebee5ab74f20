//! The open pages of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::page::Page;

/// Maximum number of open pages, and their maximum total size in bytes.
const PAGES: usize = 32;
const BYTES: usize = 16 * 1024 * 1024;

/// The pages of a run by cursor, shared by its browser tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    pages: BTreeMap<usize, Arc<Page>>,
    /// The cursor of the next page.
    next: usize,
    /// The page used last.
    current: Option<usize>,
    bytes: usize,
}

impl Pages {
    /// Stores a page and returns its cursor. The oldest pages are dropped above the limits.
    pub(super) fn add(&self, page: Arc<Page>) -> usize {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = open.next;
        open.next += 1;
        open.current = Some(cursor);
        open.bytes += page.size();
        open.pages.insert(cursor, page);
        while open.pages.len() > PAGES || (open.bytes > BYTES && open.pages.len() > 1) {
            if let Some((_, oldest)) = open.pages.pop_first() {
                open.bytes -= oldest.size();
            }
        }
        cursor
    }

    /// Returns the page with that cursor, or the last one, and makes it current.
    pub(super) fn get(&self, cursor: Option<usize>) -> Result<(usize, Arc<Page>), String> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = cursor
            .or(open.current)
            .ok_or("no page is open; open one by its `url` first")?;
        let page = open.pages.get(&cursor).cloned().ok_or_else(|| {
            if cursor < open.next {
                format!("page [{cursor}] is not kept any more; open its address again")
            } else {
                let cursors: Vec<String> = open.pages.keys().map(usize::to_string).collect();
                let cursors = cursors.join(", ");
                format!("there is no page [{cursor}]; open are: {cursors}")
            }
        })?;
        open.current = Some(cursor);
        Ok((cursor, page))
    }
}
