//! The work on all rows of a data set: input, threads, output, quarantine, progress.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::batch::{Position, RowBatch};
use crate::columns::Columns;
use crate::error::DataError;
use crate::in_order::in_order_by_size;
use crate::input::Inputs;
use crate::output::{OutputForm, Partial, ProgressFile, Saved};
use crate::refusal::Refusal;
use crate::row::{Place, Row};
use crate::tally::Tally;

/// The time between two records of the progress.
const SAVED_EACH: Duration = Duration::from_millis(500);

/// A run over a data set.
pub struct Run {
    /// The rows.
    pub inputs: Inputs,
    /// The output, whose extension names its form; `-` is standard output, as lines.
    pub output: PathBuf,
    /// The file of refused rows, as JSON lines. Without one they are only counted and reported.
    pub quarantine: Option<PathBuf>,
    /// The number of threads that work on rows.
    pub threads: usize,
    /// Everything that determines the output except the inputs, such as the command line.
    ///
    /// A run with the same inputs and the same text continues an interrupted one.
    pub command: String,
    /// Whether an interrupted run is not continued.
    pub restart: bool,
}

/// The output of a row while it is worked on.
pub struct RowOutput<'o> {
    /// The bytes of the output; each line ends in a newline.
    pub bytes: &'o mut Vec<u8>,
    /// The counts of the batch; `rows` and `refused` are counted by the run.
    pub tally: &'o mut Tally,
}

impl RowOutput<'_> {
    /// Appends a row as one line.
    pub fn copy(&mut self, row: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        let copied = self.bytes.get_mut(start..).unwrap_or_default();
        if memchr::memchr2(b'\n', b'\r', copied).is_some() {
            // Line ends in JSON are between its tokens.
            for byte in copied {
                if matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        self.bytes.push(b'\n');
    }
}

/// Events of a run, in the order of the rows.
pub enum Event<'e> {
    /// The run continues an interrupted one after this number of rows.
    Resumed {
        /// The rows that the earlier run finished.
        rows: u64,
    },
    /// A row was refused.
    Refused {
        /// The bytes of the row.
        row: Row<'e>,
        /// The reason.
        refusal: &'e Refusal,
    },
    /// A batch is finished.
    Batch {
        /// The counts so far.
        tally: &'e Tally,
    },
    /// Rows that were worked on became columns.
    Columns {
        /// The bytes of their lines.
        bytes: u64,
    },
}

/// The result of a batch.
struct Done {
    batch: RowBatch,
    output: std::io::Result<Vec<u8>>,
    columns: Columns,
    refused: Vec<(usize, Refusal)>,
    tally: Tally,
}

