//! The JSON of rows, borrowed from their bytes where strings have no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A string, borrowed if it has no escape.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'r>(#[serde(borrow)] pub(super) Cow<'r, str>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawRow<'r> {
    #[serde(borrow)]
    pub(super) messages: Option<Vec<RawMessage<'r>>>,
    #[serde(borrow)]
    pub(super) conversations: Option<Vec<RawMessage<'r>>>,
    #[serde(borrow)]
    pub(super) system: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) tools: Option<&'r RawValue>,
    #[serde(borrow)]
    pub(super) functions: Option<&'r RawValue>,
    pub(super) weight: Option<Mark>,
    pub(super) train: Option<Mark>,
    pub(super) loss: Option<Mark>,
    pub(super) loss_scale: Option<Mark>,
    pub(super) loss_weight: Option<Mark>,
}

/// The marks of a row or message as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawMarks {
    pub(super) weight: Option<Mark>,
    pub(super) train: Option<Mark>,
    pub(super) loss: Option<Mark>,
    pub(super) loss_scale: Option<Mark>,
    pub(super) loss_weight: Option<Mark>,
}

impl RawRow<'_> {
    pub(super) const fn marks(&self) -> RawMarks {
        RawMarks {
            weight: self.weight,
            train: self.train,
            loss: self.loss,
            loss_scale: self.loss_scale,
            loss_weight: self.loss_weight,
        }
    }
}

impl RawMessage<'_> {
    pub(super) const fn marks(&self) -> RawMarks {
        RawMarks {
            weight: self.weight,
            train: self.train,
            loss: self.loss,
            loss_scale: self.loss_scale,
            loss_weight: self.loss_weight,
        }
    }
}

/// The messages of a row, unparsed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawParts<'r> {
    #[serde(borrow)]
    pub(super) messages: Option<Vec<&'r RawValue>>,
    #[serde(borrow)]
    pub(super) conversations: Option<Vec<&'r RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawMessage<'r> {
    #[serde(borrow)]
    pub(super) role: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) from: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) content: Body<'r>,
    #[serde(borrow)]
    pub(super) value: Body<'r>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<RawCall<'r>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<RawFunction<'r>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) channel: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) recipient: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) content_type: Option<Text<'r>>,
    pub(super) weight: Option<Mark>,
    pub(super) train: Option<Mark>,
    pub(super) train_detail: Option<Vec<RawDetail>>,
    pub(super) loss: Option<Mark>,
    pub(super) loss_scale: Option<Mark>,
    pub(super) loss_weight: Option<Mark>,
    // Content that no form of a mask has a place for.
    #[serde(borrow)]
    pub(super) refusal: Option<&'r RawValue>,
    #[serde(borrow)]
    pub(super) audio: Option<&'r RawValue>,
    #[serde(borrow)]
    pub(super) images: Option<&'r RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'r RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawCall<'r> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) function: Option<RawFunction<'r>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'r RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawFunction<'r> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'r RawValue>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct RawDetail {
    pub(super) begin_offset: usize,
    /// Included.
    pub(super) end_offset: usize,
    pub(super) train: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPart<'r> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) content: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) value: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'r>>,
    #[serde(borrow)]
    pub(super) reasoning: Option<Text<'r>>,
    pub(super) train: Option<Mark>,
    pub(super) weight: Option<Mark>,
}

/// The content of a message.
#[derive(Debug, Default)]
pub(super) enum Body<'r> {
    #[default]
    Absent,
    Text(Cow<'r, str>),
    Parts(Vec<RawPart<'r>>),
}

impl<'de: 'r, 'r> Deserialize<'de> for Body<'r> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;
        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = Body<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of parts")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Body<'de>, E> {
                Ok(Body::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Body<'de>, E> {
                Ok(Body::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Body<'de>, E> {
                Ok(Body::Absent)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Body<'de>, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = items.next_element()? {
                    parts.push(part);
                }
                Ok(Body::Parts(parts))
            }
        }
        deserializer.deserialize_any(BodyVisitor)
    }
}

/// The value of a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mark {
    Train,
    Skip,
    /// Neither of the two.
    Other,
}

impl<'de> Deserialize<'de> for Mark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MarkVisitor;
        const fn of(train: bool) -> Mark {
            if train { Mark::Train } else { Mark::Skip }
        }
        impl<'de> Visitor<'de> for MarkVisitor {
            type Value = Mark;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("0, 1, true or false")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Mark, E> {
                Ok(of(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Mark, E> {
                Ok(if value > 1 {
                    Mark::Other
                } else {
                    of(value == 1)
                })
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Mark, E> {
                // The two values are exact in this type.
                Ok(match value {
                    0.0 => Mark::Skip,
                    1.0 => Mark::Train,
                    _ => Mark::Other,
                })
            }

            fn visit_i64<E: de::Error>(self, _value: i64) -> Result<Mark, E> {
                Ok(Mark::Other)
            }

            fn visit_str<E: de::Error>(self, _value: &str) -> Result<Mark, E> {
                Ok(Mark::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Mark, A::Error> {
                while items.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Mark::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Mark, A::Error> {
                while items
                    .next_entry::<de::IgnoredAny, de::IgnoredAny>()?
                    .is_some()
                {}
                Ok(Mark::Other)
            }
        }
        deserializer.deserialize_any(MarkVisitor)
    }
}
