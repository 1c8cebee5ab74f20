//! The table of all keys, with the right of a project's file to set each.
//!
//! A project's `logue.toml` comes with a checkout, which is untrusted. It may always make a run
//! stricter. A key that grants access has no effect until the user trusts the content of the file
//! (`logue trust add FOLDER`). A key that is not in the table grants, so that a new one fails closed; a
//! test requires that the table has every key.

use std::path::Path;

use logue_agent::path_text;
use logue_source::Span;
use logue_store::redacted_address;
use toml::de::{DeTable, DeValue};

use crate::setup::config::tools::leads_out;

/// The right of a project's file to set a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyClass {
    /// The key grants nothing.
    Neutral,
    /// The key restricts a run; of both files the stricter value applies.
    Stricter,
    /// The key is a limit with this default, above which it grants.
    ///
    /// Of both files the lower value applies.
    Limit(u64),
    /// The key grants what the function describes.
    Grants(fn(&KeyValue<'_>) -> String),
    /// The key grants what the function describes; `None` for a value that grants nothing.
    SomeGrant(fn(&KeyValue<'_>) -> Option<String>),
    /// Only the user's file may set the key; reading rejects it in a project's.
    UserOnly,
}

/// A value of a granting key.
pub(crate) struct KeyValue<'a> {
    /// The whole path of the key.
    path: &'a [String],
    /// A string as it is, and any other value as it is written.
    text: &'a str,
    /// The directory of the file.
    folder: &'a Path,
}

/// One grant of a project's file.
#[derive(Clone, Debug)]
pub(crate) struct KeyGrant {
    path: Vec<String>,
    pub(crate) span: Span,
    /// The effect in plain words, without the name of the key.
    pub(crate) effect: String,
}

impl KeyGrant {
    /// The key as a dotted path.
    pub(crate) fn key(&self) -> String {
        self.path.join(".")
    }

    /// Describes the grant on one line for people. The line may contain control characters.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.key(), self.effect)
    }
}

use KeyClass::{Grants, Limit, Neutral, SomeGrant, Stricter, UserOnly};

/// All keys; `*` is any name.
pub(crate) const KEYS: &[(&str, KeyClass)] = &[
    ("model.name", SomeGrant(recording)),
    ("model.base_url", Grants(model_server)),
    ("model.api_key_env", Grants(model_key)),
    ("model.server", Neutral),
    ("model.stream", Neutral),
    ("model.anthropic.base_url", Grants(model_server)),
    ("model.anthropic.api_key_env", Grants(model_key)),
    ("model.connect_timeout_seconds", Neutral),
    ("model.first_byte_timeout_seconds", Neutral),
    ("model.idle_timeout_seconds", Neutral),
    ("model.total_timeout_seconds", Neutral),
    ("model.retries", Neutral),
    ("model.retry_timeout_seconds", Neutral),
    ("model.max_response_bytes", Limit(64 << 20)),
    ("model.max_event_bytes", Limit(8 << 20)),
    ("model.harmony.prompt", Neutral),
    ("model.harmony.server", Neutral),
    ("models.*", UserOnly),
    ("tools.roots", SomeGrant(root)),
    ("tools.concurrency", Neutral),
    ("tools.result_envelope", Neutral),
    ("tools.environment", Grants(environment)),
    ("tools.sandbox_required", Stricter),
    ("tools.sandbox", Stricter),
    ("tools.network", Stricter),
    ("tools.readable", Grants(readable)),
    ("tools.writable", Grants(writable)),
    ("tools.timeout_seconds", Neutral),
    ("tools.max_output_bytes", Limit(10_000)),
    ("tools.max_memory_mib", Limit(4096)),
    ("tools.max_file_mib", Limit(1024)),
    ("tools.max_disk_mib", Limit(4096)),
    ("tools.max_processes", Limit(512)),
    ("tools.settings.*.sandbox", Stricter),
    ("tools.settings.*.network", Stricter),
    ("tools.settings.*.readable", Grants(readable)),
    ("tools.settings.*.writable", Grants(writable)),
    ("tools.settings.*.timeout_seconds", Neutral),
    ("tools.settings.*.max_output_bytes", Limit(10_000)),
    ("tools.settings.*.max_memory_mib", Limit(4096)),
    ("tools.settings.*.max_file_mib", Limit(1024)),
    ("tools.settings.*.max_disk_mib", Limit(4096)),
    ("tools.settings.*.max_processes", Limit(512)),
    ("run.max_requests", Stricter),
    ("run.on_crash", Stricter),
    ("run.lock_timeout_seconds", Neutral),
    ("run.agent_cache_ttl_hours", Neutral),
    ("run.max_total_tokens", Stricter),
    ("run.max_cost_usd", Stricter),
    ("run.max_agent_depth", Stricter),
    ("network.allowed_hosts", Grants(host)),
    ("network.timeout_seconds", Neutral),
    ("network.max_page_bytes", Limit(5 << 20)),
    ("browser.search", Grants(search)),
    ("browser.results", Neutral),
    ("browser.title", Neutral),
    ("browser.url", Neutral),
    ("browser.snippet", Neutral),
    ("browser.key_header", Neutral),
    ("browser.key_env", UserOnly),
    ("transcript.max_inline_bytes", Neutral),
    ("redact.patterns", Stricter),
    ("redact.rule.name", Stricter),
    ("redact.rule.pattern", Stricter),
    ("store.url", Grants(store)),
    ("store.listen", UserOnly),
    ("store.ttl", Grants(store_ttl)),
    ("serve.max_turns", Stricter),
    ("serve.max_turns_per_token", Stricter),
    ("serve.max_requests_per_minute", Stricter),
    ("serve.max_connections", Stricter),
    ("serve.agents.*.max_turns", Stricter),
    ("telemetry.endpoint", UserOnly),
    ("mcp.start_timeout_seconds", Neutral),
    ("mcp.call_timeout_seconds", Neutral),
    ("mcp.cache_ttl_minutes", Neutral),
    ("mcp.max_output_bytes", Limit(100_000)),
    ("mcp.servers.*.headers.*", Grants(mcp_header)),
    ("mcp.servers.*.bearer_env", Grants(mcp_variable)),
    ("mcp.servers.*.client_id_env", Grants(mcp_variable)),
    ("mcp.servers.*.client_secret_env", Grants(mcp_variable)),
    ("mcp.servers.*.sandbox", Stricter),
    ("mcp.servers.*.network", Stricter),
    ("mcp.servers.*.cache", Stricter),
    ("mcp.servers.*.readable", UserOnly),
    ("mcp.servers.*.writable", UserOnly),
    ("prices.*.input_per_mtok", Grants(price)),
    ("prices.*.output_per_mtok", Grants(price)),
    ("prices.*.cached_input_per_mtok", Grants(price)),
    ("permissions.approval_timeout_seconds", Stricter),
    ("permissions.rules.*", Stricter),
    ("trust.directories", UserOnly),
];

/// Returns the grants of a project's file in the order of its text.
///
/// `folder` is the directory of the file.
pub(crate) fn grants(table: &DeTable<'_>, folder: &Path) -> Vec<KeyGrant> {
    let mut found = Vec::new();
    walk(table, folder, &mut Vec::new(), &mut found);
    found.sort_by_key(|grant: &KeyGrant| grant.span.start);
    found
}

/// Removes the keys of grants, and the tables that become empty.
pub(crate) fn remove(table: &mut DeTable<'_>, grants: &[KeyGrant]) {
    for grant in grants {
        remove_path(table, &grant.path);
    }
}

fn remove_path(table: &mut DeTable<'_>, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let is_done = match table.get_mut(first.as_str()) {
        Some(value) if !rest.is_empty() => match value.get_mut() {
            DeValue::Table(inner) => {
                remove_path(inner, rest);
                inner.is_empty()
            }
            _ => true,
        },
        _ => true,
    };
    if is_done {
        table.remove(first.as_str());
    }
}

