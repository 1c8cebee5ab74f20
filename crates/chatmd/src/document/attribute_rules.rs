//! Warnings about attributes without their apparent effect.
//!
//! These are unknown attributes, repeated attributes, and flags with a value such as `false`. None
//! is an error, because the file is readable.

use std::collections::BTreeMap;

use logue_source::{Diagnostic, DiagnosticCode};

use crate::document::fields::Fields;
use crate::document::provenance::{HISTORY_ID, SOURCE_CONTEXT};
use crate::findings::Findings;
use crate::suggest::suggest;
use crate::syntax::attributes::Attribute;
use crate::syntax::tag::Tag;
use crate::syntax::tree::ElementNode;
use crate::syntax::whitespace::is_blank;
use crate::write::INTERRUPTED;

/// Attributes that count by their presence.
const FLAGS: &[&str] = &[
    "local",
    "strip",
    "markdown",
    "strict",
    "show_tool_call",
    "continued",
    "provider_id",
];

/// Values that appear to disable a flag.
const OFF: &[&str] = &["false", "no", "off", "0"];

/// Reads the attributes of an element, and reports those without their apparent effect.
///
/// Reports nothing for a tag that has an error.
pub(super) fn read<'t>(node: ElementNode<'t>, findings: &mut Findings) -> Fields<'t> {
    let mut fields = Fields::new(node);
    let known = known(node.tag());
    let is_known = |name: &str| {
        known.contains(&name)
            // Written by other programs, and kept.
            || node.tag().is_entry() && [HISTORY_ID, SOURCE_CONTEXT].contains(&name)
    };
    // An entry is read like a `<msg>`, although some of its attributes are reported then.
    let is_read = |name: &str| node.tag().is_entry() && self::known(Tag::Msg).contains(&name);
    if node.has_tag_error() {
        for attribute in node.attributes() {
            if is_known(attribute.name()) || is_read(attribute.name()) {
                fields.set(attribute);
            }
        }
        return fields;
    }
    let mut unknown_names: BTreeMap<&str, Attribute<'_>> = BTreeMap::new();
    for attribute in node.attributes() {
        let name = attribute.name();
        let is_known = is_known(name);
        let earlier = if is_known {
            fields.set(attribute)
        } else {
            if is_read(name) {
                fields.set(attribute);
            }
            unknown_names.insert(name, attribute)
        };
        if let Some(earlier) = earlier {
            if earlier.value() != attribute.value() {
                findings.push(repeated(earlier, attribute));
            }
        } else if !is_known {
            findings.push_with(DiagnosticCode::UnknownAttribute, || {
                unknown(node.tag(), attribute)
            });
        } else if FLAGS.contains(&name) && OFF.contains(&attribute.value().as_ref()) {
            findings.push(flag(attribute));
        }
    }
    check(&fields, findings);
    fields
}

/// Reports an empty model name, and a status without effect.
fn check(fields: &Fields<'_>, findings: &mut Findings) {
    let node = fields.node;
    if node.tag() == Tag::Config
        && let Some(model) = fields.attribute("model")
        && is_blank(&model.value())
    {
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::EmptyModel,
                "empty model name",
                model.name_span(),
            )
            .with_help("name a model, or remove `model` to use the configured one"),
        );
    }
    let is_answer = match node.tag() {
        Tag::Assistant => true,
        Tag::Msg => fields.value("role").as_deref() == Some("assistant"),
        _ => false,
    };
    if is_answer
        && let Some(status) = fields.attribute("status")
        && !fields.has("id")
        && status.value() != INTERRUPTED
    {
        findings.push(
            Diagnostic::warning(
                DiagnosticCode::StatusWithoutId,
                "`status` has no effect without `id`",
                status.name_span(),
            )
            .with_help("add the `id` that the provider assigned, or remove `status`"),
        );
    }
}

/// Returns the valid attributes of an element.
///
/// They are those of the reference, those that other programs write, and the extensions of Logue.
const fn known(tag: Tag) -> &'static [&'static str] {
    match tag {
        Tag::Config => &[
            "model",
            "max_tokens",
            "temperature",
            "reasoning_effort",
            "id",
            "show_tool_call",
            "top_p",
            "seed",
            "stop",
            "tool_choice",
            "response_schema",
        ],
        Tag::Var => &["name", "default", "value", "description"],
        Tag::Tool => &[
            "name",
            "command",
            "agent",
            "mcp_server",
            "description",
            "local",
            "include",
            "includes",
            "strict",
            "client_id_env",
            "client_secret_env",
            "type",
            "mode",
            "runtime",
        ],
        Tag::User | Tag::System | Tag::Developer => &["id", "status", "name"],
        Tag::Assistant => &["id", "status", "name", "phase", "signature", "continued"],
        Tag::Msg => &[
            "role",
            "id",
            "status",
            "name",
            "phase",
            "signature",
            "continued",
            "type",
            "tool_call",
            "tool_call_id",
            "function_name",
        ],
        Tag::ToolCall => &[
            "tool_call_id",
            "function_name",
            "type",
            "id",
            "status",
            "signature",
        ],
        Tag::ToolResponse => &["tool_call_id", "type", "id", "status"],
        Tag::Reasoning => &[
            "id",
            "status",
            "signature",
            "encrypted",
            "continued",
            "provider_id",
        ],
        Tag::Summary
        | Tag::Script
        | Tag::ShellAccess
        | Tag::ModeratorRuntime
        | Tag::Read
        | Tag::Command
        | Tag::Arg
        | Tag::SecretArg
        | Tag::PathArg
        | Tag::Arguments => &[],
        Tag::Doc => &["src", "local", "strip", "markdown"],
        Tag::Img | Tag::Agent => &["src", "local"],
        Tag::Import => &["src", "namespace"],
    }
}

fn unknown(tag: Tag, attribute: Attribute<'_>) -> Diagnostic {
    let name = attribute.name();
    let known = known(tag);
    let help = match suggest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => format!("remove it; `<{tag}>` has no attributes"),
        None => format!(
            "remove it; attributes of `<{tag}>` are {}",
            known.join(", ")
        ),
    };
    Diagnostic::warning(
        DiagnosticCode::UnknownAttribute,
        format!("unknown attribute `{name}` of `<{tag}>`"),
        attribute.name_span(),
    )
    .with_help(help)
}

fn repeated(first: Attribute<'_>, second: Attribute<'_>) -> Diagnostic {
    let name = second.name();
    Diagnostic::warning(
        DiagnosticCode::RepeatedAttribute,
        format!("repeated attribute `{name}` with different values; the last one is used"),
        second.place(),
    )
    .with_label(first.place(), "this one has no effect")
    .with_help("remove one of them")
}

fn flag(attribute: Attribute<'_>) -> Diagnostic {
    let name = attribute.name();
    Diagnostic::warning(
        DiagnosticCode::FlagAttributeHasValue,
        format!("the flag `{name}` is enabled by its presence, whatever its value"),
        attribute.place(),
    )
    .with_help(format!("remove `{name}` to disable it"))
}
