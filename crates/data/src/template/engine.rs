//! Jinja with the functions and filters of `transformers`.

use super::clock::TemplateDate;
use super::generation::FILTER;
use super::python_json::{float, tojson};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use std::ops::RangeInclusive;

/// The name of the only template.
pub(super) const NAME: &str = "chat_template";
/// The variable that contains the marks of a generation while a rendering is marked.
pub(super) const MARKS: &str = "logue_marks";

/// The characters of marks: two planes for private use.
pub(super) const MARK_CHARACTERS: RangeInclusive<char> = '\u{f0000}'..='\u{10fffd}';

/// The work that one rendering may do, in instructions of the engine.
const FUEL: u64 = 50_000_000;

/// A failure that a function of the template reports.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateFailure {
    #[error("{0}")]
    Raised(String),
    #[error("the template prints the day")]
    NoDate,
    #[error("the template prints the day with `{0}`, which is not supported")]
    DateFormat(String),
}

/// Compiles a template.
pub(super) fn environment(
    source: String,
    date: Option<TemplateDate>,
) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    environment.set_syntax(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.set_fuel(Some(FUEL));
    environment.add_function("raise_exception", |message: Value| {
        Err::<Value, _>(failure(TemplateFailure::Raised(message.to_string())))
    });
    environment.add_function("strftime_now", move |format: &str| match date {
        None => Err(failure(TemplateFailure::NoDate)),
        Some(date) => date
            .format(format)
            .map_err(|directive| failure(TemplateFailure::DateFormat(directive))),
    });
    environment.add_filter(
        "tojson",
        |state: &State<'_, '_>, value: &Value, arguments: Rest<Value>, kwargs: Kwargs| {
            let marks = state
                .lookup(MARKS)
                .is_some_and(|marks| !marks.is_undefined());
            tojson(value, &arguments, &kwargs, marks.then_some(MARK_CHARACTERS))
        },
    );
    environment.add_filter(FILTER, |state: &State<'_, '_>, text: &str| {
        let marks = state.lookup(MARKS).unwrap_or_default();
        let mut marks = marks.as_str().unwrap_or_default().chars();
        let mut marked = String::with_capacity(text.len() + 8);
        marked.extend(marks.next());
        marked.push_str(text);
        marked.extend(marks.next());
        marked
    });
    environment.set_formatter(|output, _, value| {
        // Writing to the output fails only if the output does.
        if is_float(value) {
            return write!(output, "{}", python_text(value)).map_err(Error::from);
        }
        write!(output, "{value}").map_err(Error::from)
    });
    environment.add_filter("string", |value: &Value| {
        if is_float(value) {
            Value::from(python_text(value))
        } else {
            Value::from(value.to_string())
        }
    });
    // A string of Python is a sequence, and so is a mapping by the rule of Jinja.
    environment.add_test("sequence", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::String | ValueKind::Map
        )
    });
    environment.add_test("iterable", |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Iterable
        )
    });
    environment.add_template_owned(NAME, source)?;
    Ok(environment)
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// Returns a number as Python prints it.
fn python_text(value: &Value) -> String {
    let number = f64::try_from(value.clone()).ok();
    let number = number.filter(|number| number.is_finite());
    number.map_or_else(|| value.to_string(), float)
}

fn failure(failure: TemplateFailure) -> Error {
    Error::new(ErrorKind::InvalidOperation, failure.to_string()).with_source(failure)
}

/// Calls a method of Python.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

/// Returns what a function of the template reported, if that ended the rendering.
pub(super) fn reported(error: &Error) -> Option<&TemplateFailure> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(failure) = error.downcast_ref() {
            return Some(failure);
        }
        source = error.source();
    }
    None
}
