//! Somebody who can be asked while a turn runs.

use logue_harness::BoxFuture;
use logue_message::ToolCall;
use logue_tools::Preview;

use crate::permission::decision_source::Authority;

/// Asks a person whether a call may run, at once.
pub trait Asker: Send + Sync {
    /// The person's answer; `None` if they give none, so that the turn waits for a signal. Dropping
    /// the future takes the question back.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Option<Answer>>;
}

/// A call that a person is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// What it would do, if its arguments do not say it all.
    pub preview: Option<&'a Preview>,
    /// Why a person is asked.
    pub why: &'a Authority,
}

/// What a person says about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may run.
    pub approved: bool,
    /// Words for the model.
    pub note: String,
    /// Whether they were asked now, or had said it of all calls of the tool before.
    pub asked: bool,
}
