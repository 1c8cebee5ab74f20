//! What a peer has to do, so that it can stand in the table.

use std::time::Duration;

use openchatml::FrameBuf;

/// How a peer that streams is asked for what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// For what the last token added.
    Delta,
    /// For the whole text of the message so far, after each token.
    Whole,
}

/// The reference implementation of Harmony.
pub trait HarmonyPeer {
    /// Its name.
    fn name(&self) -> &'static str;
    /// How long its vocabulary took to load.
    fn loading(&self) -> Duration;
    /// Makes a parser and drops it.
    fn create(&self);
    /// Reads ids one by one; gives the bytes of text that it told, or what it did not like.
    ///
    /// # Errors
    /// Its own error.
    fn stream(&self, ids: &[u32], reading: Reading) -> Result<usize, String>;
    /// [`Self::stream`], where `step` is called after each id.
    ///
    /// # Errors
    /// Its own error.
    fn stream_in_steps(&self, ids: &[u32], step: &mut dyn FnMut()) -> Result<(), String>;
    /// The length of the text of ids.
    fn decode(&self, ids: &[u32]) -> usize;
    /// What renders these messages to ids and gives how many; nothing if it cannot.
    fn renderer<'p>(&'p self, frames: &[FrameBuf]) -> Option<Box<dyn Fn() -> usize + 'p>>;
}

/// An encoder of `o200k`.
pub struct Encoder {
    /// Its name.
    pub name: &'static str,
    /// How many ids a text has, specials being text.
    pub encode: Box<dyn Fn(&str) -> usize>,
}

/// The peers that are built.
#[derive(Default)]
pub struct Peers {
    /// The reference implementation.
    pub harmony: Option<Box<dyn HarmonyPeer>>,
    /// Encoders, it included.
    pub encoders: Vec<Encoder>,
}
