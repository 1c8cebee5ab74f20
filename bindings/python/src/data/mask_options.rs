//! The arguments of a masker.

use std::borrow::Cow;
use std::sync::Arc;

use logue_data::mask::{
    Classes, Columns, MarkKeys, MaskForm, MaskOptions, ReasoningPolicy, RowShape, SpanClass,
    TrainedRoles, Truncation,
};
use logue_data::{
    ChatTemplate, HfTokenizer, O200k, Refusal, TemplateDate, TemplateOptions, Tokenizer,
};
use openchatml::harmony::ReasoningEffort;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::items::Items;
use crate::{error, input, json};

/// The names of the options.
const NAMES: [&str; 19] = [
    "tokenizer",
    "template",
    "tokenizer_config",
    "variables",
    "stops",
    "allow_dropped",
    "shape",
    "classes",
    "roles",
    "marks",
    "reasoning",
    "train_without_reasoning",
    "drop_trailing",
    "allow_untrained_stop",
    "max_tokens",
    "truncation",
    "effort",
    "date",
    "columns",
];

/// The options that only a template has.
const OF_TEMPLATES: [&str; 4] = ["tokenizer_config", "variables", "stops", "allow_dropped"];

/// The parsed arguments of a masker, except its tokenizer.
pub(super) struct MaskArguments {
    pub(super) options: MaskOptions,
    pub(super) template: Option<Arc<ChatTemplate>>,
    pub(super) columns: Columns,
}

/// The given options.
struct Named<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Named<'_, 'py> {
    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.0.get_item(name)?.filter(|value| !value.is_none()))
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        self.get(name)?.map_or(Ok(false), |value| value.extract())
    }

    fn text(&self, name: &str) -> PyResult<Option<String>> {
        let Some(value) = self.get(name)? else {
            return Ok(None);
        };
        Ok(Some(input::utf8(value.cast::<PyString>()?)?.to_owned()))
    }

    fn words(&self, name: &str) -> PyResult<Option<Vec<String>>> {
        let words: Option<Items<String>> = self.get(name)?.map(|it| it.extract()).transpose()?;
        Ok(words.map(|words| words.0))
    }

    /// The value with the given name; the first one by default.
    fn choice<T: Copy>(&self, name: &str, values: &[(&str, T)]) -> PyResult<Option<T>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let found = values.iter().find(|(known, _)| *known == text);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let known: Vec<&str> = values.iter().map(|(known, _)| *known).collect();
            unknown(self.0.py(), name, &text, &known)
        })
    }

    /// Adds each word to a set.
    fn each_word(
        &self,
        name: &str,
        known: &[&str],
        mut add: impl FnMut(&str) -> bool,
    ) -> PyResult<bool> {
        let Some(words) = self.words(name)? else {
            return Ok(false);
        };
        match words
            .iter()
            .find(|word| !known.contains(&word.as_str()) || !add(word))
        {
            Some(word) => Err(unknown(self.0.py(), name, word, known)),
            None => Ok(true),
        }
    }
}

fn unknown(py: Python<'_>, name: &str, value: &str, known: &[&str]) -> PyErr {
    let known = known.join(", ");
    error::invalid(
        py,
        &format!("unknown value `{value}` of `{name}`; known are {known}"),
    )
}

/// The exception of content that is refused before the first row.
pub(super) fn refused(py: Python<'_>, refusal: &Refusal) -> PyErr {
    error::found(py, &refusal.finding, b"")
}

impl MaskArguments {
    pub(super) fn new(
        py: Python<'_>,
        form: &str,
        named: &Bound<'_, PyDict>,
    ) -> PyResult<(Self, Box<dyn Tokenizer>)> {
        for key in named.keys() {
            let key: String = key.extract()?;
            if !NAMES.contains(&key.as_str()) {
                let message = format!("Masker() got an unexpected keyword argument '{key}'");
                return Err(PyTypeError::new_err(message));
            }
        }
        let given = Named(named);
        let arguments = Self {
            options: options(py, form, &given)?,
            template: template(py, form, &given)?,
            columns: columns(&given)?,
        };
        Ok((arguments, tokenizer(py, &given)?))
    }
}