fn walk(table: &DeTable<'_>, folder: &Path, path: &mut Vec<String>, found: &mut Vec<KeyGrant>) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => walk(inner, folder, path, found),
            DeValue::Array(items) => {
                for item in items {
                    match item.get_ref() {
                        DeValue::Table(inner) => walk(inner, folder, path, found),
                        value => judge(value, Span::from(item.span()), folder, path, found),
                    }
                }
            }
            single => judge(single, Span::from(value.span()), folder, path, found),
        }
        path.pop();
    }
}

fn judge(
    value: &DeValue<'_>,
    span: Span,
    folder: &Path,
    path: &[String],
    found: &mut Vec<KeyGrant>,
) {
    let text = written(value);
    let value = KeyValue {
        path,
        text: &text,
        folder,
    };
    let effect = match class(path) {
        Some(Neutral | Stricter | UserOnly) => None,
        Some(Limit(default)) => raised(&value, default),
        Some(Grants(describe)) => Some(describe(&value)),
        Some(SomeGrant(describe)) => describe(&value),
        None => Some("this version does not state its effect".to_owned()),
    };
    found.extend(effect.map(|effect| KeyGrant {
        path: path.to_vec(),
        span,
        effect,
    }));
}

/// Returns the class of a key; `None` if the table lacks it.
pub(crate) fn class(path: &[String]) -> Option<KeyClass> {
    let is_of = |pattern: &str| {
        let mut names = path.iter();
        let fits = pattern.split('.').all(|part| {
            let name = names.next();
            name.is_some_and(|name| part == "*" || part == name)
        });
        fits && names.next().is_none()
    };
    let found = KEYS.iter().find(|(pattern, _)| is_of(pattern));
    found.map(|(_, class)| *class)
}

