//! Tool declarations (ChatMD §5): the tools that the model may call.

use logue_source::Span;

use crate::document::read_root::ReadRoot;
use crate::document::shell_tool::ShellDetails;

/// A `<tool>` declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolDecl {
    /// Span of the element.
    pub span: Span,
    /// Kind of the declared tool.
    pub kind: ToolKind,
    /// The `description` of a built-in tool, which is appended to its own.
    pub note: Option<String>,
    /// The directories that `read_file` is confined to; empty if the declaration names none.
    pub roots: Vec<ReadRoot>,
    /// The details of a `<tool type="shell">`.
    pub shell: Option<ShellDetails>,
}

/// The shapes of a declaration: ChatMD §5.1 to §5.4, and a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolKind {
    /// A tool of the program itself.
    Builtin {
        /// The name as declared.
        name: String,
    },
    /// A trusted command.
    Command {
        /// Exposed name of the tool.
        name: String,
        /// The command line.
        command: String,
        /// Description for the model.
        description: Option<String>,
    },
    /// A program that each call names: a `<tool type="shell" mode="structured">`.
    AnyProgram {
        /// Exposed name of the tool.
        name: String,
        /// Description for the model.
        description: Option<String>,
    },
    /// Another prompt.
    Agent {
        /// Exposed name of the tool.
        name: String,
        /// The prompt: path or address.
        agent: String,
        /// Whether `agent` is a path instead of an address.
        local: bool,
        /// Description for the model.
        description: Option<String>,
    },
    /// Tools of an MCP server.
    McpServer {
        /// The server's address.
        server: String,
        /// Selected tools, trimmed; `None` selects all.
        ///
        /// Empty names have no effect.
        names: Option<Vec<String>>,
        /// Whether the provider enforces the schemas exactly.
        strict: bool,
    },
}

impl ToolDecl {
    /// Returns the exposed name of a single tool.
    ///
    /// `None` for a server, which names its own tools, and for a built-in of several tools.
    pub fn exposed_name(&self) -> Option<&str> {
        match self.exposed_names().as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Returns the exposed names of the declared tools.
    ///
    /// Several for a namespace of built-ins, none for a server, which names its own tools.
    pub fn exposed_names(&self) -> Vec<&str> {
        match &self.kind {
            ToolKind::Builtin { name } => BuiltinDeclaration::find(name)
                .map_or_else(|| vec![name.as_str()], |it| it.exposed.to_vec()),
            ToolKind::Command { name, .. }
            | ToolKind::AnyProgram { name, .. }
            | ToolKind::Agent { name, .. } => vec![name],
            ToolKind::McpServer { .. } => Vec::new(),
        }
    }
}

/// A built-in tool of this or another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltinDeclaration {
    /// Name in a declaration.
    pub declared: &'static str,
    /// Exposed names: one, or those of a namespace.
    pub exposed: &'static [&'static str],
    /// Whether Logue supports it.
    pub supported: bool,
}

impl BuiltinDeclaration {
    const fn new(
        declared: &'static str,
        exposed: &'static [&'static str],
        supported: bool,
    ) -> Self {
        Self {
            declared,
            exposed,
            supported,
        }
    }

    /// Returns the built-in with that declared name.
    pub fn find(declared: &str) -> Option<&'static Self> {
        BUILTINS.iter().find(|known| known.declared == declared)
    }
}

/// All built-ins, including those that only ochat supports.
///
/// `logue_tools::Builtin` implements the supported ones; a test of the program compares both.
pub const BUILTINS: &[BuiltinDeclaration] = &[
    BuiltinDeclaration::new("read_file", &["read_file"], true),
    BuiltinDeclaration::new("get_contents", &["read_file"], true),
    BuiltinDeclaration::new("read_dir", &["read_directory"], true),
    BuiltinDeclaration::new("read_directory", &["read_directory"], true),
    BuiltinDeclaration::new("import_image", &["import_image"], true),
    BuiltinDeclaration::new("apply_patch", &["apply_patch"], true),
    BuiltinDeclaration::new("append_to_file", &["append_to_file"], true),
    BuiltinDeclaration::new("find_and_replace", &["find_and_replace"], true),
    BuiltinDeclaration::new("webpage_to_markdown", &["webpage_to_markdown"], true),
    BuiltinDeclaration::new("search", &["search"], true),
    BuiltinDeclaration::new("write_file", &["write_file"], true),
    BuiltinDeclaration::new(
        "browser",
        &["browser.search", "browser.open", "browser.find"],
        true,
    ),
    BuiltinDeclaration::new("browser.search", &["browser.search"], true),
    BuiltinDeclaration::new("browser.open", &["browser.open"], true),
    BuiltinDeclaration::new("browser.find", &["browser.find"], true),
    BuiltinDeclaration::new("python", &["python"], true),
    BuiltinDeclaration::new("fork", &["fork"], true),
    BuiltinDeclaration::new("meta_refine", &["meta_refine"], false),
    BuiltinDeclaration::new("index_markdown_docs", &["index_markdown_docs"], false),
    BuiltinDeclaration::new("markdown_search", &["markdown_search"], false),
    BuiltinDeclaration::new("odoc_search", &["odoc_search"], false),
    BuiltinDeclaration::new("index_ocaml_code", &["index_ocaml_code"], false),
    BuiltinDeclaration::new("query_vector_db", &["query_vector_db"], false),
];