impl Run {
    /// Works on every row in several threads, and writes the output in order.
    ///
    /// `work` appends the output of a row, or refuses it; a refused row leaves no output. The
    /// output and the quarantine do not depend on the number of threads, nor on earlier runs that
    /// were interrupted. Memory is bounded by a few batches for each thread.
    ///
    /// # Errors
    /// Returns [`DataError`] if an input cannot be read or an output cannot be written. What was
    /// written until then stays for the next run.
    pub fn each(
        self,
        work: impl Fn(Row<'_>, &mut RowOutput<'_>) -> Result<(), Refusal> + Sync,
        mut watch: impl FnMut(Event<'_>),
    ) -> Result<Tally, DataError> {
        let form = OutputForm::of(&self.output);
        let mut output = opened_output(&self.output, form)?;
        let mut quarantine = match &self.quarantine {
            Some(path) => Some(Partial::open(path)?),
            None => None,
        };
        let progress = ProgressFile::new(&self.output, &self.command, self.inputs.files());
        let saved = match &progress {
            Some(progress) if !self.restart => progress
                .read()
                .filter(|saved| fits(saved, &output, quarantine.as_ref())),
            _ => None,
        };
        let (mut tally, mut columns) = (Tally::default(), Columns::default());
        let mut position = Position::default();
        let (mut kept, mut inputs) = ((0, 0), self.inputs);
        if let Some(saved) = saved {
            kept = (saved.output, saved.quarantine);
            inputs = inputs.starting_at(saved.next);
            tally = saved.tally;
            columns = saved.columns;
            position = saved.next;
            watch(Event::Resumed { rows: tally.rows });
        } else if let Some(progress) = &progress {
            // Lengths of an earlier run must not be applied to the files of this one.
            progress.remove();
        }
        output.keep(kept.0)?;
        if let Some(quarantine) = &mut quarantine {
            quarantine.keep(kept.1)?;
        }
        let names = inputs.files().clone();
        let mut last_saved = Instant::now();
        let take = |done: Result<Done, DataError>| {
            let done = done?;
            let bytes = done.output.map_err(DataError::write(&self.output))?;
            output.write(&bytes)?;
            for (number, refusal) in &done.refused {
                let Some(row) = done.batch.rows().nth(*number) else {
                    continue;
                };
                watch(Event::Refused { row, refusal });
                if let Some(quarantine) = &mut quarantine {
                    let file = names.get(row.place.file as usize);
                    let name = file.map(|path| path.display().to_string());
                    let line = quarantined(name.as_deref(), row, refusal)
                        .map_err(|error| DataError::write(&self.output)(error.into()))?;
                    quarantine.write(&line)?;
                }
            }
            tally.add(done.tally);
            columns.add(done.columns);
            position = done.batch.end;
            watch(Event::Batch { tally: &tally });
            if let Some(progress) = &progress
                && last_saved.elapsed() >= SAVED_EACH
            {
                let lengths = synced(&output, quarantine.as_ref())?;
                progress.save(position, lengths, &tally, &columns)?;
                last_saved = Instant::now();
            }
            Ok(ControlFlow::Continue(()))
        };
        let one = |batch: Result<RowBatch, DataError>| batch.map(|b| batch_done(b, &work, form));
        let next = move || inputs.batch();
        in_order_by_size(self.threads, RowBatch::size, next, one, take)?;
        #[cfg(feature = "parquet")]
        if form == OutputForm::Parquet {
            if let Some(progress) = &progress {
                let lengths = synced(&output, quarantine.as_ref())?;
                progress.save(position, lengths, &tally, &columns)?;
            }
            output.finish_as_columns(&columns, self.threads, |bytes| {
                watch(Event::Columns { bytes });
            })?;
        } else {
            output.finish()?;
        }
        #[cfg(not(feature = "parquet"))]
        output.finish()?;
        match quarantine {
            // An earlier run may have refused rows that are mended now.
            Some(quarantine) if tally.refused.is_empty() => quarantine.discard(),
            Some(quarantine) => quarantine.finish()?,
            None => {}
        }
        if let Some(progress) = &progress {
            progress.remove();
        }
        Ok(tally)
    }
}

/// Opens and locks the output, before the progress is read.
fn opened_output(path: &Path, form: OutputForm) -> Result<Partial, DataError> {
    if cfg!(not(feature = "parquet")) && form == OutputForm::Parquet {
        let error = std::io::Error::other("this build has no Parquet");
        return Err(DataError::write(path)(error));
    }
    let output = Partial::open(path)?;
    if form == OutputForm::Parquet && !output.is_file() {
        let error = std::io::Error::other("Parquet requires a file");
        return Err(DataError::write(path)(error));
    }
    Ok(output)
}

/// Returns whether the files of an interrupted run have the recorded lengths.
fn fits(saved: &Saved, output: &Partial, quarantine: Option<&Partial>) -> bool {
    output.length() >= saved.output
        && quarantine.is_none_or(|quarantine| quarantine.length() >= saved.quarantine)
}

/// Waits until the outputs are on disk, and returns their lengths.
fn synced(output: &Partial, quarantine: Option<&Partial>) -> Result<(u64, u64), DataError> {
    output.sync()?;
    let Some(quarantine) = quarantine else {
        return Ok((output.length(), 0));
    };
    quarantine.sync()?;
    Ok((output.length(), quarantine.length()))
}

fn batch_done(
    batch: RowBatch,
    work: &(impl Fn(Row<'_>, &mut RowOutput<'_>) -> Result<(), Refusal> + Sync),
    form: OutputForm,
) -> Done {
    let mut tally = Tally::default();
    let mut bytes = Vec::with_capacity(batch.len());
    let mut refused = Vec::new();
    for (number, row) in batch.rows().enumerate() {
        tally.rows += 1;
        let before = bytes.len();
        let mut output = RowOutput {
            bytes: &mut bytes,
            tally: &mut tally,
        };
        let done = match batch.refusal(number) {
            Some(refusal) => Err(refusal),
            None => work(row, &mut output),
        };
        match done {
            Ok(()) => {
                let fresh = bytes.get(before..).unwrap_or_default();
                tally.written += memchr::memchr_iter(b'\n', fresh).count() as u64;
            }
            Err(refusal) => {
                bytes.truncate(before);
                let finding = &refusal.finding;
                tally.refuse(finding.code.as_str(), row.place, || finding.message.clone());
                refused.push((number, refusal));
            }
        }
    }
    let mut columns = Columns::default();
    if form == OutputForm::Parquet {
        for line in bytes.split(|byte| *byte == b'\n') {
            columns.observe(line);
        }
    }
    let output = if columns.has_cut_name() {
        Err(std::io::Error::other(
            "a member has NUL in its name, which readers of Parquet cut; rename it, or write .jsonl",
        ))
    } else {
        form.compress(bytes)
    };
    Done {
        batch,
        output,
        columns,
        refused,
        tally,
    }
}

/// Returns whether readers of the quarantine accept a text as a member of its line.
///
/// They decode its texts, which lone surrogates prevent, and limit the depth.
fn is_readable(text: &str) -> bool {
    struct Decoded;
    impl<'de> Deserialize<'de> for Decoded {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Self)
        }
    }
    impl<'de> Visitor<'de> for Decoded {
        type Value = Self;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("JSON")
        }

        fn visit_unit<E>(self) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self, E> {
            Ok(self)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
            while items.next_element::<Self>()?.is_some() {}
            Ok(self)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
            while members.next_entry::<Self, Self>()?.is_some() {}
            Ok(self)
        }
    }
    // The row is one level deeper in the line.
    serde_json::from_str::<Decoded>(&format!("[{text}]")).is_ok()
}

