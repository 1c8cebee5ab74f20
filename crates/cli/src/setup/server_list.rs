//! The model servers of a command: their addresses, keys and models.

use std::time::Duration;

use logue_model::{
    ModelSelection, ProviderAccount, ProviderError, ProviderKind, ServerProbe, ServerReport,
    redacted_base_url,
};
use tokio::task::JoinSet;

use crate::exit::CliError;
use crate::setup::local_server;
use crate::setup::settings::{ModelSettings, Settings};

/// The timeout of one request for a list.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a model server and the key for it.
pub(crate) struct ServerAccess {
    account: &'static ProviderAccount,
    url: String,
    pub(crate) key: Option<String>,
    /// Whether the server is in this network.
    ///
    /// Such servers rarely require a key.
    pub(crate) is_local: bool,
}

impl ServerAccess {
    /// Returns the effective access of an account; flags take precedence.
    ///
    /// # Errors
    /// Returns an error if the settings may not send the key that they name.
    pub(crate) fn new(
        account: &'static ProviderAccount,
        base_url: Option<&str>,
        api_key: Option<&str>,
        settings: &ModelSettings,
    ) -> Result<Self, CliError> {
        let effective = settings.account(account);
        let address = effective.base_url(base_url);
        let key = effective.api_key(api_key, &address)?;
        Ok(Self {
            account,
            is_local: is_local(&address.url),
            url: address.url,
            key,
        })
    }

    /// Returns the address without secrets.
    pub(crate) fn shown(&self) -> String {
        redacted_base_url(&self.url)
    }

    /// Returns whether the server may accept a request: it has a key or rarely requires one.
    pub(crate) fn may_answer(&self) -> bool {
        self.key.is_some() || self.is_local
    }

    /// Returns the probe of the server.
    pub(crate) fn probe(&self, timeout: Duration) -> ServerProbe {
        let headers = self.key.as_ref();
        let headers = headers.map_or_else(Vec::new, |key| self.account.headers_with_key(key));
        ServerProbe::new(self.account.models_base_url(&self.url))
            .with_headers(headers)
            .with_timeout(timeout)
    }
}

/// A model server and its list of models.
pub(crate) struct ListedServer {
    /// The address without secrets.
    pub(crate) url: String,
    /// The provider of its models.
    account: &'static ProviderAccount,
    /// Whether the settings or flags name the server; others were found by their ports.
    pub(crate) is_configured: bool,
    pub(crate) report: Result<ServerReport, ProviderError>,
}

impl ListedServer {
    /// Returns the name that `-m` requires for a model of the server.
    pub(crate) fn model_flag(&self, model: &str, settings: &ModelSettings) -> String {
        let is_default = self.account == ProviderAccount::OPENAI;
        let is_plain = ModelSelection::parse(model).kind == ProviderKind::DEFAULT
            && settings.alias(model).is_none();
        if is_default && is_plain {
            model.to_owned()
        } else {
            format!("{}:{model}", self.account.name)
        }
    }
}

/// Requests the lists of the configured servers, and of the servers that this machine runs.
///
/// Servers that require a key which is not configured are left out. The flags belong to the account
/// of Chat Completions; with a base URL, only that server is asked.
///
/// # Errors
/// Returns an error if the settings may not send the key that they name.
pub(crate) async fn listed_servers(
    base_url: Option<&str>,
    api_key: Option<&str>,
    settings: &Settings,
) -> Result<Vec<ListedServer>, CliError> {
    let mut probes = Vec::new();
    for account in ProviderAccount::ALL.iter().copied() {
        let has_flags = account == ProviderAccount::OPENAI;
        if base_url.is_some() && !has_flags {
            continue;
        }
        let access = ServerAccess::new(
            account,
            base_url.filter(|_| has_flags),
            api_key.filter(|_| has_flags),
            &settings.model,
        )?;
        if access.may_answer() {
            probes.push(Probe {
                url: access.shown(),
                account,
                is_configured: true,
                request: access.probe(TIMEOUT),
            });
        }
    }
    if base_url.is_none() {
        let known: Vec<String> = probes.iter().map(|probe| probe.url.clone()).collect();
        probes.extend(local_probes(&known));
    }
    Ok(reports(probes).await)
}

/// Requests the lists of this machine's servers, except those with known addresses.
pub(crate) async fn local_servers(known: &[String]) -> Vec<ListedServer> {
    reports(local_probes(known).collect()).await
}

/// A server whose list is to be requested.
struct Probe {
    url: String,
    account: &'static ProviderAccount,
    is_configured: bool,
    request: ServerProbe,
}

fn local_probes(known: &[String]) -> impl Iterator<Item = Probe> {
    let urls = local_server::open_urls().into_iter();
    let urls = urls.filter(|url| !known.iter().any(|known| is_same_server(known, url)));
    urls.map(|url| Probe {
        request: ServerProbe::new(&*url).with_timeout(TIMEOUT),
        url,
        account: ProviderAccount::OPENAI,
        is_configured: false,
    })
}

/// Requests the lists concurrently and returns the servers in the order of the probes.
async fn reports(probes: Vec<Probe>) -> Vec<ListedServer> {
    let mut tasks = JoinSet::new();
    for (place, probe) in probes.into_iter().enumerate() {
        tasks.spawn(async move {
            let report = probe.request.ask().await;
            let server = ListedServer {
                url: probe.url,
                account: probe.account,
                is_configured: probe.is_configured,
                report,
            };
            (place, server)
        });
    }
    let mut servers = tasks.join_all().await;
    servers.sort_by_key(|(place, _)| *place);
    let servers = servers.into_iter().map(|(_, server)| server);
    // Another program may use the port of a model server.
    servers
        .filter(|server| server.is_configured || server.report.is_ok())
        .collect()
}

/// Returns whether two addresses name one server of this machine.
fn is_same_server(one: &str, other: &str) -> bool {
    let plain = |url: &str| {
        let url = url
            .trim_end_matches('/')
            .replace("://127.0.0.1", "://localhost");
        url.replace("://[::1]", "://localhost")
    };
    plain(one) == plain(other)
}

/// Returns whether an address is on this machine or in its network.
///
/// Such servers rarely require a key.
fn is_local(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or(url);
    let host = host.split('/').next().unwrap_or(host);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    if let Ok(address) = name.parse::<std::net::IpAddr>() {
        return match address {
            std::net::IpAddr::V4(address) => address.is_loopback() || address.is_private(),
            std::net::IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
        };
    }
    name == "localhost" || !name.contains('.') || name.rsplit('.').next() == Some("local")
}
