//! The meta-refine pass: a model rewrites a prompt before it runs (ChatMD §10).
//!
//! Only the wording of the prompt part may change, see [`chatmd::refine`]; appended messages stay,
//! and the file is not written. The rewritten prompt is cached by prompt and model, so that a
//! conversation continues from one wording.

use std::sync::Arc;

use chatmd::{parse, refine};
use logue_message::ChatMessage;
use logue_model::{ModelRequest, SamplingSettings};

use crate::agents::response_cache::{ResponseCache, key_of};
use crate::prepare::models::Model;
use crate::record::entry::{RecordEntry, RecordKind, entry_key};
use crate::record::evaluation_record::EvaluationRecord;
use crate::turn::assistant::MAX_TURNS;
use crate::turn::budget::{BUDGET_EXCEEDED, Budget};

/// The instruction for the model.
const INSTRUCTION: &str = "\
You improve prompts that are written in ChatMarkdown, a small set of XML tags in Markdown. \
Make the wording of the prompt that follows clear, complete and unambiguous, and keep what it asks for. \
Keep every <config/>, <tool/>, <import/>, <doc/>, <img/> and <agent> element exactly as it is, keep all \
messages in their order with their tags, and add no element. \
Answer with the whole rewritten prompt and nothing else.";

/// The error of a prompt that could not be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RefineError {
    /// The stable category: the provider's, that of a limit, or `refine_rejected`.
    pub category: String,
    /// The description.
    pub message: String,
    /// Whether a retry may succeed.
    pub is_transient: bool,
}

/// The places of earlier rewritten prompts.
#[derive(Clone, Copy, Debug, Default)]
pub struct RewriteMemory<'a> {
    /// The rewritten prompts of any conversation.
    pub cache: Option<&'a ResponseCache>,
    /// The record of earlier evaluations of the conversation.
    pub record: Option<&'a EvaluationRecord>,
    /// Whether the cache is not read.
    pub is_fresh: bool,
    /// Whether the model is not asked.
    pub is_dry_run: bool,
}

/// Rewrites the prompt part of a text with a model.
///
/// The request counts in `budget`; an earlier result costs nothing. Returns `None` if there is no
/// earlier result and the model is not asked.
///
/// # Errors
/// Returns an error if a limit is reached, or if the model fails or changes more than the wording.
pub async fn refine_prompt(
    name: &str,
    text: &str,
    model: &Model,
    memory: RewriteMemory<'_>,
    budget: &Budget,
) -> Result<Option<String>, RefineError> {
    let length = refine::prompt_length(&parse(text));
    let (prompt, appended) = text.split_at_checked(length).unwrap_or((text, ""));
    let question = [
        ChatMessage::system(INSTRUCTION),
        ChatMessage::user(prompt.to_owned()),
    ];
    let settings = SamplingSettings::default();
    let key = key_of(&model.identity, &settings, &[], &question);
    let entry = entry_key(RecordKind::Prompt, &[&key]);
    let recorded = memory.record.and_then(|record| record.find(&entry));
    let cached = || {
        let cache = memory.cache.filter(|_| !memory.is_fresh);
        cache.and_then(|cache| cache.get(&key))
    };
    let rewritten = match recorded.map(|entry| entry.text).or_else(cached) {
        Some(rewritten) => rewritten,
        None if memory.is_dry_run => return Ok(None),
        None => ask(model, &question, &settings, budget).await?,
    };
    if let Some(change) = refine::forbidden_change(prompt, &rewritten) {
        return Err(RefineError {
            category: "refine_rejected".to_owned(),
            message: format!("the rewritten prompt is not used: {change}"),
            is_transient: false,
        });
    }
    if let Some(cache) = memory.cache {
        cache.put(&key, &rewritten);
    }
    if let Some(record) = memory.record {
        record.keep(RecordEntry {
            kind: RecordKind::Prompt,
            src: name.to_owned(),
            key: entry,
            text: rewritten.clone(),
            media_type: None,
        });
    }
    Ok(Some([&rewritten, appended].concat()))
}

async fn ask(
    model: &Model,
    question: &[ChatMessage],
    settings: &SamplingSettings,
    budget: &Budget,
) -> Result<String, RefineError> {
    let request = ModelRequest::new(&model.name, question, settings);
    let provider = Arc::clone(&model.provider);
    let refused = |category: &str, message: String| RefineError {
        category: category.to_owned(),
        message: format!("the prompt could not be rewritten: {message}"),
        is_transient: false,
    };
    budget
        .check(provider.name(), &model.name)
        .map_err(|error| refused(BUDGET_EXCEEDED, error.to_string()))?;
    budget
        .begin_request()
        .map_err(|error| refused(MAX_TURNS, error.to_string()))?;
    let answer = provider.complete(&request, &mut |_| {}).await;
    let answer = answer.map_err(|error| RefineError {
        category: error.category.as_str().to_owned(),
        message: format!("the prompt could not be rewritten: {}", error.message),
        is_transient: error.category.is_transient(),
    })?;
    budget.answered(provider.name(), &request, &answer);
    let text = answer.message.text();
    let mut rewritten = without_fence(&text).trim_start().to_owned();
    if !rewritten.ends_with('\n') {
        rewritten.push('\n');
    }
    Ok(rewritten)
}

/// Models often put the result into a code block.
fn without_fence(text: &str) -> &str {
    let inside = || {
        let text = text.trim();
        let (_, rest) = text.strip_prefix("```")?.split_once('\n')?;
        rest.strip_suffix("```")
    };
    inside().unwrap_or(text)
}