/// Returns a value as text: a string without its quotes.
fn written(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.to_string(), |number| number.to_string()),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        other => format!("a value of the type {}", other.type_str()),
    }
}

impl KeyValue<'_> {
    /// The name at a place of the path.
    fn name(&self, index: usize) -> &str {
        self.path.get(index).map_or("", String::as_str)
    }

    /// The tools of `tools.KEY` or `tools.settings.NAME.KEY`.
    fn tools(&self) -> String {
        if self.name(1) == "settings" {
            format!("the tool `{}`", self.name(2))
        } else {
            "the commands of every prompt".to_owned()
        }
    }
}

fn raised(value: &KeyValue<'_>, default: u64) -> Option<String> {
    let is_below = value.text.parse::<u64>().is_ok_and(|most| most <= default);
    let text = value.text;
    (!is_below).then(|| format!("raises the limit from {default} to {text}"))
}

fn recording(value: &KeyValue<'_>) -> Option<String> {
    let path = value.text.trim_start().strip_prefix("replay:")?;
    Some(format!("answers from the recording {path}"))
}

fn model_server(value: &KeyValue<'_>) -> String {
    format!("sends every conversation to the server {}", value.text)
}

fn model_key(value: &KeyValue<'_>) -> String {
    let text = value.text;
    format!("sends the content of the variable {text} to the model server")
}

fn root(value: &KeyValue<'_>) -> Option<String> {
    if !leads_out(Path::new(value.text), value.folder) {
        return None;
    }
    // The real path is part of what the user trusts: a link of the checkout may change.
    let path = value.folder.join(value.text);
    let path = path.canonicalize().unwrap_or(path);
    Some(format!(
        "opens {} to the tools of every prompt, for reading and for writing",
        path_text(&path)
    ))
}

fn environment(value: &KeyValue<'_>) -> String {
    let text = value.text;
    format!("gives the variable {text} to commands and to MCP servers")
}

fn readable(value: &KeyValue<'_>) -> String {
    format!("lets {} read {}", value.tools(), value.text)
}

fn writable(value: &KeyValue<'_>) -> String {
    format!("lets {} read and write {}", value.tools(), value.text)
}

fn host(value: &KeyValue<'_>) -> String {
    let text = value.text;
    format!("opens the host {text} to prompts and their tools")
}

fn search(value: &KeyValue<'_>) -> String {
    format!("sends searches to {}", value.text)
}

fn store_ttl(value: &KeyValue<'_>) -> String {
    format!(
        "lets `logue sessions prune` remove sessions that `logue send` uses, {} after their last change",
        value.text
    )
}

fn store(value: &KeyValue<'_>) -> String {
    let text = redacted_address(value.text);
    format!(
        "keeps sessions in {text}, and uses the prompts and the permission rules that are stored there"
    )
}

