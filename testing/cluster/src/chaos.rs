//! Failures of servers and of their connections, at random.

use std::io;
use std::time::{Duration, Instant};

use testkit::Random;

use crate::cluster::Cluster;

/// The pause between two failures.
const PAUSE: usize = 400;

/// A failure of a server that ends later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Killed,
    Paused,
    Silent,
}

/// Random failures, with their counts.
#[derive(Debug)]
pub struct Chaos {
    random: Random,
    /// The failure of each server, with its end.
    failures: Vec<Option<(Failure, Instant)>>,
    /// The number of killed servers.
    pub kills: usize,
    /// The number of paused servers.
    pub pauses: usize,
    /// The number of those whose pause is longer than their leases.
    pub long_pauses: usize,
    /// The number of times that all connections of a server to the database were cut or silenced.
    pub cuts: usize,
    /// The starts of servers that failed, which a supervisor repeats.
    pub failed_starts: usize,
}

impl Chaos {
    /// Creates failures of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ 0xC4A0_5000),
            failures: Vec::new(),
            kills: 0,
            pauses: 0,
            long_pauses: 0,
            cuts: 0,
            failed_starts: 0,
        }
    }

    /// Waits, ends failures whose time is over and causes another one; at least two servers remain.
    ///
    /// # Errors
    /// Returns an error if a server ended that was not killed, or cannot be reached by signals.
    pub fn step(&mut self, cluster: &mut Cluster) -> io::Result<()> {
        self.failures.resize(cluster.nodes.len(), None);
        let pause = self.random.below(2 * PAUSE) as u64;
        std::thread::sleep(Duration::from_millis(pause));
        let now = Instant::now();
        for number in 0..self.failures.len() {
            if let Some((failure, _)) = self.failures[number].filter(|(_, end)| *end <= now) {
                self.end_failure(cluster, number, failure)?;
            }
        }
        check_running(cluster, &self.failures)?;
        let number = self.random.below(self.failures.len());
        let failed = self.failures.iter().flatten().count();
        if self.failures[number].is_none() && failed + 2 < self.failures.len() {
            self.begin_failure(cluster, number)?;
        }
        Ok(())
    }

    /// Ends all failures.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn end(&mut self, cluster: &mut Cluster) -> io::Result<()> {
        let begun = Instant::now();
        while self.failures.iter().any(Option::is_some) && begun.elapsed() < Duration::from_secs(60)
        {
            for number in 0..self.failures.len() {
                if let Some((failure, _)) = self.failures[number] {
                    self.end_failure(cluster, number, failure)?;
                }
            }
        }
        check_running(cluster, &self.failures)
    }

    fn begin_failure(&mut self, cluster: &mut Cluster, number: usize) -> io::Result<()> {
        let mut millis = |most: usize| Duration::from_millis(self.random.below(most) as u64);
        let (short, down, silent) = (millis(1500), millis(1000), millis(2500));
        let (failure, time) = match self.random.below(8) {
            0..3 => {
                cluster.nodes[number].kill()?;
                self.kills += 1;
                (Failure::Killed, down)
            }
            3 => {
                // Longer than a lease.
                cluster.nodes[number].pause()?;
                self.pauses += 1;
                self.long_pauses += 1;
                (Failure::Paused, Duration::from_secs(11) + short)
            }
            4 | 5 => {
                cluster.nodes[number].pause()?;
                self.pauses += 1;
                (Failure::Paused, short)
            }
            6 => {
                cluster.relays[number].cut_connections();
                self.cuts += 1;
                return Ok(());
            }
            _ => {
                cluster.relays[number].silence();
                self.cuts += 1;
                (Failure::Silent, silent)
            }
        };
        self.failures[number] = Some((failure, Instant::now() + time));
        Ok(())
    }

    fn end_failure(
        &mut self,
        cluster: &mut Cluster,
        number: usize,
        failure: Failure,
    ) -> io::Result<()> {
        match failure {
            Failure::Killed => {
                if cluster.nodes[number].start_again().is_err() {
                    // The database was not reached meanwhile.
                    self.failed_starts += 1;
                    return Ok(());
                }
            }
            Failure::Paused => cluster.nodes[number].resume()?,
            Failure::Silent => {
                cluster.relays[number].restore();
                cluster.relays[number].cut_connections();
            }
        }
        self.failures[number] = None;
        Ok(())
    }
}

/// Fails if a server has ended that was not killed.
fn check_running(cluster: &mut Cluster, failures: &[Option<(Failure, Instant)>]) -> io::Result<()> {
    for (node, failure) in cluster.nodes.iter_mut().zip(failures) {
        let is_down = failure.is_some_and(|(failure, _)| failure == Failure::Killed);
        if !is_down && !node.runs()? {
            let (address, log) = (node.address(), node.log());
            return Err(io::Error::other(format!(
                "the server {address} ended: {log}"
            )));
        }
    }
    Ok(())
}
