//! The merge of the environment and the files, with the rule of each key.
//!
//! | rule | effect |
//! |---|---|
//! | `nearest` | the project's value, otherwise the user's |
//! | `strictest` | the lower value of the two |
//! | `iter` | the values of both |
//! | `user` | the user's value; reading rejects the key in a project's file |
//!
//! The table of [`keys`](crate::setup::config::keys) states the right of a project's file to set each
//! key. A project's layer contains no granting key that the user does not trust.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use logue_agent::{
    DEFAULT_INLINE_BYTES, MAX_AGENT_CALLS, MAX_REQUESTS, Price, ResponseCache, Routing,
};
use logue_harness::chat::OnCrash;
use logue_model::{HttpLimits, ProviderAccount, RetryBudget};
use logue_tools::FetchPolicy;
use logue_tools::mcp::{CatalogCache, McpOptions, McpSettings, TokenStore};
use logue_tools::sandbox::GrantedPath;
use toml::Spanned;

use crate::setup::config::mcp::McpServer;
use crate::setup::config::model::Model;
use crate::setup::config::run::OnCrashKey;
use crate::setup::config::{Layer, Layers, Tables};
use crate::setup::environment::{cache_folder, data_folder, file_owners, state_folder, variable};
use crate::setup::settings::accounts::AccountSettings;
use crate::setup::settings::known_prices::known_prices;
use crate::setup::settings::serve::ServeSettings;
use crate::setup::settings::{
    CacheSettings, ModelSettings, PermissionSettings, RunSettings, Settings, ToolSettings,
    TrustQuestions, TrustSettings, tools,
};
use crate::setup::trust_file::trusts_everything;

/// Merges all settings.
pub(super) fn resolve(layers: &Layers) -> Settings {
    let home = etcetera::home_dir().ok();
    let environment = tools::environment(layers);
    let shell = tools::policy(layers, environment.clone(), home.as_deref());
    Settings {
        files: layers
            .iter()
            .map(|layer| layer.permissions.path.clone())
            .collect(),
        ignored: layers.ignored.clone(),
        model: model(layers),
        run: run(layers),
        caches: caches(layers),
        mcp: mcp(layers, home.as_deref())
            .with_environment(environment)
            .with_sandbox(shell.general().sandbox.clone()),
        tools: ToolSettings {
            roots: tools::roots(layers),
            shell,
        },
        network: network(layers),
        search: layers.iter().find_map(|layer| layer.search.clone()),
        permissions: PermissionSettings {
            project: layers.project().map(|layer| layer.permissions.clone()),
            user: layers.user().map(|layer| layer.permissions.clone()),
            approval_timeout: layers
                .strictest(|tables| tables.permissions.approval_timeout_seconds)
                .map(NonZeroU64::get),
        },
        trust: TrustSettings {
            directories: trusted_directories(layers.user(), home.as_deref()),
            everything: trusts_everything(),
            questions: TrustQuestions::All,
        },
        redaction: layers.redaction.clone(),
        max_inline_bytes: layers
            .nearest(|tables| tables.transcript.max_inline_bytes)
            .unwrap_or(DEFAULT_INLINE_BYTES),
        store_url: store_url(layers),
        store_listen: variable("LOGUE_STORE_LISTEN")
            .or_else(|| layers.nearest(|tables| tables.store.listen.clone())),
        session_ttl: layers.nearest(|tables| tables.store.ttl()),
        traces_url: traces_url(layers),
        serve: ServeSettings::new(layers),
        serve_token: variable("LOGUE_MCP_TOKEN"),
    }
}

fn model(layers: &Layers) -> ModelSettings {
    let mut retry = RetryBudget::default();
    if let Some(retries) = layers.nearest(|tables| tables.model.retries) {
        retry = retry.with_retries(retries);
    }
    if let Some(seconds) = layers.nearest(|tables| tables.model.retry_timeout_seconds) {
        let most = Duration::from_secs(seconds);
        retry = retry.with_total(most).with_longest(most);
    }
    let aliases = layers.user().map(|layer| layer.tables.models.to_map());
    ModelSettings {
        name: variable("LOGUE_MODEL")
            .or_else(|| variable("OPENAI_MODEL"))
            .or_else(|| layers.nearest(|tables| tables.model.name.clone())),
        aliases: aliases.unwrap_or_default(),
        accounts: ProviderAccount::ALL
            .iter()
            .map(|account| AccountSettings::new(account, layers))
            .collect(),
        server_kind: layers.nearest(|tables| tables.model.server_kind()),
        stream: layers.nearest(|tables| tables.model.stream).unwrap_or(true),
        http: http_limits(layers),
        retry,
        harmony_prompt: layers
            .nearest(|tables| tables.model.harmony.prompt())
            .unwrap_or_default(),
        harmony_server: layers
            .nearest(|tables| tables.model.harmony.server())
            .unwrap_or_default(),
        pool: None,
    }
}

