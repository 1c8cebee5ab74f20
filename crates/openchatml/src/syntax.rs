//! The lexical level: control tokens, the words of frame headers, escapes and UTF-8.

pub(crate) mod escape;
pub(crate) mod findings;
pub(crate) mod json;
pub(crate) mod offset_slice;
pub(crate) mod rules;
pub(crate) mod scanner;
pub(crate) mod token;
pub(crate) mod token_stream;
pub(crate) mod utf8;
pub(crate) mod vocabulary;
