//! Ports of a run: events, journal, sessions, observers and ids.

pub(crate) mod ids;
pub(crate) mod observer;
pub(crate) mod run_ports;
