//! Prompts for programs that speak the Model Context Protocol.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
