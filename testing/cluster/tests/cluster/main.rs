//! Clusters of real servers on one database.
#![cfg(unix)]

mod chaos;
