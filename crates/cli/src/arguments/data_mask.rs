//! The command line of `logue data mask`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use logue_data::mask::{
    Classes, Columns, MarkKeys, MaskForm, MaskOptions, ReasoningPolicy, RowShape, SpanClass,
    TrainedRoles, Truncation,
};
use openchatml::harmony::ReasoningEffort;

use crate::arguments::DataFileArgs;

/// Render conversations to token ids and loss masks
///
/// Spans of what the model emits come from the writer of the form. A row whose mask would be empty,
/// without a trained stop token or a guess goes to the quarantine with an error code, and the exit status is 8.
#[derive(Debug, Args)]
#[command(after_help = "Example: logue data mask --to harmony -o masked.jsonl train.jsonl")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct DataMaskArgs {
    #[command(flatten)]
    pub(crate) files: DataFileArgs,

    /// Rendered form
    #[arg(long, value_name = "FORM")]
    pub(crate) to: MaskTarget,

    /// Jinja chat template of `--to template`
    #[arg(long, value_name = "FILE", required_if_eq("to", "template"))]
    pub(crate) template: Option<PathBuf>,

    /// Special tokens of the chat template: a `tokenizer_config.json`
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        requires = "template"
    )]
    pub(crate) tokenizer_config: Option<PathBuf>,

    /// Set a variable of the chat template
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAME=JSON",
        requires = "template"
    )]
    pub(crate) variable: Vec<String>,

    /// Stop token of the chat template [default: known ones that it contains]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "NAME",
        requires = "template"
    )]
    pub(crate) stop_token: Vec<String>,

    /// Accept rows whose answers or calls the chat template leaves out
    #[arg(long, hide_short_help = true, requires = "template")]
    pub(crate) allow_dropped: bool,

    /// Tokenizer: `o200k`, or a tokenizer.json file
    #[arg(long, value_name = "NAME|FILE", default_value = "o200k")]
    pub(crate) tokenizer: String,

    /// Train these classes of the assistant's text
    #[arg(long, hide_possible_values = true, value_name = "CLASS", value_delimiter = ',', default_value = "answer,call,reasoning,terminator", value_parser = ["answer", "call", "reasoning", "terminator"])]
    train: Vec<String>,

    /// Train messages of these roles
    #[arg(long, hide_short_help = true, value_name = "ROLE", value_delimiter = ',', default_value = "assistant", value_parser = ["assistant", "user", "system", "tool"])]
    pub(crate) roles: Vec<String>,

    /// Read these marks of messages; `ignore` ignores the others
    #[arg(long, hide_short_help = true, value_name = "KEY", value_delimiter = ',', default_value = "weight", value_parser = ["weight", "train", "train_detail", "loss", "loss_scale", "loss_weight", "ignore"])]
    marks: Vec<String>,

    /// Shape of the rows
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SHAPE",
        default_value = "auto"
    )]
    shape: MaskShape,

    /// Reasoning to render
    #[arg(
        long,
        hide_short_help = true,
        value_name = "POLICY",
        default_value = "finished"
    )]
    reasoning: MaskReasoning,

    /// Train answers whose reasoning was left out
    #[arg(long, hide_short_help = true)]
    train_without_reasoning: bool,

    /// Leave out messages after the last trained one
    #[arg(long, hide_short_help = true)]
    drop_trailing: bool,

    /// Accept rows without a trained stop token
    #[arg(long, hide_short_help = true)]
    allow_untrained_stop: bool,

    /// Allow at most N tokens
    #[arg(long, value_name = "N")]
    max_length: Option<NonZeroUsize>,

    /// Treatment of longer rows: refuse, right or left
    #[arg(
        long,
        value_name = "SIDE",
        default_value = "refuse",
        hide_possible_values = true,
        requires = "max_length"
    )]
    truncate: MaskTruncation,

    /// Write these columns
    #[arg(long, hide_short_help = true, value_name = "COLUMN", value_delimiter = ',', default_value = "input_ids,labels,attention_mask,assistant_masks", value_parser = ["input_ids", "labels", "attention_mask", "assistant_masks", "text", "spans"])]
    columns: Vec<String>,

    /// Reasoning effort in the system message of Harmony
    #[arg(
        long,
        hide_short_help = true,
        value_name = "EFFORT",
        default_value = "medium"
    )]
    effort: MaskEffort,

    /// Date in the system message of Harmony, or of a chat template [default: none]
    #[arg(long, hide_short_help = true, value_name = "DATE")]
    pub(crate) date: Option<String>,

    /// Print the mask of row N for people, and write no data
    #[arg(long, value_name = "N", conflicts_with_all = ["output", "quarantine", "restart"])]
    pub(crate) show: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MaskTarget {
    /// The format of gpt-oss
    Harmony,
    /// OpenChatML 2.2
    #[value(name = "ocml2.2")]
    OpenChatMl,
    /// Plain `ChatML`
    #[value(name = "chatml")]
    ChatMl,
    /// The chat template of `--template`
    Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MaskShape {
    /// By the keys of each row
    Auto,
    /// Messages of Chat Completions or of data sets
    Chat,
    /// Messages of openai-harmony, rendered as written
    Harmony,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MaskReasoning {
    /// All
    Keep,
    /// Without that of turns before the last one
    Finished,
    /// Without that before the first final answer, as openai-harmony
    First,
    /// None
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MaskTruncation {
    Refuse,
    Right,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MaskEffort {
    Low,
    Medium,
    High,
}

impl DataMaskArgs {
    /// Returns the options of the masks.
    pub(crate) fn options(&self) -> MaskOptions {
        let mut options = MaskOptions::new(match self.to {
            MaskTarget::Harmony => MaskForm::Harmony,
            MaskTarget::OpenChatMl => MaskForm::OpenChatMl,
            // A template takes the place of the form.
            MaskTarget::ChatMl | MaskTarget::Template => MaskForm::ChatMl,
        });
        options.shape = match self.shape {
            MaskShape::Auto => RowShape::Auto,
            MaskShape::Chat => RowShape::Chat,
            MaskShape::Harmony => RowShape::Harmony,
        };
        let classes = self.train.iter().filter_map(|name| SpanClass::parse(name));
        options.classes = classes.collect::<Classes>();
        options.roles = TrainedRoles::NONE;
        options.marks = MarkKeys::NONE;
        // The parser of the command line accepts only names that are known.
        for role in &self.roles {
            options.roles.add(role);
        }
        for key in &self.marks {
            options.marks.add(key);
        }
        options.reasoning = match self.reasoning {
            MaskReasoning::Keep => ReasoningPolicy::Keep,
            MaskReasoning::Finished => ReasoningPolicy::DropFinished,
            MaskReasoning::First => ReasoningPolicy::DropBeforeFirstFinal,
            MaskReasoning::Drop => ReasoningPolicy::Drop,
        };
        options.train_without_reasoning = self.train_without_reasoning;
        options.drop_trailing = self.drop_trailing;
        options.allow_untrained_stop = self.allow_untrained_stop;
        options.max_tokens = self.max_length.map(NonZeroUsize::get);
        options.truncation = match self.truncate {
            MaskTruncation::Refuse => Truncation::Refuse,
            MaskTruncation::Right => Truncation::Right,
            MaskTruncation::Left => Truncation::Left,
        };
        options.effort = match self.effort {
            MaskEffort::Low => ReasoningEffort::Low,
            MaskEffort::Medium => ReasoningEffort::Medium,
            MaskEffort::High => ReasoningEffort::High,
        };
        options.date.clone_from(&self.date);
        options
    }

    /// Returns whether the policy of reasoning is the default.
    pub(crate) fn has_default_reasoning(&self) -> bool {
        self.reasoning == MaskReasoning::Finished
    }

    /// Returns the columns of the output.
    pub(crate) fn output_columns(&self) -> Columns {
        let mut columns = Columns::NONE;
        for name in &self.columns {
            columns.add(name);
        }
        columns
    }
}
