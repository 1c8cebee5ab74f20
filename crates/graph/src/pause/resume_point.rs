//! The position at which a paused run resumes.

use std::sync::Arc;

use crate::pause::paused_run::Siblings;
use crate::state::snapshot::State;

/// The resume position of a paused run: frames with states, outermost last.
pub(crate) struct ResumePoint {
    pub(crate) frames: Vec<ResumeFrame>,
    pub(crate) node_completed: bool,
}

/// A frame of a paused run that fits its graph.
#[derive(Clone)]
pub(crate) struct ResumeFrame {
    pub(crate) node: usize,
    pub(crate) state: State,
    pub(crate) step: usize,
    pub(crate) attempt_index: usize,
    pub(crate) steps: usize,
    pub(crate) completed: Vec<(Arc<str>, usize)>,
    pub(crate) siblings: Option<Siblings>,
    pub(crate) timers: usize,
    pub(crate) written: Option<Vec<Arc<str>>>,
}

/// The resume position inside a node that contains graphs.
pub(crate) struct NestedResume {
    pub(crate) resume_point: ResumePoint,
    pub(crate) siblings: Option<Siblings>,
}
