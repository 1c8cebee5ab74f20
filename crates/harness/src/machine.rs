//! The identity of this process and the monotonic clock of its machine.
#![expect(
    clippy::disallowed_methods,
    reason = "with `system`, the place of this crate that reads the machine"
)]

use std::fs;

use crate::clock::Timestamp;
use crate::store::LeaseClock;

/// The boot, the namespace and the process that names of owners state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    boot: String,
    /// The namespace of processes, the process and its start.
    process: Option<(String, u32, u64)>,
}

impl Machine {
    /// Returns the machine and process of the caller.
    pub(crate) fn this() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let id = std::process::id();
        let process = namespace().and_then(|namespace| Some((namespace, id, started(id)?)));
        Self {
            boot: boot.map_or_else(|_| clock_name(), |boot| boot.trim().to_owned()),
            process,
        }
    }
}

impl LeaseClock for Machine {
    fn now(&self) -> Timestamp {
        elapsed()
    }

    fn owner(&self, owner: &str) -> String {
        match &self.process {
            Some((namespace, id, start)) => {
                format!("{owner}@{}/{namespace}/{id}/{start}", self.boot)
            }
            None => format!("{owner}@{}", self.boot),
        }
    }

    /// Nothing is known of a process in another namespace.
    fn is_gone(&self, owner: &str) -> bool {
        let Some((own, ..)) = &self.process else {
            return false;
        };
        let mut parts = owner.rsplit('/');
        let (Some(start), Some(id), Some(namespace)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let (Ok(start), Ok(id)) = (start.parse::<u64>(), id.parse::<u32>()) else {
            return false;
        };
        namespace == own && started(id) != Some(start)
    }
}

/// Returns the time since the machine was booted, sleep included.
///
/// It is the same for all processes of a boot, and no change of the wall clock changes it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn elapsed() -> Timestamp {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let millis = u64::try_from(time.tv_nsec).unwrap_or_default() / 1_000_000;
    Timestamp(seconds.saturating_mul(1_000).saturating_add(millis))
}

/// Returns the wall clock, where no clock of the machine is known.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn elapsed() -> Timestamp {
    use crate::Clock as _;
    crate::SystemClock.now()
}

/// Returns the name of the clock of a machine without a readable boot id.
///
/// Times since different boots are not comparable, so each process has its own name there.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn clock_name() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Returns the name of the wall clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn clock_name() -> String {
    "wall".to_owned()
}

/// Returns the name of the namespace of processes of this process.
fn namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let digits: String = link
        .to_str()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    Some(digits).filter(|digits| !digits.is_empty())
}

/// Returns the start time of a running process, in ticks since the boot.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_machine_can_be_gone() {
        let this = Machine::this();
        let owner = this.owner("a/b@c");
        assert!(!this.is_gone(&owner), "{owner}");
        let (start, rest) = owner
            .rsplit_once('/')
            .map_or(("", ""), |(rest, start)| (start, rest));
        let later: u64 = start.parse().unwrap_or_default();
        // The same number, given to a later process.
        assert!(this.is_gone(&format!("{rest}/{}", later + 1)));
        let elsewhere = owner.replace(&namespace().unwrap_or_default(), "1");
        assert!(!this.is_gone(&elsewhere), "{elsewhere}");
        for owner in ["", "x", "x@y", "x@y/1", "x@y/1/z/0"] {
            assert!(!this.is_gone(owner), "{owner}");
        }
    }

    #[test]
    fn a_process_that_was_killed_is_gone() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
        let this = Machine::this();
        let start = started(child.id()).unwrap_or_default();
        let owner = format!(
            "x@{}/{}/{}/{start}",
            this.boot,
            namespace().unwrap_or_default(),
            child.id()
        );
        assert!(!this.is_gone(&owner), "{owner}");
        child.kill()?;
        child.wait()?;
        assert!(this.is_gone(&owner), "{owner}");
        Ok(())
    }
}
