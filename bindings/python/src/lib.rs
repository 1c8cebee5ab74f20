//! The extension module of the Python package `openchatml`.
//!
//! No function performs input or output. The package around it, in
//! `python/openchatml`, names what is public; this module is `openchatml._openchatml`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![expect(
    clippy::needless_pass_by_value,
    clippy::format_push_string,
    reason = "arguments of Python functions are values; strings are short"
)]

mod batch;
mod convert;
mod data;
mod deferred;
mod document;
mod encoding;
mod error;
mod event;
mod finding;
mod ids;
mod input;
mod items;
mod json;
mod message;
mod offsets;
mod parser;
mod recoverer;
mod render;
mod running;
mod scan;
mod special;
mod stream;

use pyo3::prelude::*;

/// The extension module.
#[pymodule(gil_used = false)]
mod _openchatml {
    #[pymodule_export]
    use crate::batch::{
        Exported, convert_array, count_array, decode_array, encode_array, parse_array,
    };
    #[pymodule_export]
    use crate::convert::{Converted, LossItem, convert};
    #[pymodule_export]
    use crate::data::{
        BenchmarkWords, CommonWords, Comparison, Keys, MaskedRow, RowMasker, Rules, check_row,
        check_rows, convert_row, convert_rows,
    };
    #[pymodule_export]
    use crate::document::{Conversation, check, detect_dialect, parse, parse_ids};
    #[pymodule_export]
    use crate::encoding::Encoding;
    #[pymodule_export]
    use crate::event::{Amended, Delta, End, Head, Opened, Start};
    #[pymodule_export]
    use crate::finding::Finding;
    #[pymodule_export]
    use crate::message::Message;
    #[pymodule_export]
    use crate::parser::HarmonyParser;
    #[pymodule_export]
    use crate::recoverer::{ChannelDelta, Recoverer};
    #[pymodule_export]
    use crate::render::{render, render_ids, render_message_ids, tool_namespace};
    #[pymodule_export]
    use crate::scan::{Hit, scan};
    #[pymodule_export]
    use crate::stream::Stream;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
