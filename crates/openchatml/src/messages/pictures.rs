//! Images of user messages and of tool results as frames.
//!
//! Each part of such a message is a frame; a result begins with its text, also an empty one. The body of an image is its address, or its data as a
//! `data:` address; its type is `content_type=image_url`. The parts after the first have the
//! attribute `continues=message`. Other forms than 2.2 have no such frames.

use std::borrow::Cow;

use logue_message::{ContentBlock, ImageDetail, ImageSource};

use crate::convert::ConvertError;
use crate::document::owned::{FrameBuf, Transcript};
use crate::loss::{Loss, LossKind, LossTarget};
use crate::read::attributes::{CONTINUES, DETAIL};
use crate::syntax::vocabulary::FrameRole;

const IMAGE_URL: &str = "image_url";
const BASE64: &str = ";base64,";

/// Returns the frame of an image; `None` if it has no address.
pub(super) fn frame(
    role: FrameRole,
    source: &ImageSource,
    media_type: Option<&str>,
    detail: Option<ImageDetail>,
) -> Option<FrameBuf> {
    let frame = FrameBuf::new(role, image_address(source, media_type)?);
    let mut frame = frame.with_content_type(IMAGE_URL);
    if let Some(detail) = detail {
        let value = Some(detail.as_str().to_owned());
        frame.attributes.push((DETAIL.to_owned(), value));
    }
    is_image(&frame).then_some(frame)
}

/// Returns the address of an image, or its data as a `data:` address.
///
/// ```
/// use logue_message::ImageSource;
///
/// let source = ImageSource::Inline("AAAA".to_owned());
/// let address = openchatml::image_address(&source, Some("image/png"));
/// assert_eq!(address.as_deref(), Some("data:image/png;base64,AAAA"));
/// ```
pub fn image_address(source: &ImageSource, media_type: Option<&str>) -> Option<String> {
    match source {
        ImageSource::Url(url) => Some(url.clone()),
        ImageSource::Inline(data) => Some(format!("data:{}{BASE64}{data}", media_type?)),
        _ => None,
    }
}

/// Returns the image at an address, if it is one of `http`, `https` or `data`.
pub(crate) fn image(address: &str, detail: Option<ImageDetail>) -> Option<ContentBlock> {
    if address.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    if let Some(data) = address.strip_prefix("data:") {
        let (media_type, data) = data.split_once(BASE64)?;
        return media_type
            .starts_with("image/")
            .then(|| ContentBlock::Image {
                source: ImageSource::Inline(data.to_owned()),
                media_type: Some(media_type.to_owned()),
                detail,
            });
    }
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| address.starts_with(scheme));
    is_web.then(|| ContentBlock::Image {
        source: ImageSource::Url(address.to_owned()),
        media_type: None,
        detail,
    })
}

/// Returns the image that a frame holds.
pub(super) fn image_of(frame: &FrameBuf) -> Option<ContentBlock> {
    if !has_parts(frame) || frame.content_type.as_deref() != Some(IMAGE_URL) {
        return None;
    }
    let mut attributes = frame.attributes.iter();
    let detail = attributes.find(|(key, _)| key == DETAIL);
    let detail = detail.and_then(|(_, value)| ImageDetail::parse(value.as_deref()?));
    image(&frame.body, detail)
}

/// Returns whether the message of a frame may have several parts.
fn has_parts(frame: &FrameBuf) -> bool {
    matches!(frame.role, FrameRole::User | FrameRole::Tool)
}

fn is_image(frame: &FrameBuf) -> bool {
    image_of(frame).is_some()
}

/// Returns whether a frame is a later part of its message.
pub(crate) fn continues(frame: &FrameBuf) -> bool {
    let mut attributes = frame.attributes.iter();
    has_parts(frame) && attributes.any(|(key, _)| key == CONTINUES)
}

