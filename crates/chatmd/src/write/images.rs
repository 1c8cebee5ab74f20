//! Elements with images.

use super::{CUSTOM, Payload, close, open, open_payload, raw, write_attribute};
use crate::syntax::tag::Tag;

/// The reference to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    src: String,
    is_local: bool,
}

impl ImageRecord {
    /// Creates a reference to a file.
    pub const fn local(src: String) -> Self {
        Self {
            src,
            is_local: true,
        }
    }

    /// Creates a reference to an address.
    pub const fn remote(src: String) -> Self {
        Self {
            src,
            is_local: false,
        }
    }
}

/// A tool response to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResponseRecord<'a> {
    /// The provider's id of the record.
    pub id: Option<&'a str>,
    /// Id of the call.
    pub tool_call_id: &'a str,
    /// Whether the call is a `custom_tool_call`.
    pub custom: bool,
    /// Result of the call.
    pub payload: Payload<'a>,
    /// The images of the result.
    pub images: &'a [ImageRecord],
}

impl<'a> ToolResponseRecord<'a> {
    /// Creates the response of a function call without an id of the record.
    pub const fn new(tool_call_id: &'a str, payload: Payload<'a>) -> Self {
        Self {
            id: None,
            tool_call_id,
            custom: false,
            payload,
            images: &[],
        }
    }

    /// Sets the provider's id of the record.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Option<&'a str>>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets whether the call is a `custom_tool_call`.
    #[must_use]
    pub const fn with_custom(mut self, custom: bool) -> Self {
        self.custom = custom;
        self
    }

    /// Sets the images of the result.
    #[must_use]
    pub const fn with_images(mut self, images: &'a [ImageRecord]) -> Self {
        self.images = images;
        self
    }
}

/// Writes `<img/>` for a file.
///
/// ```
/// assert_eq!(chatmd::write::local_image("a.png"), "<img src=\"a.png\" local/>\n");
/// ```
pub fn local_image(path: &str) -> String {
    let mut out = String::new();
    write_image(&mut out, path, true);
    out.push('\n');
    out
}

/// A part of a user's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPart<'a> {
    /// Text.
    Text(&'a str),
    /// The address of an image.
    Image(&'a str),
}

/// Writes `<user>` with texts and images in their order.
///
/// ```
/// use chatmd::write::{UserPart, user_parts};
///
/// let parts = [UserPart::Text("Look: "), UserPart::Image("https://example.org/a.png")];
/// assert_eq!(
///     user_parts(&parts, None),
///     "<user>\nRAW|Look: |RAW<img src=\"https://example.org/a.png\"/></user>\n"
/// );
/// ```
pub fn user_parts(parts: &[UserPart<'_>], name: Option<&str>) -> String {
    let mut out = String::new();
    open(&mut out, Tag::User, &[("name", name)]);
    // White space before an image would be a text.
    if !matches!(parts, [UserPart::Image(_), ..]) {
        out.push('\n');
    }
    for part in parts {
        match part {
            UserPart::Text(text) => out.push_str(&raw(text)),
            UserPart::Image(address) => write_image(&mut out, address, false),
        }
    }
    close(&mut out, Tag::User);
    out
}

/// Writes `<tool_response>`.
///
/// Its images follow the payload, each on a line.
///
/// ```
/// use chatmd::write::{ImageRecord, Payload, ToolResponseRecord, tool_response};
///
/// let images = [ImageRecord::local("./.chatmd/a.png".to_owned())];
/// let response = ToolResponseRecord::new("c1", Payload::Inline("A chart.")).with_images(&images);
/// assert_eq!(
///     tool_response(&response),
///     "<tool_response tool_call_id=\"c1\">\nRAW|A chart.|RAW\n\
///      <img src=\"./.chatmd/a.png\" local/>\n</tool_response>\n"
/// );
/// ```
pub fn tool_response(response: &ToolResponseRecord<'_>) -> String {
    let attributes = [
        ("type", response.custom.then_some(CUSTOM)),
        ("tool_call_id", Some(response.tool_call_id)),
        ("id", response.id),
    ];
    let mut out = String::new();
    open_payload(&mut out, Tag::ToolResponse, &attributes, response.payload);
    if !response.images.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    for image in response.images {
        write_image(&mut out, &image.src, image.is_local);
        out.push('\n');
    }
    close(&mut out, Tag::ToolResponse);
    out
}

fn write_image(out: &mut String, src: &str, is_local: bool) {
    out.push('<');
    out.push_str(Tag::Img.as_str());
    write_attribute(out, "src", src);
    out.push_str(if is_local { " local/>" } else { "/>" });
}
