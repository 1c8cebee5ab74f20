//! State that outlives a run: what a session keeps between two invocations of a graph.
//!
//! [`Sessions`] runs a graph for sessions: it loads the record of one before the run, migrates it
//! to the version of the graph, and saves it after the run. Records are kept by a [`SessionStore`],
//! runs that wait for a signal by a [`PausedStore`]; a store that is both keeps them together.
//!
//! ```text
//! load ─▶ migrate ─▶ project ─▶ run ─┬─▶ END ─────────▶ save
//!                     ▲              ├─▶ failed         (the session is unchanged)
//!                     │              └─▶ suspended ───▶ pause, with the session beside it
//!                     └── merge, claim ◀── resume ◀───── signal
//! ```

mod adapter;
mod bound_session;
mod error;
mod memory;
mod migration;
mod outcome;
mod paused;
mod projection;
mod record;
mod resume;
mod runtime;

pub use adapter::StoreSessions;
pub use error::SessionError;
pub use memory::MemorySessionStore;
pub use migration::{Migrated, MigrationError, Migrations};
pub use outcome::{FailedRun, SessionOutcome};
pub use paused::{CombinedStore, PausedRecord, PausedStatus, PausedStore, SessionWrite};
pub use projection::Projection;
pub use record::{
    LoadedSession, SessionRecord, SessionResult, SessionStore, SessionStoreError, SessionSummary,
    SummaryFilter,
};
pub use runtime::{OpenSession, RunOptions, Sessions};