/// Returns whether a part can belong to the message of a frame before it.
pub(super) fn is_one(first: &FrameBuf, part: &FrameBuf) -> bool {
    let is_same = first.role == part.role
        && first.name == part.name
        && first.call_id == part.call_id
        && first.effective_channel() == part.effective_channel();
    has_parts(first) && continues(part) && is_same
}

/// Returns the losses of a form without images: each image, and text parts that are joined.
///
/// ```
/// use openchatml::{LossKind, Transcript, convert};
///
/// let text = b"version: 2.2\n<|start|>user content_type=image_url<|message|>https://a.test/b.png<|end|>";
/// let read = convert::read(text, None, &convert::ConvertOptions::default());
/// let losses = convert::image_losses(&read.transcript);
/// assert_eq!(losses[0].kind, LossKind::ImageDropped);
/// assert!(convert::image_losses(&Transcript::new(Vec::new())).is_empty());
/// ```
pub fn image_losses(transcript: &Transcript) -> Vec<Loss> {
    Unpictured::new(transcript).losses
}

/// A transcript for a form that holds no images.
pub(crate) struct Unpictured<'t> {
    pub(crate) transcript: Cow<'t, Transcript>,
    /// The place of each frame in the original, if they differ.
    places: Option<Vec<usize>>,
    losses: Vec<Loss>,
}

impl<'t> Unpictured<'t> {
    /// Leaves images out, and joins the texts around them.
    pub(crate) fn new(transcript: &'t Transcript) -> Self {
        let frames = &transcript.frames;
        if !frames
            .iter()
            .any(|frame| is_image(frame) || continues(frame))
        {
            return Self {
                transcript: Cow::Borrowed(transcript),
                places: None,
                losses: Vec::new(),
            };
        }
        let mut kept: Vec<FrameBuf> = Vec::with_capacity(frames.len());
        let (mut places, mut losses) = (Vec::new(), Vec::new());
        // Whether a part of the current message is kept.
        let mut is_begun = false;
        for (index, frame) in frames.iter().enumerate() {
            let is_part = continues(frame);
            is_begun &= is_part;
            if is_image(frame) {
                let target = LossTarget::Frame(index);
                losses.push(Loss::new(
                    target,
                    LossKind::ImageDropped,
                    "an image dropped",
                ));
                continue;
            }
            let last = kept
                .last_mut()
                .filter(|last| is_begun && is_one(last, frame));
            if let Some(last) = last {
                last.body.push_str(&frame.body);
                let target = LossTarget::Frame(index);
                let text = "the parts of the text are joined";
                losses.push(Loss::new(target, LossKind::PartsJoined, text));
                continue;
            }
            let mut frame = frame.clone();
            if is_part {
                frame.attributes.retain(|(key, _)| key != CONTINUES);
            }
            is_begun = true;
            kept.push(frame);
            places.push(index);
        }
        let mut transcript = transcript.clone();
        transcript.frames = kept;
        Self {
            transcript: Cow::Owned(transcript),
            places: Some(places),
            losses,
        }
    }

    fn original(&self, index: usize) -> usize {
        let places = self.places.as_ref();
        let place = places.and_then(|places| places.get(index));
        place.copied().unwrap_or(index)
    }

    /// Names the frames of the original in losses, and adds the images.
    pub(crate) fn finish(&self, losses: &mut Vec<Loss>) {
        for loss in losses.iter_mut() {
            if let LossTarget::Frame(index) = loss.target {
                loss.target = LossTarget::Frame(self.original(index));
            }
        }
        losses.extend(self.losses.iter().cloned());
    }

    /// Returns an error with the place of its frame in the original.
    pub(crate) fn restore(&self, error: ConvertError) -> ConvertError {
        match error {
            ConvertError::Frame { index, reason } => ConvertError::Frame {
                index: self.original(index),
                reason,
            },
            ConvertError::Body { index, token } => ConvertError::Body {
                index: self.original(index),
                token,
            },
            other => other,
        }
    }
}
