//! The meta-refine pass of a run: asked for by a variable or by the prompt itself, shown, and never
//! written to the file.

use logue_agent::{Surroundings, refined};

use crate::arguments::Asking;
use crate::exit::{Exit, Failure};
use crate::language::Language;
use crate::setup::config::Config;
use crate::setup::environment::variable;
use crate::setup::model;
use crate::setup::output::Output;
use crate::setup::prompt::input::Input;

/// Replaces the text that is run by what a model makes of its words, if that is asked for. The
/// transcript keeps its own.
pub(crate) async fn refine(
    input: &mut Input,
    surroundings: &Surroundings,
    asking: &Asking,
    config: &Config,
    output: &Output,
) -> Result<(), Failure> {
    if input.language != Language::Chatmd {
        return Ok(());
    }
    let by_variable = ["LOGUE_META_REFINE", "OCHAT_META_REFINE"]
        .into_iter()
        .filter_map(variable)
        .any(|value| chatmd::refine::is_truthy(&value));
    let tree = chatmd::parse(&input.text);
    let is_asked_for = by_variable || chatmd::refine::is_requested(&tree);
    // What is wrong with the prompt as it is is reported by whoever reads it next.
    if !is_asked_for || tree.has_errors() {
        return Ok(());
    }
    let named = surroundings.model_named(&input.name, &input.text);
    let folder = input.prompt_folder();
    let model = model::model(asking, config, named.as_deref(), &folder)?;
    let cache = if asking.no_cache {
        None
    } else {
        config.refined_prompts()
    };
    let rewritten = refined(&input.text, &model, cache.as_ref());
    let rewritten = rewritten.await.map_err(|error| {
        let exit = if error.is_transient {
            Exit::Retryable
        } else {
            Exit::UserCorrectable
        };
        Failure::new(exit, error.category, error.message).with_help(
            "run without the META_REFINE comment and variable to use the prompt as it is",
        )
    })?;
    let length = chatmd::refine::prompt_length(&chatmd::parse(&rewritten));
    let prompt = rewritten.get(..length).unwrap_or(&rewritten);
    output.refined(prompt.trim_end(), &input.name);
    input.text = rewritten;
    Ok(())
}
