//! Checks of the effective model: its name, its key, its server.

use std::time::Duration;

use logue_model::{
    Category, ModelSelection, ProviderAccount, ProviderBackend, ProviderError, Recording,
    ServerProbe, is_placeholder_key, redacted_base_url,
};

use crate::arguments::DoctorArgs;
use crate::commands::doctor::finding::Finding;
use crate::counted::counted;
use crate::setup::server_list::ServerAccess;
use crate::setup::settings::Settings;
use crate::setup::settings::accounts::account_of_flags;

const MODEL: &str = "model";
const KEY: &str = "key";
const SERVER: &str = "server";

/// Timeout of one request to the server.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn check(arguments: &DoctorArgs, settings: &Settings) -> Vec<Finding> {
    let named = arguments
        .model
        .clone()
        .or_else(|| settings.model.name.clone());
    let full = settings.model.of_flag(named.as_deref());
    let selection = full.as_deref().map(ModelSelection::parse);
    let mut findings = Vec::new();
    match (&named, &selection) {
        (Some(named), Some(selection)) => {
            findings.push(Finding::good(MODEL, named).with_fact("model", named.as_str()));
            match selection.kind.entry().backend {
                ProviderBackend::Server { .. } => {}
                ProviderBackend::Echo => return findings,
                ProviderBackend::Recording => {
                    findings.push(recording(&selection.model));
                    return findings;
                }
            }
        }
        _ => findings.push(
            Finding::doubtful(MODEL, "no default model: each prompt must name one")
                .with_help("set LOGUE_MODEL, or `name` under [model] in logue.toml")
                .with_help("`logue doctor --fix` writes a model of a server that answers"),
        ),
    }
    let selected = selection.as_ref();
    let account = selected.and_then(|selection| selection.kind.account());
    // Without a model, the default account is checked.
    let account = account.unwrap_or(ProviderAccount::OPENAI);
    // As in a run, the flags apply to the provider that -m names.
    let ours = account == account_of_flags(arguments.model.as_deref(), &settings.model);
    let flag = |flag: &Option<String>| flag.clone().filter(|_| ours);
    let (base_url, api_key) = (flag(&arguments.base_url), flag(&arguments.api_key));
    let effective = ServerAccess::new(
        account,
        base_url.as_deref(),
        api_key.as_deref(),
        &settings.model,
    );
    let access = match effective {
        Ok(access) => access,
        Err(failure) => {
            let finding = Finding::bad(KEY, failure.message);
            let help = failure.help.into_iter();
            findings.push(help.fold(finding, Finding::with_help));
            return findings;
        }
    };
    let probe = access.probe(TIMEOUT);
    if let Err(error) = probe.check_address() {
        findings.push(failed(Finding::bad, error, &probe.base_url));
        return findings;
    }
    let shown = access.shown();
    findings.push(match &access.key {
        Some(_) => Finding::good(KEY, format!("key found for {shown}")),
        None if access.is_local => {
            Finding::good(KEY, "no key; servers on this machine require none")
        }
        None => Finding::bad(KEY, format!("no key for {shown}"))
            .with_help(format!(
                "set {}, or `api_key_env` under [{}] in logue.toml",
                account.key_variable, account.table
            ))
            .with_help(format!(
                "for your own server, set {}",
                account.base_url_variable
            )),
    });
    if access.key.as_deref().is_some_and(is_placeholder_key) {
        let message = "the key is short or a common word, so messages of the server are shown as \
                       they are, even where they contain it";
        findings.push(Finding::doubtful(KEY, message));
    }
    if arguments.offline || !access.may_answer() {
        // Without a key, the server would reject the request.
        return findings;
    }
    let wanted = selection
        .map(|selection| selection.model)
        .filter(|model| !model.is_empty());
    findings.extend(server(&probe, wanted.as_deref()).await);
    findings
}

/// Probes the server and checks that it lists the model.
async fn server(probe: &ServerProbe, wanted: Option<&str>) -> Vec<Finding> {
    let url = &*redacted_base_url(&probe.base_url);
    let report = match probe.ask().await {
        Ok(report) => report,
        Err(error) => {
            // A server without a list of models may still serve requests.
            let standing = match error.category {
                Category::InvalidRequest | Category::InvalidResponse => Finding::doubtful,
                _ => Finding::bad,
            };
            return vec![failed(standing, error, url)];
        }
    };
    let software = report.software.as_deref();
    let names: Vec<&str> = report.models.iter().map(|model| &*model.name).collect();
    let count = names.len();
    let mut message = format!("{url} answers: {}", software.unwrap_or("unknown software"));
    message.push_str(&format!(", {}", counted(count, "model")));
    let mut findings = vec![
        Finding::good(SERVER, message)
            .with_fact("url", url)
            .with_fact("software", software)
            .with_fact("models", names.clone()),
    ];
    if let Some(wanted) = wanted
        && count > 0
        && !names.iter().any(|model| is_same(model, wanted))
    {
        let finding = Finding::doubtful(MODEL, format!("the server does not list `{wanted}`"));
        let some: Vec<&str> = names.iter().take(5).copied().collect();
        let rest = if count > some.len() {
            "; `logue models` prints all"
        } else {
            ""
        };
        let listed = format!("it lists {}{rest}", some.join(", "));
        let suggested = chatmd::suggest(wanted, names.iter().copied());
        let suggested = suggested.map(|name| format!("did you mean `{name}`?"));
        findings.push(finding.with_help(suggested.unwrap_or(listed)));
    }
    findings
}

/// Returns the finding of a server that cannot be used.
fn failed(
    standing: fn(&'static str, String) -> Finding,
    error: ProviderError,
    url: &str,
) -> Finding {
    let message = format!("{} ({})", error.message, error.category);
    let help = error.help.into_iter();
    help.fold(standing(SERVER, message), Finding::with_help)
        .with_fact("url", &*redacted_base_url(url))
        .with_fact("category", error.category.as_str())
}

/// Returns whether two names denote one model; servers list `llama3` as `llama3:latest`.
fn is_same(listed: &str, wanted: &str) -> bool {
    listed == wanted || listed.strip_suffix(":latest") == Some(wanted)
}

fn recording(path: &str) -> Finding {
    let read = logue_agent::read_bytes(path.as_ref()).map_err(|error| error.diagnostic.message);
    let parsed = read.and_then(|bytes| {
        let parsed = Recording::parse(path, &bytes);
        parsed.map_err(|error| error.to_string())
    });
    match parsed {
        Ok(_) => Finding::good(SERVER, format!("the recording {path} is valid")),
        Err(error) => Finding::bad(SERVER, format!("the recording {path}: {error}"))
            .with_help("`logue check` on the recording shows the place"),
    }
}
