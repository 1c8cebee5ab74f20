//! The commands, one module each. No command imports another one.

pub(crate) mod ask;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod data;
pub(crate) mod debug;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fix;
pub(crate) mod fmt;
pub(crate) mod generate;
pub(crate) mod help;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod signal;
pub(crate) mod tokens;
pub(crate) mod trust;
pub(crate) mod view;
