//! The limits of the readers, in one place.
//!
//! A body may be as long as its text: it is never copied while reading. What the reader *keeps*
//! apart from spans is bounded here, so that hostile input cannot make it hold many times its own
//! size.

/// Bytes of a document header; a longer one is not parsed.
pub const MAX_DOCUMENT_HEADER: usize = 256 * 1024;

/// Bytes between `<|start|>` and `<|message|>`; later bytes are not read as attributes.
pub const MAX_FRAME_HEADER: usize = 64 * 1024;

/// Maximum white space in one place of a stray text, in bytes.
///
/// Longer white space ends one stray text and begins another.
pub const MAX_BLANK: usize = 4 * 1024;

/// Bytes of a literal block after its first control token. A stream holds them back until
/// it knows that the block is closed, so a block that closes later counts as never closed.
pub const MAX_LITERAL_HELD: usize = 1024 * 1024;

/// Bytes of a function value of the 1.x line; a longer one is text.
pub const MAX_FUNCTION_VALUE: usize = 1024 * 1024;

/// Findings that a reader keeps for one document; later ones only count.
pub const MAX_DIAGNOSTICS: usize = 10_000;

/// Nesting of the YAML of a document header.
pub(crate) const MAX_HEADER_DEPTH: usize = 48;

/// Nesting of a document header that the thread of the caller parses.
///
/// The parser takes up to 6 KiB of stack a level, and a stack may be as small as 128 KiB. A header
/// that may be deeper is parsed on a thread of its own, with a stack of [`HEADER_STACK`] bytes.
pub(crate) const MAX_SHALLOW_HEADER_DEPTH: usize = 12;

/// Stack of a thread that parses a deep header, in bytes.
pub(crate) const HEADER_STACK: usize = 2 * 1024 * 1024;

/// Nodes of the YAML of a document header, those that aliases repeat included.
pub(crate) const MAX_HEADER_NODES: usize = 20_000;

/// Aliases in the YAML of a document header.
pub(crate) const MAX_HEADER_ALIASES: usize = 100;

/// Maximum nesting depth to which arguments are checked against a declared type.
///
/// Deeper values pass. Each alternative or reference on the way counts as a level. The check fits a
/// stack of 128 KiB.
pub const MAX_SHAPE_DEPTH: usize = 64;

/// Maximum steps of a type check in addition to those for each byte.
///
/// Values that are not reached pass. Only types with nested alternatives come near the limit.
pub(crate) const SHAPE_STEPS: usize = 10_000;

/// Steps for each byte of the arguments.
pub(crate) const SHAPE_STEPS_PER_BYTE: usize = 32;

/// Nesting of a type in a TypeScript declaration; a deeper one takes any value.
///
/// Braces, parentheses, type arguments and each `[]` count. The reader fits a stack of 128 KiB.
pub const MAX_TYPE_DEPTH: usize = 32;

/// Nesting of a JSON Schema that is read back from TypeScript.
///
/// A declaration with more nested arrays and objects stays text.
/// JSON readers accept 128, of which a row of a data set takes up to 6. Schemas within the limit are
/// read, written and dropped on a stack of 128 KiB.
pub(crate) const MAX_SCHEMA_LEVELS: usize = 112;

/// Maximum length of a word of the source in a message, in characters.
pub(crate) const MAX_QUOTED_CHARS: usize = 60;
