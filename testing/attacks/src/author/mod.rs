//! Attacks by the author of a prompt or of a checkout.

pub(crate) mod agents;
pub(crate) mod display;
pub(crate) mod inspection;
pub(crate) mod paths;
pub(crate) mod settings;
pub(crate) mod settings_hosts;
pub(crate) mod trust;
