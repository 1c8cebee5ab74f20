//! How an update of a field meets the value that is there.

use std::fmt;

use crate::value::FieldValue;

/// The rule by which a field takes a new value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reducer {
    /// The new value replaces the old one.
    #[default]
    LastWriteWins,
    /// The new items go behind the old ones; both sides must be lists.
    Append,
}

impl Reducer {
    /// The name of the rule in schemas and errors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LastWriteWins => "last_write_wins",
            Self::Append => "append",
        }
    }

    /// The rule of that name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "last_write_wins" => Some(Self::LastWriteWins),
            "append" => Some(Self::Append),
            _ => None,
        }
    }

    /// Why the rule cannot bring the two together, if it cannot.
    pub(crate) fn refuses(self, old: &FieldValue, new: &FieldValue) -> Option<String> {
        match self {
            Self::LastWriteWins => None,
            Self::Append => {
                let (side, value) = match (old.as_list(), new.as_list()) {
                    (Some(_), Some(_)) => return None,
                    (None, _) => ("state", old),
                    (_, None) => ("update", new),
                };
                Some(format!(
                    "the {side} holds {}, and only lists can be joined",
                    value.kind()
                ))
            }
        }
    }

    /// Brings the two together; [`refuses`](Self::refuses) had no objection.
    pub(crate) fn reduce(self, old: &mut FieldValue, new: FieldValue) {
        match (self, old.as_list_mut(), new.as_list()) {
            (Self::Append, Some(list), Some(items)) if !list.is_empty() => {
                list.extend(items.items());
            }
            // Behind nothing, the new list can be taken whole.
            _ => *old = new,
        }
    }
}

impl fmt::Display for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
