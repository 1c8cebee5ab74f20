//! The text of a system and of a developer message.

use super::options::RendererCompat;
use super::system::{DeveloperContent, SystemContent};
use super::tools::{FunctionTool, ToolNamespace};
use super::{schema, schema_compat};

/// Appends what a system message says: sections with a blank line between.
pub(in crate::harmony) fn system(
    content: &SystemContent,
    function_tools: bool,
    compat: RendererCompat,
    out: &mut String,
) {
    let mut sections = Sections::new(out);
    let identity = [
        ("", content.model_identity.as_deref()),
        ("Knowledge cutoff: ", content.knowledge_cutoff.as_deref()),
        ("Current date: ", content.current_date.as_deref()),
    ];
    let mut lines = identity
        .into_iter()
        .filter_map(|(label, value)| Some((label, value?)));
    if let Some((label, value)) = lines.next() {
        let out = sections.begin();
        out.push_str(label);
        out.push_str(value);
        for (label, value) in lines {
            out.push('\n');
            out.push_str(label);
            out.push_str(value);
        }
    }
    if let Some(effort) = content.reasoning_effort {
        let out = sections.begin();
        out.push_str("Reasoning: ");
        out.push_str(effort.as_str());
    }
    tools(content.tools.values(), compat, &mut sections);
    if !content.valid_channels.is_empty() {
        let out = sections.begin();
        out.push_str("# Valid channels: ");
        out.push_str(&content.valid_channels.join(", "));
        out.push('.');
        if content.channel_required {
            out.push_str(" Channel must be included for every message.");
        }
        if function_tools {
            out.push_str("\nCalls to these tools must go to the commentary channel: 'functions'.");
        }
    }
}

/// Appends what a developer message says.
pub(in crate::harmony) fn developer(
    content: &DeveloperContent,
    compat: RendererCompat,
    out: &mut String,
) {
    let mut sections = Sections::new(out);
    if let Some(instructions) = &content.instructions {
        let out = sections.begin();
        out.push_str("# Instructions\n\n");
        out.push_str(instructions);
    }
    tools(content.tools.values(), compat, &mut sections);
}

fn tools<'t>(
    namespaces: impl Iterator<Item = &'t ToolNamespace>,
    compat: RendererCompat,
    sections: &mut Sections<'_>,
) {
    let mut namespaces = namespaces.peekable();
    if namespaces.peek().is_none() {
        return;
    }
    sections.begin().push_str("# Tools");
    for namespace in namespaces {
        write_namespace(namespace, compat, sections.begin());
    }
}

fn write_namespace(namespace: &ToolNamespace, compat: RendererCompat, out: &mut String) {
    let name = &namespace.name;
    let description = namespace.description.as_deref().unwrap_or_default();
    out.push_str("## ");
    out.push_str(name);
    out.push('\n');
    for line in description.lines() {
        out.push('\n');
        if !namespace.functions.is_empty() {
            out.push_str("// ");
        }
        out.push_str(line);
    }
    if namespace.functions.is_empty() {
        return;
    }
    out.push_str("\nnamespace ");
    out.push_str(name);
    out.push_str(" {\n");
    for function in &namespace.functions {
        out.push('\n');
        write_function(function, compat, out);
    }
    out.push_str("\n} // namespace ");
    out.push_str(name);
}

fn write_function(function: &FunctionTool, compat: RendererCompat, out: &mut String) {
    for line in function.description.lines() {
        out.push_str("// ");
        out.push_str(line);
        out.push('\n');
    }
    out.push_str("type ");
    out.push_str(&function.name);
    match &function.parameters {
        None => out.push_str(" = () => any;\n"),
        Some(parameters) => {
            out.push_str(" = (_: ");
            match compat {
                RendererCompat::Meant => schema::write(parameters, out),
                RendererCompat::OpenAi0_0_8 => schema_compat::write(parameters, out),
            }
            out.push_str(") => any;\n");
        }
    }
}

/// Sections with a blank line between.
struct Sections<'o> {
    out: &'o mut String,
    any: bool,
}

impl<'o> Sections<'o> {
    const fn new(out: &'o mut String) -> Self {
        Self { out, any: false }
    }

    fn begin(&mut self) -> &mut String {
        if std::mem::replace(&mut self.any, true) {
            self.out.push_str("\n\n");
        }
        self.out
    }
}
