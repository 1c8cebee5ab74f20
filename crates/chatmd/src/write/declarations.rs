//! Settings, tools and variables.

use crate::syntax::attributes::write_attribute;
use crate::syntax::tag::Tag;

/// Settings to write (ChatMD §4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ConfigRecord<'a> {
    /// Name of the model.
    pub model: Option<&'a str>,
    /// Maximum number of tokens of one response.
    pub max_tokens: Option<u64>,
    /// Sampling temperature; omitted if not finite, because that is unreadable.
    pub temperature: Option<f64>,
    /// Reasoning effort.
    pub reasoning_effort: Option<&'a str>,
    /// Probability mass of nucleus sampling; omitted if not finite.
    pub top_p: Option<f64>,
    /// Sampling seed.
    pub seed: Option<i64>,
    /// Texts that end a response, as the value of the attribute.
    pub stop: Option<&'a str>,
    /// Choice of tools: `auto`, `none`, `required` or a name.
    pub tool_choice: Option<&'a str>,
}

impl<'a> ConfigRecord<'a> {
    /// Sets the name of the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Option<&'a str>>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the maximum number of tokens of one response.
    #[must_use]
    pub fn with_max_tokens(mut self, max_tokens: impl Into<Option<u64>>) -> Self {
        self.max_tokens = max_tokens.into();
        self
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn with_temperature(mut self, temperature: impl Into<Option<f64>>) -> Self {
        self.temperature = temperature.into();
        self
    }

    /// Sets the reasoning effort.
    #[must_use]
    pub fn with_reasoning_effort(mut self, reasoning_effort: impl Into<Option<&'a str>>) -> Self {
        self.reasoning_effort = reasoning_effort.into();
        self
    }

    /// Sets the probability mass of nucleus sampling.
    #[must_use]
    pub fn with_top_p(mut self, top_p: impl Into<Option<f64>>) -> Self {
        self.top_p = top_p.into();
        self
    }

    /// Sets the sampling seed.
    #[must_use]
    pub fn with_seed(mut self, seed: impl Into<Option<i64>>) -> Self {
        self.seed = seed.into();
        self
    }

    /// Sets the texts that end a response: one text, or a JSON list of texts.
    #[must_use]
    pub fn with_stop(mut self, stop: impl Into<Option<&'a str>>) -> Self {
        self.stop = stop.into();
        self
    }

    /// Sets the choice of tools.
    #[must_use]
    pub fn with_tool_choice(mut self, tool_choice: impl Into<Option<&'a str>>) -> Self {
        self.tool_choice = tool_choice.into();
        self
    }
}

/// Writes the declaration of a built-in tool.
///
/// ```
/// assert_eq!(chatmd::write::builtin_tool("search"), "<tool name=\"search\"/>\n");
/// ```
pub fn builtin_tool(name: &str) -> String {
    let mut out = String::from("<");
    out.push_str(Tag::Tool.as_str());
    write_attribute(&mut out, "name", name);
    out.push_str("/>\n");
    out
}

/// Writes `<var/>` with the value that a run used.
///
/// ```
/// let record = chatmd::write::variable("topic", "a < b");
/// assert_eq!(record, "<var name=\"topic\" value=\"a &lt; b\"/>\n");
/// ```
pub fn variable(name: &str, value: &str) -> String {
    let mut out = String::from("<");
    out.push_str(Tag::Var.as_str());
    write_attribute(&mut out, "name", name);
    write_attribute(&mut out, "value", value);
    out.push_str("/>\n");
    out
}

/// Writes `<var/>` that declares a variable.
///
/// ```
/// let declaration = chatmd::write::declaration("topic", Some("snow"), None);
/// assert_eq!(declaration, "<var name=\"topic\" default=\"snow\"/>\n");
/// ```
pub fn declaration(name: &str, default: Option<&str>, description: Option<&str>) -> String {
    let mut out = String::from("<");
    out.push_str(Tag::Var.as_str());
    write_attribute(&mut out, "name", name);
    for (key, value) in [("default", default), ("description", description)] {
        if let Some(value) = value {
            write_attribute(&mut out, key, value);
        }
    }
    out.push_str("/>\n");
    out
}

/// Writes `<config/>`.
///
/// ```
/// use chatmd::write;
///
/// let config = write::ConfigRecord::default()
///     .with_model("gpt-4o")
///     .with_temperature(0.5);
/// assert_eq!(write::config(&config), "<config model=\"gpt-4o\" temperature=\"0.5\"/>\n");
/// ```
pub fn config(config: &ConfigRecord<'_>) -> String {
    let max_tokens = config.max_tokens.map(|count| count.to_string());
    let number = |value: Option<f64>| {
        let finite = value.filter(|value| value.is_finite());
        finite.map(|value| value.to_string())
    };
    let (temperature, top_p) = (number(config.temperature), number(config.top_p));
    let seed = config.seed.map(|seed| seed.to_string());
    let mut out = String::from("<");
    out.push_str(Tag::Config.as_str());
    let attributes = [
        ("model", config.model),
        ("max_tokens", max_tokens.as_deref()),
        ("temperature", temperature.as_deref()),
        ("reasoning_effort", config.reasoning_effort),
        ("top_p", top_p.as_deref()),
        ("seed", seed.as_deref()),
        ("stop", config.stop),
        ("tool_choice", config.tool_choice),
    ];
    for (name, value) in attributes {
        if let Some(value) = value {
            write_attribute(&mut out, name, value);
        }
    }
    out.push_str("/>\n");
    out
}
