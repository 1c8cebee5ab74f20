//! Conversion of server responses to tool results.

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};

use crate::output::BoundedBuffer;
use crate::tool_image::{MAX_IMAGES, ToolImage};
use crate::{Provenance, ToolResult};

/// Formats a result as text of at most `limit` bytes, and its images.
///
/// Other content is named only.
pub(crate) fn outcome(result: &CallToolResult, server: &str, limit: usize) -> ToolResult {
    let mut text = BoundedBuffer::new(limit);
    let mut images = Vec::new();
    for (at, block) in result.content.iter().enumerate() {
        if at > 0 {
            text.push(b"\n");
        }
        push(block, &mut text, &mut images);
    }
    let has_text = result
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::Text(text) if !text.text.trim().is_empty()));
    // Servers usually repeat structured content as text; if not, the value is the only content.
    if let Some(value) = result.structured_content.as_ref().filter(|_| !has_text) {
        if !result.content.is_empty() {
            text.push(b"\n");
        }
        text.push(value.to_string().as_bytes());
    }
    server_result(text, !result.is_error.unwrap_or(false), server).with_images(images)
}

/// Creates a result with the server as its origin.
pub(crate) fn server_result(text: BoundedBuffer, ok: bool, server: &str) -> ToolResult {
    let text = text.into_text();
    let text = match (text.is_empty(), ok) {
        (false, _) => text,
        (true, true) => "[the tool worked and said nothing]".to_owned(),
        (true, false) => "[the tool failed and did not say why]".to_owned(),
    };
    let outcome = if ok {
        ToolResult::success(text)
    } else {
        ToolResult::failure(text)
    };
    outcome.with_provenance(Provenance::new(server))
}

fn push(block: &ContentBlock, text: &mut BoundedBuffer, images: &mut Vec<ToolImage>) {
    match block {
        ContentBlock::Text(block) => text.push(block.text.as_bytes()),
        ContentBlock::Image(block) => {
            image(text, images, "an image", &block.mime_type, &block.data);
        }
        ContentBlock::Audio(audio) => unseen(text, "a sound", &audio.mime_type, &audio.data, ""),
        ContentBlock::ResourceLink(link) => text.push(linked(link).as_bytes()),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents {
                uri, text: content, ..
            } => {
                text.push(format!("[{uri}]\n").as_bytes());
                text.push(content.as_bytes());
            }
            ResourceContents::BlobResourceContents {
                uri,
                mime_type,
                blob,
                ..
            } => match mime_type.as_deref() {
                Some(kind) if kind.starts_with("image/") => image(text, images, uri, kind, blob),
                kind => unseen(text, uri, kind.unwrap_or("an unknown type"), blob, ""),
            },
            _ => text.push(b"[a resource of an unknown kind]"),
        },
        _ => text.push(b"[content of an unknown kind]"),
    }
}

/// Keeps an image, and marks its place in the text.
fn image(
    text: &mut BoundedBuffer,
    images: &mut Vec<ToolImage>,
    what: &str,
    kind: &str,
    base64: &str,
) {
    let image = match images.len() {
        MAX_IMAGES => Err(format!(
            ": a result has at most {MAX_IMAGES} images, and this one is dropped"
        )),
        _ => ToolImage::from_base64(base64).map_err(|error| format!(": it {error}")),
    };
    match image {
        Err(reason) => unseen(text, what, kind, base64, &reason),
        Ok(image) => {
            let (number, kind, size) = (images.len() + 1, image.media_type(), image.size());
            let mark = match what {
                "an image" => format!("[image {number}: {kind}, {size} bytes]"),
                uri => format!("[image {number}: {uri}, {kind}, {size} bytes]"),
            };
            text.push(mark.as_bytes());
            images.push(image);
        }
    }
}

/// Names content that is not kept. Four base64 characters encode three bytes.
fn unseen(text: &mut BoundedBuffer, what: &str, kind: &str, base64: &str, reason: &str) {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    text.push(format!("[{what} of {kind}, {bytes} bytes: not shown{reason}]").as_bytes());
}

fn linked(link: &Resource) -> String {
    let mut text = format!("[resource {}: {}", link.name, link.uri);
    if let Some(kind) = &link.mime_type {
        text.push_str(&format!(" ({kind})"));
    }
    if let Some(description) = &link.description {
        text.push_str(&format!(", {description}"));
    }
    text.push(']');
    text
}
