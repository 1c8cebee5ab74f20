//! The value of a list field: a persistent vector whose versions share their items.
//!
//! A conversation is a list that grows at its end while older versions of it are still in use: by
//! the node that reads it, by an observer that compares before and after, by the session that would
//! roll back to it. A plain vector with one reference count is copied as soon as a second holder
//! exists. This one is a tree of 32-way branches with a tail, so that a clone is a reference count.
//! An append copies at most the tail's pointers and one path of the tree, and copies nothing if the
//! list has no other holder. Items are never copied.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The bits of an index that one level of the tree consumes.
const BITS: u32 = 5;
/// The number of items in a full leaf, and of children of a full branch.
const WIDTH: usize = 1 << BITS;

/// An ordered list that is cheap to clone and cheap to append to.
///
/// Its items are JSON values, or values of any other type.
///
/// Cloning is O(1). [`push`](Self::push) is O(1) amortised in the number of items, whether or not
/// clones exist, and never copies an item. [`get`](Self::get) is O(log₃₂ n).
///
/// ```
/// use logue_graph::List;
/// use serde_json::json;
///
/// let old: List = vec![json!("a"), json!("b")].into();
/// let mut new = old.clone();
/// new.push(json!("c"));
/// assert_eq!((old.len(), new.len()), (2, 3));
/// assert!(std::ptr::eq(old.get(0).unwrap(), new.get(0).unwrap()));
/// ```
pub struct List<T = Value> {
    len: usize,
    /// The number of levels above the leaves: 0 is a tree without a leaf.
    height: u32,
    root: Arc<Vec<Tree<T>>>,
    tail: Arc<Vec<Arc<T>>>,
}

enum Tree<T> {
    Branch(Arc<Vec<Tree<T>>>),
    Leaf(Arc<Vec<Arc<T>>>),
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Branch(below) => Self::Branch(Arc::clone(below)),
            Self::Leaf(items) => Self::Leaf(Arc::clone(items)),
        }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self {
            len: self.len,
            height: self.height,
            root: Arc::clone(&self.root),
            tail: Arc::clone(&self.tail),
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            len: 0,
            height: 0,
            root: Arc::default(),
            tail: Arc::default(),
        }
    }
}

impl<T> List<T> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the list has no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the item at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.item(index).map(|item| &**item)
    }

    /// Returns the item at `index`, which outlives the list without a copy.
    pub fn get_shared(&self, index: usize) -> Option<Arc<T>> {
        self.item(index).cloned()
    }

    /// Returns the last item.
    pub fn last(&self) -> Option<&T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Appends an item.
    pub fn push(&mut self, item: impl Into<Arc<T>>) {
        if self.tail.len() == WIDTH {
            let full = std::mem::take(&mut self.tail);
            self.plant(full);
        }
        Arc::make_mut(&mut self.tail).push(item.into());
        self.len += 1;
    }

    /// Returns the items in order.
    ///
    /// `iter().skip(n)` costs the items that follow, not the skipped ones.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            list: self,
            front: 0,
            back: self.len,
        }
    }

    /// Returns the items, shared.
    pub fn shared(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        self.shared_from(0)
    }

    /// Returns the items from an index, shared. Costs those items only.
    pub fn shared_from(&self, start: usize) -> impl Iterator<Item = Arc<T>> + '_ {
        (start..self.len).map_while(|index| self.get_shared(index))
    }

    /// Replaces one item; an index beyond the end does nothing.
    ///
    /// Costs O(log₃₂ n): the pointers on the path to the item, where other versions share them.
    pub(crate) fn replace(&mut self, index: usize, item: impl Into<Arc<T>>) {
        if index >= self.len {
            return;
        }
        let tail_start = self.len - self.tail.len();
        let slot = if let Some(in_tail) = index.checked_sub(tail_start) {
            Arc::make_mut(&mut self.tail).get_mut(in_tail)
        } else {
            leaf_of(&mut self.root, self.height, index >> BITS)
                .and_then(|leaf| leaf.get_mut(index & (WIDTH - 1)))
        };
        if let Some(slot) = slot {
            *slot = item.into();
        }
    }

    /// Appends the items of `new` and keeps the last `bound` items.
    pub(crate) fn append_bounded(&mut self, new: &Self, bound: usize) {
        let kept = bound.saturating_sub(new.len());
        if self.len > kept {
            let from = self.len - kept;
            *self = self.shared_from(from).collect();
        }
        self.extend(new.shared_from(new.len().saturating_sub(bound)));
    }

    fn item(&self, index: usize) -> Option<&Arc<T>> {
        if index >= self.len {
            return None;
        }
        let tail_start = self.len - self.tail.len();
        if let Some(in_tail) = index.checked_sub(tail_start) {
            return self.tail.get(in_tail);
        }
        let mut children = &self.root;
        for level in (0..self.height).rev() {
            match children.get(digit(index >> BITS, level))? {
                Tree::Branch(below) => children = below,
                Tree::Leaf(items) => return items.get(index & (WIDTH - 1)),
            }
        }
        None
    }

    /// Adds a full leaf after the last one. `self.len` counts the leaf's items.
    fn plant(&mut self, leaf: Arc<Vec<Arc<T>>>) {
        let number = self.len / WIDTH - 1;
        if self.height == 0 {
            self.height = 1;
        } else if number >> (BITS * self.height) > 0 {
            let old = std::mem::take(&mut self.root);
            self.root = Arc::new(vec![Tree::Branch(old)]);
            self.height += 1;
        }
        let mut children = &mut self.root;
        for level in (1..self.height).rev() {
            let branch = Arc::make_mut(children);
            let slot = digit(number, level);
            if slot == branch.len() {
                branch.push(Tree::Branch(Arc::default()));
            }
            match branch.get_mut(slot) {
                Some(Tree::Branch(below)) => children = below,
                Some(Tree::Leaf(_)) | None => unreachable!("leaves hang on the lowest level only"),
            }
        }
        Arc::make_mut(children).push(Tree::Leaf(leaf));
    }
}

impl List {
    /// Returns a copy of all items as a JSON array.
    pub fn to_json(&self) -> Value {
        Value::Array(self.iter().cloned().collect())
    }
}

/// Returns the leaf of that number, unshared from other versions.
fn leaf_of<T>(
    root: &mut Arc<Vec<Tree<T>>>,
    height: u32,
    number: usize,
) -> Option<&mut Vec<Arc<T>>> {
    let mut children = root;
    for level in (0..height).rev() {
        match Arc::make_mut(children).get_mut(digit(number, level))? {
            Tree::Branch(below) => children = below,
            Tree::Leaf(items) => return Some(Arc::make_mut(items)),
        }
    }
    None
}

/// Returns the child on the path to leaf `number` at `level`; 0 is the lowest.
fn digit(number: usize, level: u32) -> usize {
    (number >> (BITS * level)) & (WIDTH - 1)
}

impl<T, A: Into<Arc<T>>> Extend<A> for List<T> {
    fn extend<I: IntoIterator<Item = A>>(&mut self, items: I) {
        for item in items {
            self.push(item);
        }
    }
}

impl<T, A: Into<Arc<T>>> FromIterator<A> for List<T> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The items of a [`List`] in order.
#[derive(Debug)]
pub struct Iter<'a, T = Value> {
    list: &'a List<T>,
    front: usize,
    back: usize,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<&'a T> {
        let index = self.front.saturating_add(skipped).min(self.back);
        if index == self.back {
            self.front = self.back;
            return None;
        }
        self.front = index + 1;
        self.list.get(index)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.back - self.front;
        (left, Some(left))
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        self.back -= 1;
        self.list.get(self.back)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}
