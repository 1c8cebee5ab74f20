//! The description of an attack and its verdict.

use std::io;
use std::path::PathBuf;

/// The position of an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The author of a prompt or of a checkout.
    Author,
    /// The model, or a server or page that answers.
    Model,
    /// Another user or program of the machine.
    Local,
}

impl Position {
    /// Returns the word of the table.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Author => "author",
            Self::Model => "model",
            Self::Local => "local",
        }
    }
}

/// A mechanism that confines commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confinement {
    Landlock,
    Bubblewrap,
}

impl Confinement {
    /// Returns the value of the setting `sandbox`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Bubblewrap => "bwrap",
        }
    }
}

/// The programs and settings that all attacks use.
#[derive(Clone, Debug)]
pub(crate) struct Arena {
    /// The attacked program.
    pub(crate) logue: PathBuf,
    /// This program, which commands of prompts run as `probe`.
    pub(crate) probe: PathBuf,
    /// The mechanism for the commands of this attack.
    pub(crate) confinement: Option<Confinement>,
    /// The number of accesses of a race.
    pub(crate) rounds: usize,
}

/// The reason for which an attack is not reported as held.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The attack succeeded.
    Broken(String),
    /// The attack did not begin, so that nothing was shown.
    Control(String),
    /// The machine does not permit the attack.
    Skipped(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Control(error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Control(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Control(error.to_string())
    }
}

pub(crate) type Outcome = Result<(), Failure>;

/// Fails the attack as broken unless the promise is kept.
pub(crate) fn promise(is_kept: bool, violation: impl Into<String>) -> Outcome {
    if is_kept {
        Ok(())
    } else {
        Err(Failure::Broken(violation.into()))
    }
}

/// Fails the attack as unproven unless its set-up had the expected effect.
pub(crate) fn control(is_met: bool, failure: impl Into<String>) -> Outcome {
    if is_met {
        Ok(())
    } else {
        Err(Failure::Control(failure.into()))
    }
}

/// Fails the attack as impossible on this machine.
pub(crate) fn skip<T>(reason: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Skipped(reason.into()))
}

/// An attack and the promise that it tries to break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) position: Position,
    pub(crate) promise: &'static str,
    pub(crate) run: fn(&Arena) -> Outcome,
    /// Whether the attack runs once with each mechanism of confinement.
    pub(crate) is_confined: bool,
}

impl Attack {
    const fn new(
        position: Position,
        name: &'static str,
        promise: &'static str,
        run: fn(&Arena) -> Outcome,
    ) -> Self {
        Self {
            name,
            position,
            promise,
            run,
            is_confined: false,
        }
    }

    /// Creates an attack by the author of a prompt or checkout.
    pub(crate) const fn author(
        name: &'static str,
        promise: &'static str,
        run: fn(&Arena) -> Outcome,
    ) -> Self {
        Self::new(Position::Author, name, promise, run)
    }

    /// Creates an attack by a model, server or page.
    pub(crate) const fn model(
        name: &'static str,
        promise: &'static str,
        run: fn(&Arena) -> Outcome,
    ) -> Self {
        Self::new(Position::Model, name, promise, run)
    }

    /// Creates an attack by another user or program of the machine.
    pub(crate) const fn local(
        name: &'static str,
        promise: &'static str,
        run: fn(&Arena) -> Outcome,
    ) -> Self {
        Self::new(Position::Local, name, promise, run)
    }

    /// Runs the attack once with each mechanism of confinement.
    #[must_use]
    pub(crate) const fn confined(mut self) -> Self {
        self.is_confined = true;
        self
    }
}
