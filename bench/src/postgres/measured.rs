//! The measurements of the programs, and their tables.

use std::path::PathBuf;

use serde_json::Value;
use testkit::postgres::{Database, PostgresServer};

use super::append::Bare;
use super::program::Program;
use super::relay::Relay;
use crate::harness::{Failed, as_float};

/// Processes that write to one session, clients of each, and turns of each client.
const WRITERS: (usize, usize, usize) = (2, 4, 10);
/// Approvals, each of which is delivered twice.
const APPROVALS: usize = 20;
/// Turns after which the stored bytes are counted.
const TURNS: usize = 400;
/// Turns of Logue's long session.
const LONG: usize = 10_000;
/// Turns on each side of a turn whose times give its median.
const WINDOW: usize = 9;
/// Turns before the counted ones, and the counted ones.
const COUNTED: (usize, usize) = (20, 100);
/// Rounds of a rate; the median counts.
const ROUNDS: usize = 3;
/// Sessions side by side, and turns of each.
const RATES: [(usize, usize); 2] = [(1, 100), (32, 20)];
/// Clients that append, and nodes that they are spread over.
const APPENDS: [(usize, usize); 4] = [(1, 1), (8, 2), (32, 8), (32, 1)];

/// The bytes of all tables with their indexes.
const SIZE: &str = "select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c \
    join pg_namespace n on n.oid = c.relnamespace where c.relkind in ('r', 'm') \
    and n.nspname not in ('pg_catalog', 'information_schema')";
/// The rows that were inserted, updated and deleted.
const ROWS: &str =
    "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) from pg_stat_user_tables";
/// The bytes of the write-ahead log.
const LOG: &str = "select pg_current_wal_lsn() - '0/0'";
/// The flushes of that log, by operations and by the writer that makes others durable later.
const FLUSHES: &str = "select wal_sync from pg_stat_wal";

/// The server, the programs and the texts of a run.
pub(super) struct Bench {
    server: PostgresServer,
    programs: Vec<Program>,
    texts: Vec<String>,
    folder: tempfile::TempDir,
}

/// A goal of Logue, and what was measured.
pub(super) struct Goal {
    name: String,
    measured: f64,
    bound: f64,
    is_least: bool,
}

impl Goal {
    fn at_most(name: impl Into<String>, measured: f64, bound: f64) -> Self {
        Self {
            name: name.into(),
            measured,
            bound,
            is_least: false,
        }
    }

    fn at_least(name: impl Into<String>, measured: f64, bound: f64) -> Self {
        Self {
            is_least: true,
            ..Self::at_most(name, measured, bound)
        }
    }

    /// Prints goals as a table.
    pub(super) fn print(goals: &[Self]) {
        println!("\n| promise of Logue | measured | goal | reached? |\n|---|---|---|---|");
        for goal in goals {
            let (sign, is_reached) = if goal.is_least {
                ("≥", goal.measured >= goal.bound)
            } else {
                ("≤", goal.measured <= goal.bound)
            };
            let reached = if is_reached { "yes" } else { "NO" };
            let (name, measured, bound) = (&goal.name, goal.measured, goal.bound);
            println!("| {name} | {measured:.2} | {sign} {bound} | {reached} |");
        }
    }
}

/// The counters of a database.
struct Counters {
    rows: f64,
    trips: f64,
    log: f64,
    flushes: f64,
}

