//! The pages that are open in a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::page::Page;

/// Pages that are kept, and bytes of all of them.
const PAGES: usize = 32;
const BYTES: usize = 16 * 1024 * 1024;

/// The pages of a run by their cursors, shared by its browser tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    pages: BTreeMap<usize, Arc<Page>>,
    /// The cursor of the next page.
    next: usize,
    /// The page that was looked at last.
    current: Option<usize>,
    bytes: usize,
}

impl Pages {
    /// Keeps a page and gives its cursor. The oldest ones go when there are too many.
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

    /// The page with that cursor, or the one that was looked at last. It is the current one then.
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
