//! The table of `cargo xtask bench openchatml`: each job beside its baseline or a peer.
//!
//! [`conversations`] makes the texts out of a seed, [`openchatml::run`] measures and prints. The
//! peers are not here, because the workspace does not build them: whoever has them gives them as
//! [`Peers`], the rows of the others say `not built`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod conversations;
mod measure;
pub mod openchatml;
mod peer;
mod random;
mod words;

pub use measure::{Heap, HeapUse};
pub use peer::{Encoder, HarmonyPeer, Peers, Reading};
