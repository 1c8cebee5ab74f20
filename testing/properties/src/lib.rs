//! What holds for every input.
//!
//! Each property is a function of bytes that panics where it does not hold. The fuzzer in `fuzz/`
//! calls them with bytes of its own; the tests of this crate call them with the committed corpus
//! and with every case of `conformance`, so what was once found stays found.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accounted;
mod chatmd_edit;
mod chatmd_read;
mod chatmd_write;
mod convert;
mod declare;
mod escape;
mod events;
mod forging;
mod harmony_ids;
mod harmony_stream;
mod input;
mod legacy;
mod o200k;
mod render;
mod round_trip;
mod stream;
mod trust;
mod visibility;

pub use chatmd_edit::chatmd_edit;
pub use chatmd_read::chatmd_read;
pub use chatmd_write::chatmd_write;
pub use convert::convert;
pub use declare::declare;
pub use escape::escape;
pub use forging::forging;
pub use harmony_ids::harmony_ids;
pub use harmony_stream::{harmony_stream, harmony_text_in_parts};
pub use legacy::legacy;
pub use o200k::o200k;
pub use render::render;
pub use round_trip::round_trip;
pub use stream::stream;
pub use trust::trust;
pub use visibility::visibility;

/// A property of bytes.
pub type Property = fn(&[u8]);

/// Every property by the name of its target and of its folder in `fuzz/corpus`.
pub const PROPERTIES: [(&str, Property); 16] = [
    ("chatmd_edit", chatmd_edit),
    ("chatmd_read", chatmd_read),
    ("chatmd_write", chatmd_write),
    ("convert", convert),
    ("declare", declare),
    ("escape", escape),
    ("forging", forging),
    ("harmony_ids", harmony_ids),
    ("harmony_stream", harmony_stream),
    ("legacy", legacy),
    ("o200k", o200k),
    ("render", render),
    ("round_trip", round_trip),
    ("stream", stream),
    ("trust", trust),
    ("visibility", visibility),
];
