//! The tools that a conversation declares, read out of its `system` and `developer` messages.
//!
//! Three forms are read, anywhere in a text and also mixed: the TypeScript that Harmony models
//! are shown (`namespace functions { … }`), JSON lists of tools as providers take them, and
//! `OpenAPI` documents in JSON. A section of `# Tools` that describes its tool only in words
//! declares it too. A declaration that cannot be read leaves a [`DeclarationIssue`] and a tool
//! whose calls are not checked; reading never fails and never blocks the text around it.
//!
//! ```
//! let body = r#"
//! ## functions
//! namespace functions {
//! // Gets the weather of a city.
//! type get_weather = (_: {
//!   location: string, // such as Oslo
//!   unit?: "celsius" | "fahrenheit", // default: celsius
//! }) => any;
//! } // namespace functions"#;
//! let declarations = openchatml::declare::read(body);
//! let tool = declarations.tool("functions.get_weather").unwrap();
//! assert_eq!(tool.description.as_deref(), Some("Gets the weather of a city."));
//! let shape = tool.schema.as_ref().unwrap();
//! assert!(shape.check(br#"{"location": "Oslo"}"#).is_ok());
//! let mismatch = shape.check(br#"{"location": "Oslo", "unit": "kelvin"}"#).unwrap_err();
//! assert_eq!(mismatch.path, "$.unit");
//! ```

mod call_schemas;
mod json;
mod lexer;
mod openapi;
pub(crate) mod read_back;
mod sections;
mod toolbox;
mod types;
mod typescript;

pub use call_schemas::CallSchemas;
pub(crate) use toolbox::{CallError, ToolIndex};

use std::collections::{BTreeMap, HashMap};

use logue_source::Span;

use crate::argument_schema::ArgumentSchema;

/// The tools that a text declares, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declarations {
    tools: Vec<DeclaredTool>,
    issues: Vec<DeclarationIssue>,
    by_name: HashMap<String, usize>,
    /// Namespaces by name, each with whether all of its content could be read.
    namespaces: BTreeMap<String, bool>,
    /// Those of them of which all could be read so far.
    trusted: Vec<String>,
    /// Number of times a namespace was noted.
    noted: usize,
}

/// One tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeclaredTool {
    /// The full name, as a call's recipient has it: `functions.get_weather`.
    pub name: String,
    /// Description in the declaration.
    pub description: Option<String>,
    /// Type of the arguments; `None` if the declaration has none, so that nothing is checked.
    pub schema: Option<ArgumentSchema>,
    /// Place of the declaration in the text.
    pub span: Span,
}

/// Something that looks like a declaration and cannot be read, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeclarationIssue {
    /// Unreadable part, in one sentence without a period.
    pub message: String,
    /// Place of that part.
    pub span: Span,
}

/// The tools that a text declares (OpenChatML 2.2 §8 and §16.2, 2.0 §8.2). Linear in the text.
pub fn read(text: &str) -> Declarations {
    let mut found = Declarations::default();
    let mut sections = sections::Sections::default();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line = rest.split_inclusive('\n').next().unwrap_or(rest);
        sections.line(text, at, at + line.len(), &mut found);
        let indent = line.len() - line.trim_start().len();
        let start = at + indent;
        let next = match line.trim_start().as_bytes().first() {
            Some(b'{' | b'[') => json::read(text, start, &mut found),
            Some(b't') if line.trim_start().starts_with("type ") => {
                // A namespace that closed too early: it has more than was read.
                found.doubt();
                None
            }
            Some(b'n' | b'd' | b'e') => typescript::read(text, start, &mut found),
            _ => None,
        };
        at = next.unwrap_or(0).max(at + line.len());
    }
    sections.close(text, text.len(), &mut found);
    found
}

impl Declarations {
    /// The tools in the order of the text. Of two with one name the later one counts.
    pub fn tools(&self) -> &[DeclaredTool] {
        &self.tools
    }

    /// Unreadable declarations.
    pub fn issues(&self) -> &[DeclarationIssue] {
        &self.issues
    }

    /// The tool with this full name.
    pub fn tool(&self, name: &str) -> Option<&DeclaredTool> {
        self.by_name.get(name).and_then(|at| self.tools.get(*at))
    }

    /// The namespaces that the text declares, and whether all of each could be read: only then is
    /// a name that is not among the tools certainly not declared.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, bool)> {
        self.namespaces
            .iter()
            .map(|(name, complete)| (name.as_str(), *complete))
    }

    /// Returns whether the text declares nothing at all.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.tools.is_empty()
    }

    /// Number of declarations and issues so far.
    const fn declared(&self) -> usize {
        self.noted + self.tools.len() + self.issues.len()
    }

    fn add(&mut self, tool: DeclaredTool) {
        self.by_name.insert(tool.name.clone(), self.tools.len());
        self.tools.push(tool);
    }

    fn issue(&mut self, span: Span, message: impl Into<String>) {
        let message = message.into();
        self.issues.push(DeclarationIssue { message, span });
    }

    /// Notes that a namespace is declared, and whether all of it could be read.
    fn note(&mut self, namespace: &str, complete: bool) {
        self.noted += 1;
        let known = self.namespaces.entry(namespace.to_owned()).or_insert(true);
        *known &= complete;
        if *known {
            self.trusted.push(namespace.to_owned());
        }
    }

    /// Makes no namespace so far count as fully read. Each is visited once.
    fn doubt(&mut self) {
        for namespace in self.trusted.drain(..) {
            self.namespaces.insert(namespace, false);
        }
    }
}
