//! Trees of nodes, from which the page builds its elements.

use serde_json::{Map, Value, json};

/// The deepest nesting of a tree. Deeper elements lend their content to their parents.
const MAX_DEPTH: usize = 24;
/// The most nodes of a tree.
pub(super) const MAX_NODES: usize = 20_000;

/// A tree of nodes that is being built.
///
/// A node is a text, or an element `{"tag", …attributes, "children"}`.
pub(super) struct NodeTree {
    root: Vec<Value>,
    /// The open elements; `None` for one that lends its content to its parent.
    open: Vec<Option<OpenNode>>,
    /// The number of open elements that have a place in the tree.
    depth: usize,
    count: usize,
}

struct OpenNode {
    tag: &'static str,
    attributes: Map<String, Value>,
    children: Vec<Value>,
}

impl NodeTree {
    pub(super) fn new() -> Self {
        Self {
            root: Vec::new(),
            open: Vec::new(),
            depth: 0,
            count: 0,
        }
    }

    /// Returns whether the tree has its largest size.
    pub(super) fn is_full(&self) -> bool {
        self.count >= MAX_NODES
    }

    /// Opens an element with attributes: an object, or null.
    pub(super) fn open(&mut self, tag: &'static str, attributes: Value) {
        if self.depth >= MAX_DEPTH {
            self.open.push(None);
            return;
        }
        let attributes = match attributes {
            Value::Object(attributes) => attributes,
            _ => Map::new(),
        };
        self.depth += 1;
        self.open.push(Some(OpenNode {
            tag,
            attributes,
            children: Vec::new(),
        }));
    }

    /// Opens an element that has no place in the tree.
    pub(super) fn open_nothing(&mut self) {
        self.open.push(None);
    }

    /// Closes the element that was opened last.
    pub(super) fn close(&mut self) {
        let Some(Some(node)) = self.open.pop() else {
            return;
        };
        self.depth -= 1;
        let mut element = json!({ "tag": node.tag });
        if let Some(element) = element.as_object_mut() {
            element.extend(node.attributes);
            if !node.children.is_empty() {
                element.insert("children".to_owned(), Value::Array(node.children));
            }
        }
        self.push(element);
    }

    /// Adds an element without content.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: Value) {
        self.open(tag, attributes);
        self.close();
    }

    /// Adds a text to the open element.
    pub(super) fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Some(Value::String(last)) = self.children().last_mut() {
            last.push_str(text);
            return;
        }
        self.push(Value::from(text));
    }

    /// Returns the nodes; open elements are closed.
    pub(super) fn finish(mut self) -> Vec<Value> {
        while !self.open.is_empty() {
            self.close();
        }
        self.root
    }

    fn push(&mut self, node: Value) {
        self.count += 1;
        self.children().push(node);
    }

    fn children(&mut self) -> &mut Vec<Value> {
        let open = self.open.iter_mut().rev().flatten().next();
        match open {
            Some(node) => &mut node.children,
            None => &mut self.root,
        }
    }
}