impl Bench {
    pub(super) fn new(
        server: PostgresServer,
        programs: Vec<Program>,
        texts: Vec<String>,
    ) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let lines: Vec<String> = texts
            .iter()
            .map(|text| Value::from(text.as_str()).to_string())
            .collect();
        std::fs::write(folder.path().join("texts"), lines.join("\n"))?;
        Ok(Self {
            server,
            programs,
            texts,
            folder,
        })
    }

    /// Prints the versions and settings of the programs.
    pub(super) fn print_about(&self) -> Result<(), Failed> {
        let version = self.server.maintenance().query("show server_version")?;
        println!("PostgreSQL {version}, default settings, full durability, Unix socket");
        if let Some(peer) = self.programs.get(1) {
            for line in peer.lines(&["about"])? {
                println!("LangGraph: {line}");
            }
        }
        Ok(())
    }

    /// Lost messages of concurrent writers, and effects of approvals that are delivered twice.
    pub(super) fn print_promises(&self, goals: &mut Vec<Goal>) -> Result<(), Failed> {
        let (writers, clients, turns) = WRITERS;
        println!(
            "\n| program | lost of the answered messages, {writers} processes with {clients} clients in one \
             session | effects of {APPROVALS} approvals, each delivered twice at once |"
        );
        println!("|---|---|---|");
        let (clients, turns) = (clients.to_string(), turns.to_string());
        for program in &self.programs {
            let database = self.database(program)?;
            let names: Vec<String> = (0..writers).map(|writer| format!("w{writer}")).collect();
            let url = database.url();
            let words: Vec<Vec<&str>> = names
                .iter()
                .map(|name| vec!["write", &url, name, &clients, &turns])
                .collect();
            let answered = strings(&program.lines_at_once(&words)?, "answered");
            let stored = strings(&program.lines(&["read", &database.url()])?, "message");
            let lost = answered.iter().filter(|text| !stored.contains(text));
            let count = APPROVALS.to_string();
            let approvals = program.lines(&["approve", &database.url(), &count])?;
            let effects: f64 = numbers(&approvals, "effects").iter().sum();
            let lost = lost.count();
            println!(
                "| {} | {lost} of {} | {effects} |",
                program.name,
                answered.len()
            );
            if program.is_own() {
                goals.push(Goal::at_most("lost messages", as_float(lost), 0.0));
                let each = effects / as_float(APPROVALS);
                goals.push(Goal::at_most("effects of an approval", each, 1.0));
            }
        }
        Ok(())
    }

    /// Stored bytes and times of a session of 400 turns, and the cost of a turn.
    pub(super) fn print_growth(&self, goals: &mut Vec<Goal>) -> Result<(), Failed> {
        let text: usize = self.spoken(TURNS);
        println!(
            "\n| program | stored after {TURNS} turns ({} KB of text) | × the text | turn 10 | turn {TURNS} | \
             ratio | rows a turn | round trips a turn | log (WAL) a turn | flushes a turn |",
            text / 1_000
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
        let mut own = None;
        for program in &self.programs {
            let database = self.database(program)?;
            let turns = self.long(program, &database.url(), TURNS)?;
            let size = self.size(&database)?;
            let (early, late) = (median_at(&turns, 10), median_at(&turns, TURNS));
            let cost = self.cost(program)?;
            if program.is_own() {
                own = Some((program, size));
                let stored = "bytes stored after 400 turns / bytes of the text";
                goals.push(Goal::at_most(stored, size / as_float(text), 1.5));
                goals.push(Goal::at_most("turn 400 / turn 10", late / early, 1.3));
                goals.push(Goal::at_most("rows a turn", cost.rows, 8.0));
                goals.push(Goal::at_most("round trips a turn", cost.trips, 6.0));
            }
            println!(
                "| {} | {:.0} KB | {:.2} | {:.1} ms | {:.1} ms | {:.2} | {:.1} | {:.1} | {:.1} KB | {:.1} |",
                program.name,
                size / 1e3,
                size / as_float(text),
                early * 1e3,
                late * 1e3,
                late / early,
                cost.rows,
                cost.trips,
                cost.log / 1e3,
                cost.flushes,
            );
        }
        if let Some((program, size)) = own {
            self.print_further(program, size, goals)?;
        }
        Ok(())
    }

    /// The stored bytes of the schema, and of the turns after the first ones.
    fn print_further(
        &self,
        program: &Program,
        size: f64,
        goals: &mut Vec<Goal>,
    ) -> Result<(), Failed> {
        let (few, many) = (self.database(program)?, self.database(program)?);
        self.long(program, &few.url(), 1)?;
        let schema = self.size(&few)?;
        self.long(program, &many.url(), 2 * TURNS)?;
        let further = self.size(&many)? - size;
        let text = as_float(self.spoken(2 * TURNS) - self.spoken(TURNS));
        println!(
            "\n{}: {:.0} KB with one turn; {:.1} KB for each of the turns {} to {}, {:.2} × their text",
            program.name,
            schema / 1e3,
            further / as_float(TURNS) / 1e3,
            TURNS + 1,
            2 * TURNS,
            further / text,
        );
        let stored = "bytes stored by a further turn / bytes of its text";
        goals.push(Goal::at_most(stored, further / text, 1.5));
        Ok(())
    }

    /// Turns a second, the programs in turn.
    pub(super) fn print_rates(&self, goals: &mut Vec<Goal>) -> Result<(), Failed> {
        println!("\n| program | sessions | turns a second | Logue / it |");
        println!("|---|---|---|---|");
        for (sessions, turns) in RATES {
            let mut rates = vec![Vec::new(); self.programs.len()];
            for _ in 0..ROUNDS {
                for (program, rates) in self.programs.iter().zip(&mut rates) {
                    let database = self.database(program)?;
                    let (count, turns) = (sessions.to_string(), turns.to_string());
                    let words = ["rate", &database.url(), &count, &turns, &self.path()];
                    let lines = program.lines(&words)?;
                    let field = |name| numbers(&lines, name).iter().sum::<f64>();
                    rates.push(field("turns") / field("seconds"));
                }
            }
            let rates: Vec<f64> = rates.iter_mut().map(|rates| median(rates)).collect();
            let own = rates.first().copied().unwrap_or_default();
            if let Some(peer) = rates.get(1).filter(|_| sessions > 1) {
                let name = format!("turns a second, {sessions} sessions / LangGraph's");
                goals.push(Goal::at_least(name, own / peer, 10.0));
            }
            for (program, rate) in self.programs.iter().zip(&rates) {
                println!(
                    "| {} | {sessions} | {rate:.0} | {:.1} |",
                    program.name,
                    own / rate
                );
            }
        }
        Ok(())
    }

    /// The time of turn 10,000 to turn 10, for Logue.
    pub(super) fn print_long(&self, goals: &mut Vec<Goal>) -> Result<(), Failed> {
        let program = self.programs.first().ok_or("no program")?;
        let database = self.database(program)?;
        let turns = self.long(program, &database.url(), LONG)?;
        println!("\n| turn of one session | median time | to turn 10 |");
        println!("|---|---|---|");
        let early = median_at(&turns, 10);
        for turn in [10, 100, 1_000, LONG] {
            let time = median_at(&turns, turn);
            println!("| {turn} | {:.2} ms | {:.2} |", time * 1e3, time / early);
        }
        let late = median_at(&turns, LONG);
        goals.push(Goal::at_most("turn 10,000 / turn 10", late / early, 1.3));
        let (size, text) = (self.size(&database)?, as_float(self.spoken(LONG)));
        println!(
            "\nStored after {LONG} turns: {:.0} KB, {:.2} × the text",
            size / 1e3,
            size / text
        );
        Ok(())
    }

    /// Appends a second, beside the bare statement.
    pub(super) fn print_appends(&self, goals: &mut Vec<Goal>) -> Result<(), Failed> {
        let text = self.texts.first().ok_or("no text")?;
        let bare = Bare::create(self.server.database()?, text)?;
        let program = self.programs.first().ok_or("no program")?;
        println!(
            "\n| clients | nodes of Logue | Logue | pgbench, extended protocol | ratio | pgbench, prepared \
             | ratio |"
        );
        println!("|---|---|---|---|---|---|---|");
        for (clients, nodes) in APPENDS {
            let mut rates = [Vec::new(), Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                let database = self.database(program)?;
                let (count, nodes) = (clients.to_string(), nodes.to_string());
                let words = ["append", &database.url(), &nodes, &count, text];
                let lines = program.lines(&words)?;
                let field = |name| numbers(&lines, name).iter().sum::<f64>();
                let [own, extended, prepared] = &mut rates;
                own.push(field("appends") / field("seconds"));
                extended.push(bare.rate("extended", clients)?);
                prepared.push(bare.rate("prepared", clients)?);
            }
            let [own, extended, prepared] = rates.each_mut().map(|rates| median(rates));
            if clients <= 4 * nodes {
                let name = format!("appends a second, {clients} clients / pgbench's");
                goals.push(Goal::at_least(name, own / extended, 0.6));
            }
            println!(
                "| {clients} | {nodes} | {own:.0}/s | {extended:.0}/s | {:.2} | {prepared:.0}/s | {:.2} |",
                own / extended,
                own / prepared
            );
        }
        Ok(())
    }

    /// Creates a database with the tables of a program.
    fn database(&self, program: &Program) -> Result<Database, Failed> {
        eprintln!("{} …", program.name);
        let database = self.server.database()?;
        program.lines(&["setup", &database.url()])?;
        Ok(database)
    }

    /// Returns the path of the texts.
    fn path(&self) -> String {
        let path: PathBuf = self.folder.path().join("texts");
        path.to_string_lossy().into_owned()
    }

    /// Returns the bytes of what is said in the first turns of a session.
    fn spoken(&self, turns: usize) -> usize {
        let texts = self.texts.iter().cycle().take(2 * turns);
        texts.map(String::len).sum()
    }

    /// Returns the seconds of each turn of a session.
    fn long(&self, program: &Program, url: &str, turns: usize) -> Result<Vec<f64>, Failed> {
        let lines = program.lines(&["long", url, &turns.to_string(), &self.path()])?;
        Ok(numbers(&lines, "seconds"))
    }

    fn size(&self, database: &Database) -> Result<f64, Failed> {
        database.query("vacuum")?;
        self.server.maintenance().query("checkpoint")?;
        Ok(database.query(SIZE)?.parse()?)
    }

    /// Returns the cost of a turn: a process with more turns less one with fewer.
    fn cost(&self, program: &Program) -> Result<Counters, Failed> {
        let (before, counted) = COUNTED;
        let few = self.counters(program, before)?;
        let many = self.counters(program, before + counted)?;
        let each = |many: f64, few: f64| (many - few) / as_float(counted);
        Ok(Counters {
            rows: each(many.rows, few.rows),
            trips: each(many.trips, few.trips),
            log: each(many.log, few.log),
            flushes: each(many.flushes, few.flushes),
        })
    }

    /// Returns what a process with turns in a new session costs.
    fn counters(&self, program: &Program, turns: usize) -> Result<Counters, Failed> {
        let database = self.database(program)?;
        let relay = Relay::start(self.server.socket())?;
        let read = || -> Result<Counters, Failed> {
            Ok(Counters {
                rows: database.query(ROWS)?.parse()?,
                trips: as_float(usize::try_from(relay.trips())?),
                log: database.query(LOG)?.parse()?,
                flushes: database.query(FLUSHES)?.parse()?,
            })
        };
        let before = read()?;
        self.long(program, &relay.url(&database.url()), turns)?;
        let after = read()?;
        Ok(Counters {
            rows: after.rows - before.rows,
            trips: after.trips - before.trips,
            log: after.log - before.log,
            flushes: after.flushes - before.flushes,
        })
    }
}

fn strings(lines: &[Value], field: &str) -> Vec<String> {
    let values = lines.iter().filter_map(|line| line.get(field)?.as_str());
    values.map(str::to_owned).collect()
}

fn numbers(lines: &[Value], field: &str) -> Vec<f64> {
    let values = lines.iter().filter_map(|line| line.get(field)?.as_f64());
    values.collect()
}

/// Returns the median of the times around a turn.
fn median_at(times: &[f64], turn: usize) -> f64 {
    let end = times.len().min(turn + WINDOW);
    let begin = turn.saturating_sub(WINDOW + 1).min(end);
    let window = times.get(begin..end).unwrap_or_default();
    median(&mut window.to_vec())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
