//! The tables of `cargo xtask bench openchatml` and `chatmd`: each job beside its baseline or a peer.
//!
//! [`conversations`] makes the texts out of a seed, [`transcripts`] turns them into ChatMD;
//! [`openchatml::run`] and [`chatmd::run`] measure and print. The
//! peers are not here, because the workspace does not build them: whoever has them gives them as
//! [`Peers`], the rows of the others say `not built`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod chatmd;
pub mod conversations;
pub mod data;
mod measure;
pub mod openchatml;
mod peer;
mod random;
pub mod transcripts;
mod words;

pub use measure::{Heap, HeapUse};
pub use peer::{Encoder, HarmonyPeer, Peers, Reading};
