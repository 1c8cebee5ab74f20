//! Model servers: their kinds, profiles and detection.

mod kind;
mod probe;
mod profile;

pub use kind::ServerKind;
pub use probe::{ListedModel, ServerProbe, ServerReport};
pub use profile::{
    EffortEncoding, ReasoningEvidence, ReasoningReplay, ServerProfile, StructuredOutputMode,
    SystemPlacement, ToolChoiceSupport, ToolImagePlacement,
};
