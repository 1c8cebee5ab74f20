//! Compression of outputs.

use std::io::{self, Write as _};
use std::path::Path;

use flate2::write::GzEncoder;

/// The compression of an output of lines.
///
/// Every batch is a member (gzip) or a frame (zstd) of its own: batches are compressed in several
/// threads, and a resumed run gives the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Plain text.
    #[default]
    None,
    /// Gzip, level 6.
    Gzip,
    /// Zstandard, level 3.
    Zstd,
}

impl Compression {
    /// Returns the compression that the extension of a file names.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Compresses the text of a batch. The empty text gives no bytes.
    ///
    /// # Errors
    /// Returns the error of the compressor, such as missing memory.
    pub fn compress(self, text: Vec<u8>) -> io::Result<Vec<u8>> {
        if text.is_empty() {
            return Ok(text);
        }
        match self {
            Self::None => Ok(text),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&text)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(&text, 3),
        }
    }
}
