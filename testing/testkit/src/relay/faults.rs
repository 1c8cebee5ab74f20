//! Random faults of a relay, by a seed.

use std::time::{Duration, SystemTime};

use crate::Random;

/// The variable that repeats the faults of an earlier run.
const SEED: &str = "LOGUE_RELAY_SEED";

/// The faults of a relay: random numbers decide for each piece of data that it relays.
///
/// A relay prints its seed when it starts. With the same seed, a connection has the same sequence of
/// decisions in each direction; the pieces of data depend on the programs at its ends.
#[derive(Clone, Debug)]
pub struct RelayFaults {
    seed: u64,
    delay_one_in: usize,
    longest_delay: Duration,
    cut_one_in: usize,
    silence_one_in: usize,
}

/// The decision about a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Relay,
    /// Relays the piece after a time.
    Delay(Duration),
    /// Relays this number of bytes of the piece, and closes the connection.
    Cut(usize),
    /// Discards the piece and all later ones of the connection.
    Silence,
}

impl RelayFaults {
    /// Creates faults of a seed; without further calls, there are none.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            delay_one_in: 0,
            longest_delay: Duration::ZERO,
            cut_one_in: 0,
            silence_one_in: 0,
        }
    }

    /// Creates faults of the seed in `LOGUE_RELAY_SEED`, or of a new one.
    pub fn from_environment() -> Self {
        let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
        Self::new(given.unwrap_or_else(|| {
            let time = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            u64::from(time.subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
        }))
    }

    /// Delays one in `one_in` pieces by at most `longest`.
    #[must_use]
    pub fn with_delays(mut self, one_in: usize, longest: Duration) -> Self {
        (self.delay_one_in, self.longest_delay) = (one_in, longest);
        self
    }

    /// Closes the connection within one in `one_in` pieces.
    #[must_use]
    pub fn with_cuts(mut self, one_in: usize) -> Self {
        self.cut_one_in = one_in;
        self
    }

    /// Discards one in `one_in` pieces with all later ones of its connection, which stays open.
    #[must_use]
    pub fn with_silence(mut self, one_in: usize) -> Self {
        self.silence_one_in = one_in;
        self
    }

    /// Returns the random numbers of a direction of a connection.
    pub(super) fn random(&self, connection: u64, is_answer: bool) -> Random {
        let number = connection.wrapping_mul(2) + u64::from(is_answer);
        Random::new(self.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)))
    }

    /// Decides about a piece of data.
    pub(super) fn decide(&self, random: &mut Random, size: usize) -> Decision {
        let mut happens = |one_in: usize| one_in > 0 && random.below(one_in) == 0;
        let (cut, silence) = (happens(self.cut_one_in), happens(self.silence_one_in));
        let delay = happens(self.delay_one_in);
        if cut {
            return Decision::Cut(random.below(size + 1));
        }
        if silence {
            return Decision::Silence;
        }
        if delay {
            let longest = usize::try_from(self.longest_delay.as_micros()).unwrap_or(usize::MAX);
            let delay = random.below(longest.max(1)) as u64;
            return Decision::Delay(Duration::from_micros(delay));
        }
        Decision::Relay
    }

    #[expect(clippy::print_stdout, reason = "a failure is repeated by the seed")]
    pub(super) fn report(&self) {
        println!("relay: repeat with {SEED}={}", self.seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_the_decisions_of_each_direction() {
        let decisions = |seed, connection, is_answer| -> Vec<Decision> {
            let faults = RelayFaults::new(seed)
                .with_cuts(8)
                .with_silence(8)
                .with_delays(2, Duration::from_millis(9));
            let mut random = faults.random(connection, is_answer);
            (0..200).map(|_| faults.decide(&mut random, 100)).collect()
        };
        let first = decisions(1, 1, false);
        assert_eq!(first, decisions(1, 1, false));
        for other in [
            decisions(2, 1, false),
            decisions(1, 2, false),
            decisions(1, 1, true),
        ] {
            assert_ne!(first, other);
        }
        for is_expected in [
            |decision: &Decision| matches!(decision, Decision::Relay),
            |decision: &Decision| matches!(decision, Decision::Delay(time) if time.as_millis() < 9),
            |decision: &Decision| matches!(decision, Decision::Cut(count) if *count <= 100),
            |decision: &Decision| matches!(decision, Decision::Silence),
        ] {
            assert!(first.iter().any(is_expected));
        }
    }
}