fn http_limits(layers: &Layers) -> HttpLimits {
    let seconds = |pick: fn(&Model) -> Option<NonZeroU64>, default: Duration| {
        let seconds = layers.nearest(|tables| pick(&tables.model));
        seconds.map_or(default, from_seconds)
    };
    let mut limits = HttpLimits::default();
    limits.connect = seconds(|model| model.connect_timeout_seconds, limits.connect);
    limits.first_byte = seconds(|model| model.first_byte_timeout_seconds, limits.first_byte);
    limits.idle = seconds(|model| model.idle_timeout_seconds, limits.idle);
    limits.total = seconds(|model| model.total_timeout_seconds, limits.total);
    limits.response_bytes = layers
        .strictest(|tables| tables.model.max_response_bytes)
        .unwrap_or(limits.response_bytes);
    limits.event_bytes = layers
        .strictest(|tables| tables.model.max_event_bytes)
        .unwrap_or(limits.event_bytes);
    limits
}

/// Merges the limits of a run; a checkout cannot loosen what a run may spend.
fn run(layers: &Layers) -> RunSettings {
    let base = Routing::default();
    let concurrency = layers
        .nearest(|tables| tables.tools.concurrency)
        .map_or(base.concurrency, NonZeroUsize::get);
    let envelope = layers
        .nearest(|tables| tables.tools.result_envelope)
        .unwrap_or(base.envelope);
    RunSettings {
        max_requests: layers.limit(MAX_REQUESTS, |tables| {
            usize::try_from(tables.run.max_requests?.get()).ok()
        }),
        max_total_tokens: layers
            .strictest(|tables| tables.run.max_total_tokens)
            .map(NonZeroU64::get),
        max_cost: layers
            .strictest(|tables| tables.run.max_cost_usd)
            .map(|amount| amount.0),
        prices: prices(layers),
        max_agent_depth: layers.limit(MAX_AGENT_CALLS, |tables| tables.run.max_agent_depth),
        routing: base.with_concurrency(concurrency).with_envelope(envelope),
        lock_timeout: Duration::from_secs(
            layers
                .nearest(|tables| tables.run.lock_timeout_seconds)
                .unwrap_or(10),
        ),
        on_crash: match layers.strictest(|tables| tables.run.on_crash) {
            Some(OnCrashKey::Stop) => OnCrash::Stop,
            Some(OnCrashKey::Continue) | None => OnCrash::Continue,
        },
        refines: ["LOGUE_META_REFINE", "OCHAT_META_REFINE"]
            .into_iter()
            .filter_map(variable)
            .any(|value| chatmd::refine::is_truthy(&value)),
    }
}

/// Returns the known prices, replaced by those of the project and then of the user.
fn prices(layers: &Layers) -> BTreeMap<String, Price> {
    // Later prices replace earlier ones.
    let layers = layers.project().into_iter().chain(layers.user());
    let prices = layers.flat_map(|layer| layer.tables.prices.clone());
    let prices = prices.map(|(model, prices)| (model, prices.into()));
    known_prices().chain(prices).collect()
}

fn caches(layers: &Layers) -> CacheSettings {
    let hours = layers
        .nearest(|tables| tables.run.agent_cache_ttl_hours)
        .unwrap_or(24);
    let cache = |folder: Option<PathBuf>, hours: u64| {
        let cache = ResponseCache::new(folder?, Duration::from_hours(hours));
        let cache = cache.with_owners(file_owners());
        Some(cache.without(layers.redaction.clone()))
    };
    CacheSettings {
        agent_responses: cache(cache_folder("agents"), u64::from(hours)).filter(|_| hours > 0),
        // A long lifetime lets a conversation continue from the rewritten text.
        refined_prompts: cache(cache_folder("refined"), 24 * 90),
    }
}

fn network(layers: &Layers) -> FetchPolicy {
    let base = FetchPolicy::default();
    let hosts = layers.iter().flat_map(|layer| layer.hosts.clone());
    let total = layers.nearest(|tables| tables.network.timeout_seconds);
    let total = total.map_or(base.total, from_seconds);
    let max_bytes = layers.strictest(|tables| tables.network.max_page_bytes);
    let max_bytes = max_bytes.unwrap_or(base.max_bytes);
    base.with_hosts(hosts.collect())
        .with_total(total)
        .with_max_bytes(max_bytes)
}

