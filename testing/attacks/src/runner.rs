//! Running the selected attacks and printing the table.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::json;

use crate::attack::{Arena, Attack, Confinement, Failure, Outcome};
use crate::open::OPEN;
use crate::scene::{Scene, model, traffic, words};

/// The number of attacks that run at once.
const THREADS: usize = 4;

/// The attacks to run and the form of their results.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Beginnings of names; empty selects every attack.
    pub(crate) names: Vec<String>,
    pub(crate) is_json: bool,
}

impl Selection {
    fn has(&self, attack: &Attack) -> bool {
        let mut names = self.names.iter();
        self.names.is_empty() || names.any(|name| attack.name.starts_with(name.as_str()))
    }
}

/// One row of the table.
struct Row {
    attack: Attack,
    confinement: Option<Confinement>,
}

impl Row {
    fn name(&self) -> String {
        match self.confinement {
            Some(confinement) => format!("{} [{}]", self.attack.name, confinement.word()),
            None => self.attack.name.to_owned(),
        }
    }
}

/// Prints the selected attacks.
pub(crate) fn list(attacks: &[Attack], selection: &Selection) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for attack in attacks.iter().filter(|attack| selection.has(attack)) {
        let position = attack.position.word();
        writeln!(out, "{:<40} {position:<6} {}", attack.name, attack.promise)?;
    }
    Ok(true)
}

/// Runs the selected attacks; returns whether each promise was kept.
pub(crate) fn run(attacks: &[Attack], selection: &Selection, arena: &Arena) -> io::Result<bool> {
    let started = Instant::now();
    let mut rows = Vec::new();
    for attack in attacks.iter().filter(|attack| selection.has(attack)) {
        let both = [Some(Confinement::Landlock), Some(Confinement::Bubblewrap)];
        let confinements = if attack.is_confined {
            &both[..]
        } else {
            &[None]
        };
        rows.extend(confinements.iter().map(|confinement| Row {
            attack: *attack,
            confinement: *confinement,
        }));
    }
    let unavailable = [Confinement::Landlock, Confinement::Bubblewrap]
        .map(|confinement| is_unavailable(arena, confinement));
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(row) = rows.get(at) else { break };
                    let is_missing = row
                        .confinement
                        .is_some_and(|confinement| unavailable[confinement as usize]);
                    let outcome = if is_missing {
                        Err(Failure::Skipped("not available here".to_owned()))
                    } else {
                        attempt(row, arena)
                    };
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.insert(at, outcome);
                }
            });
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let outcomes: Vec<Outcome> = outcomes.into_values().collect();
    print(&rows, &outcomes, selection.is_json, started)
}

/// Returns whether commands do not run with this mechanism.
fn is_unavailable(arena: &Arena, confinement: Confinement) -> bool {
    let arena = Arena {
        confinement: Some(confinement),
        ..arena.clone()
    };
    let runs = || -> Result<bool, Failure> {
        let scene = Scene::new(&arena)?;
        let server = model(&[("t", words(["34"]))])?;
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"t\" command=\"expr 1200 +\"/>\n",
        )?;
        let run = scene.logue(["run", "--no-save", "p.md", "go"]);
        run.with_server(&server).with_trust().run()?;
        // The arguments contain no result: without a running command, no attack would show anything.
        Ok(traffic(&server).contains("1234"))
    };
    !runs().unwrap_or(false)
}

fn attempt(row: &Row, arena: &Arena) -> Outcome {
    let arena = Arena {
        confinement: row.confinement,
        ..arena.clone()
    };
    let function = row.attack.run;
    std::panic::catch_unwind(|| function(&arena))
        .unwrap_or_else(|_| Err(Failure::Control("the attack panicked".to_owned())))
}

fn print(rows: &[Row], outcomes: &[Outcome], is_json: bool, started: Instant) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    let mut counts = [0; 4];
    for (row, outcome) in rows.iter().zip(outcomes) {
        let open = OPEN.iter().find(|(name, _)| *name == row.attack.name);
        let (at, word, reason) = match (outcome, open) {
            (Ok(()), _) => (0, "held", String::new()),
            (Err(Failure::Skipped(reason)), _) => (2, "skipped", reason.clone()),
            (Err(_), Some((_, reason))) => (3, "OPEN", (*reason).to_owned()),
            (Err(Failure::Broken(reason)), None) => (1, "BROKEN", reason.clone()),
            (Err(Failure::Control(reason)), None) => {
                (1, "BROKEN", format!("the attack did not begin: {reason}"))
            }
        };
        counts[at] += 1;
        let (name, position, promise) =
            (row.name(), row.attack.position.word(), row.attack.promise);
        if is_json {
            let line = json!({"attack": name, "position": position, "promise": promise,
                "result": word, "reason": reason});
            writeln!(out, "{line}")?;
        } else {
            let reason = if reason.is_empty() {
                reason
            } else {
                format!(": {reason}")
            };
            writeln!(out, "{name:<40} {position:<6} {promise:<64} {word}{reason}")?;
        }
    }
    let [held, broken, skipped, open] = counts;
    let seconds = started.elapsed().as_secs();
    if is_json {
        let line = json!({"held": held, "broken": broken, "skipped": skipped, "open": open,
            "seconds": seconds});
        writeln!(out, "{line}")?;
    } else {
        let total = rows.len();
        writeln!(
            out,
            "{total} attacks: {held} held, {broken} broken, {skipped} skipped, {open} open; {seconds} s"
        )?;
    }
    Ok(broken == 0)
}
