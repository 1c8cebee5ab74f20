//! The extent and the statistics of a run, and the search for the smallest one.

use crate::world::run;

/// The extent of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of conversations.
    pub sessions: usize,
    /// The number of clients; each sends to all conversations.
    pub clients: usize,
    /// The number of messages per client.
    pub messages: usize,
    /// The mean number of store operations per failure; 0 disables failures.
    pub failures: usize,
    /// The mean number of steps per crash; 0 disables crashes.
    pub crashes: usize,
    /// The mean number of steps per step of a wall clock by an hour; 0 disables them.
    pub clock_steps: usize,
    /// Whether a turn whose process died ends, in place of continuing.
    pub stops: bool,
    /// The number of steps before failures and crashes end.
    pub steps: usize,
    /// The number of stores; 0 is one store without a clock and crashes of its own.
    pub shards: usize,
    /// The mean number of steps per crash of a store; 0 disables them.
    pub store_crashes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sessions: 2,
            clients: 3,
            messages: 5,
            failures: 40,
            crashes: 200,
            clock_steps: 150,
            stops: false,
            steps: 6_000,
            shards: 0,
            store_crashes: 0,
        }
    }
}

/// The statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of polled futures.
    pub steps: u64,
    /// The number of crashed nodes.
    pub crashes: u64,
    /// The number of completed turns in all sessions.
    pub completed: u64,
    /// The number of failed, interrupted or cancelled turns.
    pub failed: u64,
    /// The number of turns that were given up after too many recoveries.
    pub given_up: u64,
    /// The number of turns that a signal resumed.
    pub resumed: u64,
    /// The number of effects.
    pub effects: u64,
    /// The number of requests to the provider that failed after an effect.
    pub failed_after_effects: u64,
    /// The number of steps of wall clocks by an hour.
    pub clock_steps: u64,
    /// The number of commits that took effect and failed.
    pub unacknowledged_commits: u64,
    /// The number of crashed stores.
    pub store_crashes: u64,
    /// The number of operations on leases that crashes of stores have lost.
    pub lost_operations: u64,
    /// The number of operations on one session, each in one store.
    pub routed: u64,
    /// The number of lookups without the id of a session, which ask each store.
    pub asked_all: u64,
    /// The least and the largest number of sessions of a store.
    pub sessions_of_stores: (u64, u64),
}

impl Report {
    /// Adds the statistics of another run.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.completed += other.completed;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.resumed += other.resumed;
        self.effects += other.effects;
        self.failed_after_effects += other.failed_after_effects;
        self.clock_steps += other.clock_steps;
        self.unacknowledged_commits += other.unacknowledged_commits;
        self.store_crashes += other.store_crashes;
        self.lost_operations += other.lost_operations;
        self.routed += other.routed;
        self.asked_all += other.asked_all;
        self.sessions_of_stores.0 += other.sessions_of_stores.0;
        self.sessions_of_stores.1 += other.sessions_of_stores.1;
    }
}

/// Returns the smallest settings with which a seed violates an invariant, and the violation.
pub fn shrink(seed: u64, settings: Settings) -> Option<(Settings, String)> {
    let mut worst = (settings, run(seed, settings).err()?);
    loop {
        let now = worst.0;
        let smaller = [
            Settings {
                clients: now.clients - 1,
                ..now
            },
            Settings {
                messages: now.messages - 1,
                ..now
            },
            Settings {
                sessions: now.sessions - 1,
                ..now
            },
            Settings { failures: 0, ..now },
            Settings { crashes: 0, ..now },
            Settings {
                clock_steps: 0,
                ..now
            },
            Settings {
                store_crashes: 0,
                ..now
            },
            Settings {
                steps: now.steps / 2,
                ..now
            },
        ];
        let broken = smaller.into_iter().find_map(|smaller| {
            let possible = smaller.clients > 0
                && smaller.messages > 0
                && smaller.sessions > 0
                && smaller != now;
            let why = possible.then(|| run(seed, smaller).err())??;
            Some((smaller, why))
        });
        match broken {
            Some(smaller) => worst = smaller,
            None => return Some(worst),
        }
    }
}