fn options(py: Python<'_>, form: &str, given: &Named<'_, '_>) -> PyResult<MaskOptions> {
    let mut options = MaskOptions::new(match form {
        "harmony" => MaskForm::Harmony,
        "ocml2.2" => MaskForm::OpenChatMl,
        // A template takes the place of the form.
        "chatml" | "template" => MaskForm::ChatMl,
        other => {
            let known = ["harmony", "ocml2.2", "chatml", "template"];
            return Err(unknown(py, "form", other, &known));
        }
    });
    let shapes = [
        ("auto", RowShape::Auto),
        ("chat", RowShape::Chat),
        ("harmony", RowShape::Harmony),
    ];
    options.shape = given.choice("shape", &shapes)?.unwrap_or_default();
    let mut classes = Vec::new();
    let known = ["answer", "call", "reasoning", "terminator"];
    let is_given = given.each_word("classes", &known, |name| {
        classes.extend(SpanClass::parse(name));
        true
    })?;
    if is_given {
        options.classes = classes.into_iter().collect::<Classes>();
    }
    let mut roles = TrainedRoles::NONE;
    let known = ["assistant", "user", "system", "tool"];
    if given.each_word("roles", &known, |name| roles.add(name))? {
        options.roles = roles;
    }
    let mut marks = MarkKeys::NONE;
    let known = [
        "weight",
        "train",
        "train_detail",
        "loss",
        "loss_scale",
        "loss_weight",
        "ignore",
    ];
    if given.each_word("marks", &known, |name| marks.add(name))? {
        options.marks = marks;
    }
    let policies = [
        ("keep", ReasoningPolicy::Keep),
        ("finished", ReasoningPolicy::DropFinished),
        ("first", ReasoningPolicy::DropBeforeFirstFinal),
        ("drop", ReasoningPolicy::Drop),
    ];
    options.reasoning = given.choice("reasoning", &policies)?.unwrap_or_default();
    options.train_without_reasoning = given.flag("train_without_reasoning")?;
    options.drop_trailing = given.flag("drop_trailing")?;
    options.allow_untrained_stop = given.flag("allow_untrained_stop")?;
    options.max_tokens = given
        .get("max_tokens")?
        .map(|it| it.extract())
        .transpose()?;
    if options.max_tokens == Some(0) {
        return Err(error::invalid(py, "`max_tokens` is at least 1"));
    }
    let sides = [
        ("refuse", Truncation::Refuse),
        ("right", Truncation::Right),
        ("left", Truncation::Left),
    ];
    options.truncation = given.choice("truncation", &sides)?.unwrap_or_default();
    let efforts = [
        ("low", ReasoningEffort::Low),
        ("medium", ReasoningEffort::Medium),
        ("high", ReasoningEffort::High),
    ];
    let effort = given.choice("effort", &efforts)?;
    options.effort = effort.unwrap_or(ReasoningEffort::Medium);
    options.date = given.text("date")?;
    Ok(options)
}

fn template(
    py: Python<'_>,
    form: &str,
    given: &Named<'_, '_>,
) -> PyResult<Option<Arc<ChatTemplate>>> {
    let Some(source) = given.text("template")? else {
        if form == "template" {
            return Err(error::invalid(
                py,
                "the form `template` requires `template`",
            ));
        }
        for name in OF_TEMPLATES {
            if given.get(name)?.is_some() {
                let message = format!("`{name}` requires the form `template`");
                return Err(error::invalid(py, &message));
            }
        }
        return Ok(None);
    };
    if form != "template" {
        return Err(error::invalid(
            py,
            "`template` requires the form `template`",
        ));
    }
    if given
        .words("roles")?
        .is_some_and(|roles| roles != ["assistant"])
    {
        return Err(error::invalid(
            py,
            "a template trains the role assistant only",
        ));
    }
    let mut options = TemplateOptions::default();
    if let Some(config) = given.text("tokenizer_config")? {
        let set = options.set_special_tokens(&config);
        set.map_err(|refusal| refused(py, &refusal))?;
    }
    if let Some(variables) = given.get("variables")? {
        for (name, value) in variables.cast::<PyDict>()?.iter() {
            let name: String = name.extract()?;
            let value = json::from_python(&value)?.to_string();
            let set = options.set(&name, &value);
            set.map_err(|refusal| refused(py, &refusal))?;
        }
    }
    if let Some(date) = given.text("date")? {
        let parsed = TemplateDate::parse(&date);
        options.date = Some(parsed.ok_or_else(|| {
            error::invalid(py, &format!("invalid date `{date}`; write YYYY-MM-DD"))
        })?);
    }
    options.stops = given.words("stops")?.unwrap_or_default();
    options.allow_dropped = given.flag("allow_dropped")?;
    let template = py.detach(|| ChatTemplate::new(&source, options));
    let template = template.map_err(|refusal| refused(py, &refusal))?;
    Ok(Some(Arc::new(template)))
}

fn columns(given: &Named<'_, '_>) -> PyResult<Columns> {
    let known = [
        "input_ids",
        "labels",
        "attention_mask",
        "assistant_masks",
        "text",
        "spans",
    ];
    let mut columns = Columns::NONE;
    let is_given = given.each_word("columns", &known, |name| columns.add(name))?;
    Ok(if is_given {
        columns
    } else {
        Columns::default()
    })
}

/// The tokenizer of the content of a file `tokenizer.json`, or that of gpt-oss.
fn tokenizer(py: Python<'_>, given: &Named<'_, '_>) -> PyResult<Box<dyn Tokenizer>> {
    let Some(content) = given.get("tokenizer")? else {
        return Ok(Box::new(O200k::new()));
    };
    let content: Cow<'_, [u8]> = input::bytes(&content)?;
    if *content == *b"o200k" {
        return Ok(Box::new(O200k::new()));
    }
    let loaded = py.detach(|| HfTokenizer::from_json(&content));
    let loaded = loaded.map_err(|refusal| refused(py, &refusal))?;
    Ok(Box::new(loaded))
}
