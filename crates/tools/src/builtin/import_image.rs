//! `import_image`: shows an image file to the model.

use std::io::Read as _;
use std::sync::Arc;

use logue_message::{Arguments, ToolDefinition};
use serde_json::json;

use super::Builtin;
use super::arguments::ArgumentReader;
use super::blocking::blocking_result;
use crate::tool_image::{MAX_IMAGE_BYTES, ToolImage, ToolImageError};
use crate::{BoxFuture, Roots, Tool, ToolInvocation, ToolResult};

/// The result for a model that takes no images.
const NO_IMAGES: &str = "This model takes no images; change model.";

/// Reads an image file as the result of a call.
#[derive(Clone, Debug)]
pub struct ImportImage {
    definition: ToolDefinition,
    roots: Arc<Roots>,
    takes_images: bool,
}

impl ImportImage {
    /// Creates a tool confined to `roots`, for a model that takes images.
    pub fn new(roots: Arc<Roots>) -> Self {
        let description = "Shows an image file: PNG, JPEG, GIF or WebP.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Path of the image"},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new("import_image", description, parameters),
            roots,
            takes_images: true,
        }
    }

    /// Sets whether the model takes images; calls fail if not.
    #[must_use]
    pub const fn for_model(mut self, takes_images: bool) -> Self {
        self.takes_images = takes_images;
        self
    }

    fn read(&self, arguments: &Arguments) -> Result<ToolResult, String> {
        let arguments = ArgumentReader::read(arguments, &["path"])?;
        let path = arguments.text(&["path"])?;
        if !self.takes_images {
            return Err(NO_IMAGES.to_owned());
        }
        let opened = self.roots.open_file(path);
        let opened = opened.map_err(|error| error.to_string())?;
        let size = usize::try_from(opened.metadata.len()).unwrap_or(usize::MAX);
        if size > MAX_IMAGE_BYTES {
            return Err(format!("{path}: {}", ToolImageError::TooLarge(size)));
        }
        let mut bytes = Vec::new();
        // The file may grow while it is read; one byte more than the limit is an error.
        let mut file = opened.file.take(MAX_IMAGE_BYTES as u64 + 1);
        file.read_to_end(&mut bytes)
            .map_err(|error| format!("{path}: {error}"))?;
        let image = ToolImage::from_bytes(&bytes).map_err(|error| format!("{path}: {error}"))?;
        let (kind, size) = (image.media_type(), image.size());
        let text = format!("[image 1: {path}, {kind}, {size} bytes]");
        Ok(ToolResult::success(text).with_images([image]))
    }
}

impl Tool for ImportImage {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn is_read_only(&self) -> bool {
        Builtin::ImportImage.is_read_only()
    }

    fn call<'a>(&'a self, call: ToolInvocation<'a>) -> BoxFuture<'a, ToolResult> {
        let (tool, arguments) = (self.clone(), call.arguments.clone());
        blocking_result(move || tool.read(&arguments).unwrap_or_else(ToolResult::failure))
    }
}
