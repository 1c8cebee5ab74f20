//! Check for model servers of this machine.

use crate::arguments::DoctorArgs;
use crate::commands::doctor::finding::Finding;
use crate::counted::counted;
use crate::setup::server_list::local_servers;
use crate::setup::settings::Settings;

const CHECK: &str = "local";

/// Reports the servers whose ports are open, except the configured one.
pub(super) async fn check(arguments: &DoctorArgs, settings: &Settings) -> Vec<Finding> {
    if arguments.offline {
        return Vec::new();
    }
    let account = logue_model::ProviderAccount::OPENAI;
    let configured = settings.model.account(account);
    let configured = configured.base_url(arguments.base_url.as_deref()).url;
    let servers = local_servers(&[configured]).await;
    let found = servers.iter().filter_map(|server| {
        let report = server.report.as_ref().ok()?;
        let software = report.software.as_deref().unwrap_or("a model server");
        let count = counted(report.models.len(), "model");
        let finding = Finding::good(CHECK, format!("{software} at {}, {count}", server.url))
            .with_fact("url", &*server.url);
        Some(match report.models.first() {
            Some(model) => finding.with_help(format!(
                "use it: -m {} --base-url {}",
                model.name, server.url
            )),
            None => finding,
        })
    });
    found.collect()
}
