//! The web page: its files, its login, and what it shows of sessions.
//!
//! The page uses the interface that other clients use. Its login gives a browser a cookie instead of
//! the token.

mod assets;
mod export;
mod login;
mod markdown;
mod nodes;
mod overview;
mod shown;
mod times;

pub(super) use assets::{file, index, is_file};
pub(super) use export::export;
pub(super) use login::{login, logout, me};
pub(super) use markdown::render as markdown;
pub(super) use overview::{SessionSearch, title};
pub(super) use shown::shown_messages;
pub(super) use times::add_times;
