//! Suspension, paused runs and resumption.

pub(crate) mod paused_run;
pub(crate) mod resume;
pub(crate) mod resume_point;
pub(crate) mod suspension;
