//! Images of tool results, within limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logue_message::{ContentBlock, image_media_type};

/// The maximum size of an image in a tool result, in bytes.
///
/// It is 5 MiB as base64, the most that providers accept.
pub const MAX_IMAGE_BYTES: usize = 3_932_160;

/// The maximum number of images in a tool result.
pub const MAX_IMAGES: usize = 8;

/// A PNG, JPEG, GIF or WebP image of at most [`MAX_IMAGE_BYTES`].
///
/// ```
/// use logue_tools::{ToolImage, ToolResult};
///
/// let image = ToolImage::from_bytes(b"GIF89a...")?;
/// assert_eq!(image.media_type(), "image/gif");
/// assert!(ToolImage::from_bytes(b"<svg/>").is_err());
/// let result = ToolResult::success("The chart.").with_images([image]);
/// assert_eq!(result.images().len(), 1);
/// # Ok::<(), logue_tools::ToolImageError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolImage {
    media_type: &'static str,
    base64: String,
    size: usize,
}

/// The error of data that cannot be an image of a tool result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolImageError {
    /// The image has this many bytes, more than [`MAX_IMAGE_BYTES`].
    TooLarge(usize),
    /// The data is not base64.
    NotBase64,
    /// The content is not one of the four types.
    UnknownType,
}

impl std::fmt::Display for ToolImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(
                f,
                "has {bytes} bytes, more than the {MAX_IMAGE_BYTES} of an image in a tool result; \
                 make it smaller"
            ),
            Self::NotBase64 => f.write_str("is not valid base64"),
            Self::UnknownType => f.write_str(
                "is not a PNG, JPEG, GIF or WebP image; the type is detected from the content",
            ),
        }
    }
}

impl std::error::Error for ToolImageError {}

impl ToolImage {
    /// Creates an image from the content of a file.
    ///
    /// # Errors
    /// Returns an error if the content is too large or not one of the four types.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ToolImageError> {
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(ToolImageError::TooLarge(bytes.len()));
        }
        let media_type = image_media_type(bytes).ok_or(ToolImageError::UnknownType)?;
        Ok(Self {
            media_type,
            base64: STANDARD.encode(bytes),
            size: bytes.len(),
        })
    }

    /// Creates an image from base64.
    ///
    /// # Errors
    /// Returns an error if the data is not base64, or as [`from_bytes`](Self::from_bytes) does.
    pub fn from_base64(data: &str) -> Result<Self, ToolImageError> {
        // Four characters encode three bytes; larger data is not decoded.
        let size = data.len() / 4 * 3;
        if size > MAX_IMAGE_BYTES + 3 {
            return Err(ToolImageError::TooLarge(size));
        }
        let bytes = STANDARD
            .decode(data)
            .map_err(|_| ToolImageError::NotBase64)?;
        Self::from_bytes(&bytes)
    }

    /// Returns the media type, which was detected from the content.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the image as a block of a message.
    pub fn to_block(&self) -> ContentBlock {
        ContentBlock::inline_image(self.media_type, self.base64.clone())
    }
}
