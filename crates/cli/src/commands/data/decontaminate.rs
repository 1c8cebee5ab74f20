//! `logue data decontaminate`: finds texts of benchmarks in rows.

use std::path::{Path, PathBuf};

use logue_data::contamination::{BenchmarkIndex, BenchmarkRow, ContaminatedSpan, benchmark_texts};
use logue_data::{
    FieldPath, InputForm, Inputs, Refusal, Row, RowOutput, RowTurn, Run, read_rows, turns,
};
use serde_json::json;

use crate::arguments::DecontaminateArgs;
use crate::commands::data::report::file_name;
use crate::commands::data::run::{beside, failure, input_names, require_files, run, threads};
use crate::counted::{amount, counted};
use crate::exit::{CliError, Exit};
use crate::terminal::print_error;

pub(crate) fn decontaminate(arguments: &DecontaminateArgs) -> Result<Exit, CliError> {
    let files = &arguments.files;
    let search = Search {
        index: index(arguments)?,
        benchmarks: &arguments.against,
        names: input_names(files),
        fields: arguments.fields.iter().map(FieldPath::new).collect(),
    };
    let command = format!(
        "decontaminate {:?} {} {} {:?}",
        arguments.against, arguments.words, arguments.remove, arguments.fields
    );
    if arguments.remove {
        write_evidence(arguments, &search, &command)?;
    }
    let tally = run(files, command, |row, output| {
        let turns = turns(row.bytes, &search.fields)?;
        let spans = search.index.spans(&turns);
        if let Some(first) = spans.first() {
            let text = || search.first(first);
            let count = spans.len() as u64;
            output
                .tally
                .find("text of a benchmark", count, row.place, text);
        }
        if !arguments.remove {
            search.write(row, &turns, &spans, output);
        } else if spans.is_empty() {
            output.copy(row.bytes);
        }
        Ok(())
    })?;
    Ok(if tally.refusals() > 0 {
        Exit::Findings
    } else {
        Exit::Done
    })
}

/// Reads the benchmarks.
fn index(arguments: &DecontaminateArgs) -> Result<BenchmarkIndex, CliError> {
    let mut index = BenchmarkIndex::new(arguments.words.get());
    for (file, path) in (0_u32..).zip(&arguments.against) {
        let is_text = path
            .extension()
            .is_some_and(|extension| extension == "txt" || extension == "md");
        let inputs = Inputs::new(vec![path.clone()], is_text.then_some(InputForm::Lines));
        let read = read_rows(
            inputs,
            threads(arguments.files.jobs),
            |row| Ok(benchmark_texts(row.bytes)),
            |place, texts| {
                if let Ok(texts) = texts {
                    let line = place.line;
                    index.add(BenchmarkRow { file, line }, &texts);
                }
                Ok(())
            },
        );
        read.map_err(|error| failure(&error))?;
    }
    let index = index.finished();
    if index.texts() == 0 {
        return Err(CliError::user(
            "E-JSON-SHAPE",
            "the benchmarks have no text of enough words",
        )
        .with_help("name files with the texts of questions and answers"));
    }
    if index.too_short() > 0 {
        let texts = counted(amount(index.too_short()), "text");
        print_error(&format!(
            "{texts} of the benchmarks with too few words to be found\n"
        ));
    }
    Ok(index)
}

/// Writes what is found, before the rows without it are written.
fn write_evidence(
    arguments: &DecontaminateArgs,
    search: &Search<'_>,
    command: &str,
) -> Result<(), CliError> {
    let files = &arguments.files;
    let named = arguments.evidence.as_ref();
    let Some(output) = beside(named, files.output.as_ref(), ".contaminated.jsonl") else {
        return Ok(());
    };
    require_files(&search.names, "twice")?;
    let evidence = Run {
        inputs: Inputs::new(search.names.clone(), None),
        output,
        quarantine: None,
        threads: threads(files.jobs),
        command: command.to_owned(),
        restart: files.restart,
    };
    let written = evidence.each(
        |row, output| {
            let turns = turns(row.bytes, &search.fields)?;
            let spans = search.index.spans(&turns);
            search.write(row, &turns, &spans, output);
            Ok::<_, Refusal>(())
        },
        |_| {},
    );
    written.map(drop).map_err(|error| failure(&error))
}

struct Search<'a> {
    index: BenchmarkIndex,
    benchmarks: &'a [PathBuf],
    names: Vec<PathBuf>,
    fields: Vec<FieldPath>,
}

impl Search<'_> {
    /// Appends a line for each span.
    fn write(
        &self,
        row: Row<'_>,
        turns: &[RowTurn<'_>],
        spans: &[ContaminatedSpan],
        output: &mut RowOutput<'_>,
    ) {
        for span in spans {
            let Some(turn) = turns.get(span.turn) else {
                continue;
            };
            let line = json!({
                "file": file_name(&self.names, row.place.file),
                "line": row.place.line,
                "row_number": row.place.row + 1,
                "turn": span.turn,
                "speaker": turn.speaker,
                "start": span.start,
                "end": span.end,
                "words": span.words,
                "text": turn.text.get(span.start..span.end),
                "benchmark": {
                    "file": self.benchmark(span),
                    "line": span.benchmark.line,
                    "words": span.benchmark_words,
                },
            });
            output.bytes.extend_from_slice(line.to_string().as_bytes());
            output.bytes.push(b'\n');
        }
    }

    fn benchmark(&self, span: &ContaminatedSpan) -> String {
        let path = self.benchmarks.get(span.benchmark.file as usize);
        path.map_or_else(String::new, |path: &PathBuf| {
            Path::display(path).to_string()
        })
    }

    fn first(&self, span: &ContaminatedSpan) -> String {
        let (name, line) = (self.benchmark(span), span.benchmark.line);
        format!("turn {}: {} words of {name}:{line}", span.turn, span.words)
    }
}
