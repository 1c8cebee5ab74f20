//! Training data from conversations: rows are converted, masked, checked, deduplicated and split.
//!
//! ```text
//! files ─▶ batches of rows ─▶ one function for each row, in several threads ─▶ output, in order
//!                                        └─▶ refused rows ─▶ quarantine, with code and place
//! ```
//!
//! A [`Row`] is a JSON object in the bytes of its batch. A function of this crate takes a row and
//! appends its output, or returns a [`Refusal`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod bpe;
mod columns;
pub mod contamination;
pub mod convert;
pub mod duplicates;
mod error;
pub mod examine;
mod hash;
mod in_order;
mod input;
pub mod mask;
mod output;
mod reading;
mod refusal;
mod row;
mod row_set;
mod row_text;
mod row_turns;
mod run;
mod run_files;
mod sample;
mod split;
mod tally;
mod template;
mod tokenizer;
mod words;

pub use batch::{MAX_ROW_BYTES, Position, RowBatch};
pub use bpe::HfTokenizer;
pub use error::DataError;
pub use in_order::in_order;
pub use input::{InputForm, Inputs};
pub use output::OutputForm;
pub use reading::read_rows;
pub use refusal::Refusal;
pub use row::{Place, Row};
pub use row_set::RowSet;
pub use row_text::row_text;
pub use row_turns::{FieldPath, RowTurn, turns};
pub use run::{Event, RowOutput, Run};
pub use run_files::{FileConflict, RunFiles};
pub use sample::{SampleRules, SampleSize, choose_sample};
pub use split::{Split, SplitPart, SplitRules, split};
pub use tally::{Count, Tally};
pub use template::{ChatTemplate, TemplateDate, TemplateOptions};
pub use tokenizer::{O200k, Tokenizer};
