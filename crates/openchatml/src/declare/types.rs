//! The types of TypeScript, as far as arguments use them, to nodes of a shape.
//!
//! A type that is not understood takes any value, and so does one that is nested too deep. An
//! object does not forbid other properties: the form that is read never says that it does.

mod members;

use std::collections::HashMap;

use serde_json::{Number, Value};

use super::lexer::{Lexer, Word, unquoted, within_quotes};
use crate::argument_schema::{Kinds, Node, NodeId};
use crate::limits::MAX_TYPE_DEPTH;

/// Reads types, and keeps their nodes.
pub(super) struct Types<'t> {
    pub(super) lexer: Lexer<'t>,
    /// Whether something was not understood.
    pub(super) is_vague: bool,
    nodes: Vec<Node>,
    /// Types by their name, those included that are declared later or never.
    names: HashMap<&'t str, NodeId>,
    /// Whether `undefined` was among the types read, which makes a property optional.
    saw_undefined: bool,
}

/// The place of the type that takes any value.
const ANY: NodeId = NodeId(0);

/// A type, and its element type where `[]` follows another type: `"a" | "b"[]`.
#[derive(Clone, Copy)]
struct Read {
    id: NodeId,
    /// Without its last `[]`, without its last two, and so on.
    suffixed: [Option<NodeId>; SUFFIXES],
}

/// Maximum number of `[]` suffixes that may apply to a whole list of alternatives.
const SUFFIXES: usize = 3;

impl<'t> Types<'t> {
    pub(super) fn new(lexer: Lexer<'t>) -> Self {
        Self {
            lexer,
            is_vague: false,
            nodes: vec![Node::any()],
            names: HashMap::new(),
            saw_undefined: false,
        }
    }

    /// Every node; a name that was never declared takes any value.
    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// Gives a name to a type.
    pub(super) fn define(&mut self, name: &'t str, id: NodeId) {
        let place = self.reference(name);
        if let Some(node) = self.nodes.get_mut(place.0 as usize) {
            node.all = vec![id];
        }
    }

    /// A type.
    pub(super) fn any_type(&mut self) -> NodeId {
        self.union(MAX_TYPE_DEPTH)
    }

    /// `(_: T) => R`, where [`is_function`](Self::is_function): the place of `T`. `None` for
    /// `() => R`, and where the parameters are not understood.
    pub(super) fn function(&mut self) -> Option<NodeId> {
        self.signature(MAX_TYPE_DEPTH)
    }