/// A line of the quarantine.
#[derive(Serialize)]
struct Quarantined<'q> {
    file: Option<&'q str>,
    line: u64,
    column: u64,
    row_number: u64,
    code: &'q str,
    message: &'q str,
    help: &'q [String],
    /// The row, or its text as a string if it is not JSON.
    row: Box<RawValue>,
    /// The bytes of a row that is not UTF-8, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    row_bytes: Option<String>,
}

/// Returns the line of the quarantine for a row.
fn quarantined(
    name: Option<&str>,
    row: Row<'_>,
    refusal: &Refusal,
) -> Result<Vec<u8>, serde_json::Error> {
    let Place { line, column, .. } = refusal.place_in(row);
    let finding = &refusal.finding;
    let text = String::from_utf8_lossy(row.bytes);
    // Line ends in JSON are between its tokens.
    let raw_line = || RawValue::from_string(text.replace(['\n', '\r'], " "));
    let raw = match is_readable(&text).then(raw_line) {
        Some(Ok(raw)) => raw,
        _ => serde_json::value::to_raw_value(&text)?,
    };
    let is_text = std::str::from_utf8(row.bytes).is_ok();
    let row_bytes = (!is_text).then(|| {
        row.bytes.iter().fold(String::new(), |mut digits, byte| {
            // Writing to a string cannot fail.
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    });
    let mut line = serde_json::to_vec(&Quarantined {
        file: name,
        line,
        column,
        row_number: row.place.row + 1,
        code: finding.code.as_str(),
        message: &finding.message,
        help: &finding.help,
        row: raw,
        row_bytes,
    })?;
    line.push(b'\n');
    Ok(line)
}
