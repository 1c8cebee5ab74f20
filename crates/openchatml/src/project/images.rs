//! Images in the JSON of providers.

use logue_message::{ContentBlock, ImageDetail, ImageSource};
use serde_json::{Value, json};

use super::node::{Kind, Node, Object};
use super::reading::Reading;
use crate::loss::LossKind;
use crate::messages::{image, image_address};

/// Reads an image of a user's message; one without an address is noted.
pub(super) fn read(reading: &mut Reading, part: &Object<'_>) -> Option<ContentBlock> {
    let block = ["image_url", "source", "image", "url"]
        .iter()
        .find_map(|key| part.get(key))
        .and_then(|node| from_value(node, detail(part)))
        .or_else(|| stored(part));
    match block {
        Some(_) => {
            let mut known = vec![
                "type",
                "image_url",
                "source",
                "image",
                "url",
                "detail",
                "cache_control",
            ];
            if stored(part).is_some() {
                known.push("media_type");
            }
            reading.note_unknown(part, &known);
        }
        None => reading.note(LossKind::ImageDropped, "an image dropped"),
    }
    block
}

/// Reads an address, or an object with an address or with data.
fn from_value(node: Node<'_>, outer: Option<ImageDetail>) -> Option<ContentBlock> {
    if node.kind() == Kind::String {
        return image(&node.string()?, outer);
    }
    let object = node.object()?;
    let text = |key: &str| object.get(key).and_then(Node::string);
    if let Some(url) = text("url") {
        return image(&url, detail(&object).or(outer));
    }
    let (media_type, data) = (text("media_type")?, text("data")?);
    image(&format!("data:{media_type};base64,{data}"), outer)
}

/// Reads inline data as sessions export it, with the media type beside it.
fn stored(part: &Object<'_>) -> Option<ContentBlock> {
    let source = part.get("source")?.object()?;
    let data = source.get("base64_data").and_then(Node::string)?;
    let media_type = part.get("media_type").and_then(Node::string)?;
    image(&format!("data:{media_type};base64,{data}"), detail(part))
}

fn detail(object: &Object<'_>) -> Option<ImageDetail> {
    let word = object.get("detail").and_then(Node::string)?;
    ImageDetail::parse(&word)
}

/// Writes a part of Chat Completions.
pub(super) fn chat_part(block: &ContentBlock) -> Option<Value> {
    let (address, detail) = parts(block)?;
    let mut value = json!({"url": address});
    if let Some(detail) = detail {
        value["detail"] = detail.as_str().into();
    }
    Some(json!({"type": "image_url", "image_url": value}))
}

/// Writes a part of Responses.
pub(super) fn response_part(block: &ContentBlock) -> Option<Value> {
    let (address, detail) = parts(block)?;
    let mut value = json!({"type": "input_image", "image_url": address});
    if let Some(detail) = detail {
        value["detail"] = detail.as_str().into();
    }
    Some(value)
}

/// Writes a block of Anthropic Messages, and whether it lost its level of detail.
pub(super) fn anthropic_block(block: &ContentBlock) -> Option<(Value, bool)> {
    let ContentBlock::Image {
        source,
        media_type,
        detail,
    } = block
    else {
        return None;
    };
    let source = match source {
        ImageSource::Url(url) => json!({"type": "url", "url": url}),
        ImageSource::Inline(data) => {
            json!({"type": "base64", "media_type": media_type.as_deref()?, "data": data})
        }
        _ => return None,
    };
    Some((json!({"type": "image", "source": source}), detail.is_some()))
}

fn parts(block: &ContentBlock) -> Option<(String, Option<ImageDetail>)> {
    match block {
        ContentBlock::Image {
            source,
            media_type,
            detail,
        } => Some((image_address(source, media_type.as_deref())?, *detail)),
        _ => None,
    }
}
