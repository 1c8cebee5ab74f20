//! Permissions, approvals and their record.

pub(crate) mod approval;
pub(crate) mod approver;
pub(crate) mod audit;
pub(crate) mod audit_file;
pub(crate) mod decision_source;
pub(crate) mod edit;
pub(crate) mod gate;
pub(crate) mod permissions;
pub(crate) mod redacted_call;
pub(crate) mod rules;
