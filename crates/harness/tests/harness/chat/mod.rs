//! A chat over a graph and a store, through its public interface.

mod busy;
mod listeners;
mod recovery;
mod redaction;
mod removed;
mod retrying;
mod sending;
mod stage;
mod stream;
mod suspension;
mod typed_messages;
