//! State that outlives a run: what a session keeps between two invocations of a graph.

mod migration;

pub use migration::{Migrated, MigrationError, Migrations};
