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

/// Nodes of the YAML of a document header, those that aliases repeat included.
pub(crate) const MAX_HEADER_NODES: usize = 20_000;

/// Aliases in the YAML of a document header.
pub(crate) const MAX_HEADER_ALIASES: usize = 100;

/// Maximum nesting depth to which arguments are checked against a declared type.
///
/// Deeper values pass. Each alternative or reference on the way counts as a level.
pub const MAX_SHAPE_DEPTH: usize = 256;

/// Maximum steps of a type check in addition to those for each byte.
///
/// Values that are not reached pass. Only types with nested alternatives come near the limit.
pub(crate) const SHAPE_STEPS: usize = 10_000;

/// Steps for each byte of the arguments.
pub(crate) const SHAPE_STEPS_PER_BYTE: usize = 32;

/// Nesting of a type in a TypeScript declaration; a deeper one takes any value.
pub const MAX_TYPE_DEPTH: usize = 64;

/// Maximum length of a word of the source in a message, in characters.
pub(crate) const MAX_QUOTED_CHARS: usize = 60;