fn mcp_header(value: &KeyValue<'_>) -> String {
    let (server, header, text) = (value.name(2), value.name(4), value.text);
    format!("sends the header `{header}: {text}` to the MCP server {server}")
}

fn mcp_variable(value: &KeyValue<'_>) -> String {
    let (server, text) = (value.name(2), value.text);
    format!("sends the content of the variable {text} to the MCP server {server}")
}

fn price(value: &KeyValue<'_>) -> String {
    let (model, text) = (value.name(1), value.text);
    format!("sets a price of the model {model} to {text}, which limits of cost use")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::setup::config::Tables;

    /// Returns the message of a file that sets an unknown key in a table.
    fn probe(header: &str) -> String {
        let text = format!("{header}\nzzz = 1\n");
        let failed = toml::from_str::<Tables>(&text).unwrap_err();
        failed.message().to_owned()
    }

    /// Collects the accepted keys below a path, whose `*` are any name.
    fn collect(path: &str, keys: &mut BTreeSet<String>) {
        let concrete = path.replace('*', "any");
        let as_table = if path.is_empty() {
            probe("")
        } else {
            probe(&format!("[{concrete}]"))
        };
        let as_array = || probe(&format!("[[{concrete}]]"));
        let named = |message: &str| -> Option<Vec<String>> {
            let (_, names) = message
                .strip_prefix("unknown field `zzz`, ")?
                .split_once("expected")?;
            Some(
                names
                    .split('`')
                    .skip(1)
                    .step_by(2)
                    .map(str::to_owned)
                    .collect(),
            )
        };
        if let Some(names) = named(&as_table).or_else(|| named(&as_array())) {
            for name in names {
                let dot = if path.is_empty() { "" } else { "." };
                collect(&format!("{path}{dot}{name}"), keys);
            }
        } else if as_table.starts_with("invalid type: integer") {
            // A table with any names.
            collect(&format!("{path}.*"), keys);
        } else {
            keys.insert(path.to_owned());
        }
    }

    #[test]
    fn the_table_has_every_accepted_key() {
        let mut accepted = BTreeSet::new();
        collect("", &mut accepted);
        assert!(accepted.contains("mcp.servers.*.headers.*"), "{accepted:?}");
        assert!(accepted.contains("redact.rule.pattern"), "{accepted:?}");
        let listed: BTreeSet<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        assert_eq!(listed.len(), KEYS.len());
        assert_eq!(listed, accepted);
    }

    #[test]
    fn a_key_that_is_not_in_the_table_grants() {
        let table = DeTable::parse("[model]\nnew = 1\n").unwrap();
        let found = grants(table.get_ref(), Path::new("/"));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_page_states_the_class_of_every_key() {
        let page = include_str!("../../../../../docs/settings.md");
        let row = |class: &str| -> BTreeSet<String> {
            let start = format!("| {class} |");
            let rows = page.lines().filter(|line| line.starts_with(&start));
            let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
            names.map(str::to_owned).collect()
        };
        let of = |is_of: fn(&KeyClass) -> bool| -> BTreeSet<String> {
            let keys = KEYS.iter().filter(|(_, class)| is_of(class));
            keys.map(|(key, _)| (*key).to_owned()).collect()
        };
        assert_eq!(row("neutral"), of(|class| matches!(class, Neutral)));
        assert_eq!(row("stricter"), of(|class| matches!(class, Stricter)));
        assert_eq!(row("limit"), of(|class| matches!(class, Limit(_))));
        assert_eq!(
            row("grants"),
            of(|class| matches!(class, Grants(_) | SomeGrant(_)))
        );
        assert_eq!(row("your own file"), of(|class| matches!(class, UserOnly)));
    }

    #[test]
    fn a_removed_key_leaves_no_empty_table() {
        let text = "[prices.m]\ninput_per_mtok = 1\noutput_per_mtok = 2\n[run]\nmax_requests = 3\n";
        let mut table = DeTable::parse(text).unwrap();
        let found = grants(table.get_ref(), Path::new("/"));
        assert_eq!(found.len(), 2);
        remove(table.get_mut(), &found);
        let left: Vec<&str> = table
            .get_ref()
            .keys()
            .map(|key| key.get_ref().as_ref())
            .collect();
        assert_eq!(left, ["run"]);
    }
}