    /// Returns whether a function type is next.
    pub(super) fn is_function(&self) -> bool {
        let mut ahead = self.lexer;
        if ahead.next().word != Word::Mark(b'(') {
            return false;
        }
        match ahead.next().word {
            Word::Mark(b')' | b'.') => true,
            Word::Name => matches!(ahead.next().word, Word::Mark(b':' | b'?' | b',')),
            _ => false,
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    fn reference(&mut self, name: &'t str) -> NodeId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let mut node = Node::any();
        node.all = vec![ANY];
        let id = self.push(node);
        self.names.insert(name, id);
        id
    }

    /// A type that takes any value, because it is not understood.
    fn vague(&mut self) -> NodeId {
        self.is_vague = true;
        self.push(Node::any())
    }

    fn eat(&mut self, mark: u8) -> bool {
        let next = |token: &super::lexer::Token| token.word == Word::Mark(mark);
        self.lexer.next_if(next).is_some()
    }

    fn signature(&mut self, depth: usize) -> Option<NodeId> {
        self.eat(b'(');
        let mut parameter = None;
        let mut count = 0;
        while !self.eat(b')') {
            let before = self.lexer.at;
            self.lexer.next_if(|token| token.word == Word::Name);
            self.eat(b'?');
            if self.eat(b':') {
                parameter = Some(self.union(depth.saturating_sub(1)));
            }
            self.eat(b',');
            count += 1;
            if self.lexer.at == before {
                // Something else: what the function takes is not known.
                self.is_vague = true;
                return None;
            }
        }
        if self
            .lexer
            .next_if(|token| token.word == Word::Arrow)
            .is_some()
        {
            self.union(depth.saturating_sub(1));
        }
        if count > 1 {
            self.is_vague = true;
            return None;
        }
        parameter
    }

    fn union(&mut self, depth: usize) -> NodeId {
        self.eat(b'|');
        let mut alternatives = vec![self.intersection(depth)];
        while self.eat(b'|') {
            alternatives.push(self.intersection(depth));
        }
        let mut members: Vec<_> = alternatives.iter().map(|read| read.id).collect();
        for suffixes in 0..SUFFIXES {
            if let Some(items) = ambiguous_items(&alternatives, suffixes) {
                let mut list = self.one_of(items);
                for _ in 0..=suffixes {
                    list = self.array(list);
                }
                members.push(list);
            }
        }
        self.one_of(members)
    }

    /// The union of types; kinds and literals become one node.
    fn one_of(&mut self, members: Vec<NodeId>) -> NodeId {
        if let [only] = members.as_slice() {
            return *only;
        }
        let nodes = || members.iter().filter_map(|id| self.node(*id));
        if nodes().all(Node::is_kind) {
            let kinds = nodes().fold(Kinds::NONE, |kinds, node| kinds.with(node.kinds));
            return self.push(Node::of(kinds));
        }
        let mut node = Node::any();
        let literals = nodes().map(Node::values).collect::<Option<Vec<_>>>();
        match literals {
            Some(literals) => node.literals = Some(literals.concat()),
            None => node.unions = vec![members],
        }
        self.push(node)
    }

    fn intersection(&mut self, depth: usize) -> Read {
        self.eat(b'&');
        let first = self.postfix(depth);
        let mut members = vec![first.id];
        while self.eat(b'&') {
            members.push(self.postfix(depth).id);
        }
        if members.len() == 1 {
            return first;
        }
        let mut node = Node::any();
        node.all = members;
        let id = self.push(node);
        let suffixed = [None; SUFFIXES];
        Read { id, suffixed }
    }

    fn postfix(&mut self, depth: usize) -> Read {
        let mut id = self.primary(depth);
        let mut suffixed = [None; SUFFIXES];
        let mut room = depth;
        while self.lexer.peek().word == Word::Mark(b'[') && !self.lexer.peek().on_new_line {
            let open = self.lexer.next();
            let is_too_deep = room == 0;
            room = room.saturating_sub(1);
            if is_too_deep || !self.eat(b']') {
                self.lexer.skip_brackets(open);
                id = self.vague();
                continue;
            }
            suffixed.rotate_right(1);
            if let Some(last) = suffixed.first_mut() {
                *last = Some(id);
            }
            id = self.array(id);
        }
        Read { id, suffixed }
    }

    fn array(&mut self, item: NodeId) -> NodeId {
        let mut list = Node::of(Kinds::ARRAY);
        list.item = Some(item);
        self.push(list)
    }

    fn primary(&mut self, depth: usize) -> NodeId {
        let token = self.lexer.peek();
        let is_opening = matches!(token.word, Word::Mark(b'{' | b'(' | b'['));
        if depth == 0 && is_opening {
            self.lexer.next();
            self.lexer.skip_brackets(token);
            return self.vague();
        }
        let text = self.lexer.text_of(token.span);
        match token.word {
            Word::Text if text.starts_with('`') => {
                self.lexer.next();
                self.push(Node::of(Kinds::STRING))
            }
            Word::Text => {
                self.lexer.next();
                let value = Value::String(unquoted(text));
                let id = self.literal(value);
                if text.contains('\\')
                    && let Some(node) = self.nodes.get_mut(id.0 as usize)
                    && let Some(literals) = &mut node.literals
                {
                    // Some programs write strings into their quotes without escapes.
                    literals.push(Value::String(within_quotes(text).to_owned()));
                }
                id
            }
            Word::Number => {
                self.lexer.next();
                self.number(text)
            }
            Word::Mark(b'-') => {
                self.lexer.next();
                let number = self.lexer.next_if(|token| token.word == Word::Number);
                match number {
                    Some(number) => self.number(&format!("-{}", self.lexer.text_of(number.span))),
                    None => self.vague(),
                }
            }
            Word::Name => {
                self.lexer.next();
                self.named(text, depth)
            }
            Word::Mark(b'{') => {
                self.lexer.next();
                self.object(depth - 1)
            }
            Word::Mark(b'(') => {
                if self.is_function() {
                    self.signature(depth - 1);
                    return self.vague();
                }
                self.lexer.next();
                let id = self.union(depth - 1);
                if !self.eat(b')') {
                    self.lexer.skip_brackets(token);
                    return self.vague();
                }
                id
            }
            Word::Mark(b'[') => {
                // A list with a type for each place: only that it is a list is checked.
                self.lexer.next();
                self.lexer.skip_brackets(token);
                self.push(Node::of(Kinds::ARRAY))
            }
            _ => self.vague(),
        }
    }

    fn literal(&mut self, value: Value) -> NodeId {
        let mut node = Node::any();
        node.literals = Some(vec![value]);
        self.push(node)
    }

    fn number(&mut self, text: &str) -> NodeId {
        match serde_json::from_str::<Number>(text) {
            Ok(number) => self.literal(Value::Number(number)),
            Err(_) => self.push(Node::of(Kinds::NUMBER)),
        }
    }

    fn named(&mut self, name: &'t str, depth: usize) -> NodeId {
        let kinds = match name {
            "string" => Kinds::STRING,
            "number" => Kinds::NUMBER,
            "integer" | "bigint" => Kinds::INTEGER,
            "boolean" => Kinds::BOOL,
            "null" => Kinds::NULL,
            "array" => Kinds::ARRAY,
            "object" => Kinds::OBJECT,
            "any" | "unknown" => Kinds::ALL,
            "never" => Kinds::NONE,
            "undefined" | "void" => {
                self.saw_undefined = true;
                Kinds::NONE
            }
            "true" | "false" => return self.literal(Value::Bool(name == "true")),
            "readonly" if depth > 0 => return self.postfix(depth - 1).id,
            _ => return self.reference_or_generic(name, depth),
        };
        self.push(Node::of(kinds))
    }

    fn reference_or_generic(&mut self, name: &'t str, depth: usize) -> NodeId {
        let open = self.lexer.peek();
        if open.word != Word::Mark(b'<') || depth == 0 {
            // A word of the language, such as `keyof`, is not a type that could be declared.
            let is_type = !matches!(name, "keyof" | "typeof" | "infer" | "unique" | "readonly");
            return if is_type {
                self.reference(name)
            } else {
                self.vague()
            };
        }
        self.lexer.next();
        let first = self.union(depth - 1);
        let mut last = first;
        while self.eat(b',') {
            last = self.union(depth - 1);
        }
        if !self.eat(b'>') {
            return self.vague();
        }
        match name {
            "Array" | "ReadonlyArray" => self.array(first),
            "Record" => {
                let mut node = Node::of(Kinds::OBJECT);
                node.additional = Some(last);
                self.push(node)
            }
            "Readonly" => first,
            _ => self.vague(),
        }
    }
}

/// The items of a list whose parentheses are missing: some programs write `(A | B)[]` as
/// `A | B[]`. A suffix after any alternative but the first may apply to those before it. Where
/// several could, the items are not known.
fn ambiguous_items(alternatives: &[Read], suffixes: usize) -> Option<Vec<NodeId>> {
    let element = |read: &Read| read.suffixed.get(suffixes).copied().flatten();
    let mut found = (1..)
        .zip(alternatives.iter().skip(1))
        .filter_map(|(index, read)| Some((index, element(read)?)));
    let (index, element) = found.next()?;
    if found.next().is_some() {
        return Some(vec![ANY]);
    }
    let mut items: Vec<_> = alternatives
        .iter()
        .take(index)
        .map(|read| read.id)
        .collect();
    items.push(element);
    Some(items)
}