/// Merges the settings of MCP servers; the first file that names a server counts.
fn mcp(layers: &Layers, home: Option<&Path>) -> McpOptions {
    let base = McpOptions::default();
    let minutes = layers
        .nearest(|tables| tables.mcp.cache_ttl_minutes)
        .unwrap_or(5);
    let cache = cache_folder("mcp").filter(|_| minutes > 0);
    let mut servers: BTreeMap<String, McpSettings> = BTreeMap::new();
    for layer in layers.iter() {
        for (name, server) in &layer.tables.mcp.servers {
            let place = |path: &Spanned<PathBuf>| resolved(path.get_ref(), &layer.folder, home);
            let settings = mcp_server(server, place);
            match servers.entry(name.clone()) {
                Entry::Vacant(vacant) => drop(vacant.insert(settings)),
                Entry::Occupied(mut nearer) => nearer.get_mut().restrict(settings),
            }
        }
    }
    let lifetime = Duration::from_secs(minutes.saturating_mul(60));
    let cache = cache.map(|folder| CatalogCache::new(folder, lifetime).with_owners(file_owners()));
    let tokens = state_folder().map(|folder| TokenStore::new(folder.join("mcp")));
    let seconds = |pick: fn(&Tables) -> Option<NonZeroU64>, default| {
        layers.nearest(pick).map_or(default, from_seconds)
    };
    let start = seconds(|tables| tables.mcp.start_timeout_seconds, base.start);
    let call = seconds(|tables| tables.mcp.call_timeout_seconds, base.call);
    let output_bytes = layers.strictest(|tables| tables.mcp.max_output_bytes);
    let output_bytes = output_bytes.unwrap_or(base.output_bytes);
    base.with_start(start)
        .with_call(call)
        .with_output_bytes(output_bytes)
        .with_cache(cache)
        .with_cache_folders(cache_folder("mcp-servers"))
        .with_tokens(tokens.map(|tokens| tokens.with_owners(file_owners())))
        .with_servers(servers)
}

fn mcp_server(server: &McpServer, place: impl Fn(&Spanned<PathBuf>) -> PathBuf) -> McpSettings {
    let named = |name: &Option<Spanned<String>>| variable(name.as_ref()?.get_ref());
    let flag = |value: &Option<Spanned<bool>>| Some(*value.as_ref()?.get_ref());
    let open = |paths: &[Spanned<PathBuf>]| {
        let paths = paths.iter().map(|path| GrantedPath::new(place(path)));
        paths.collect()
    };
    let sandbox = server.sandbox.as_ref();
    McpSettings::default()
        .with_sandbox(sandbox.map(|choice| (*choice.get_ref()).into()))
        .with_network(flag(&server.network))
        .with_cache(flag(&server.cache))
        .with_readable(open(&server.readable))
        .with_writable(open(&server.writable))
        .with_headers(server.headers.clone())
        .with_bearer(named(&server.bearer_env))
        .with_client_id(named(&server.client_id_env))
        .with_client_secret(named(&server.client_secret_env))
}

fn trusted_directories(user: Option<&Layer>, home: Option<&Path>) -> Vec<PathBuf> {
    let directories = user.into_iter().flat_map(|layer| {
        let directories = layer.tables.trust.directories.iter();
        directories.map(|folder| resolved(folder.get_ref(), &layer.folder, home))
    });
    directories.collect()
}

fn store_url(layers: &Layers) -> Option<String> {
    let of_files = || {
        layers.iter().find_map(|layer| {
            let url = layer.tables.store.url.as_ref()?.get_ref();
            // A path in a file is relative to the file.
            match url.strip_prefix("sqlite:") {
                Some(path) => {
                    let path = layer.folder.join(path);
                    Some(format!("sqlite:{}", path.display()))
                }
                None => Some(url.clone()),
            }
        })
    };
    let of_user = || {
        let path = data_folder()?.join("sessions.db");
        Some(format!("sqlite:{}", path.display()))
    };
    variable("LOGUE_STORE").or_else(of_files).or_else(of_user)
}

fn traces_url(layers: &Layers) -> Option<String> {
    if variable("OTEL_SDK_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
        return None;
    }
    variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
        let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")
            .or_else(|| layers.user()?.tables.telemetry.endpoint())?;
        Some(format!("{}/v1/traces", base.trim_end_matches('/')))
    })
}

fn from_seconds(seconds: NonZeroU64) -> Duration {
    Duration::from_secs(seconds.get())
}

/// Resolves a path: `~` is the home directory, other paths are relative to `folder`.
pub(super) fn resolved(path: &Path, folder: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => folder.join(path),
    }
}
