//! Forms of outputs: lines, compressed lines, columns.

use std::io::{self, Write as _};
use std::path::Path;

use flate2::write::GzEncoder;

/// The form of an output.
///
/// Of compressed lines, every batch is a member (gzip) or a frame (zstd) of its own: batches are compressed in several
/// threads, and a resumed run gives the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// Lines of plain text.
    #[default]
    Lines,
    /// Lines in gzip, level 6.
    Gzip,
    /// Lines in Zstandard, level 3.
    Zstd,
    /// Parquet, with Zstandard of level 3 in it.
    Parquet,
}

impl OutputForm {
    /// Returns the form that the extension of a file names.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            Some("parquet") => Self::Parquet,
            _ => Self::Lines,
        }
    }

    /// Compresses the text of a batch. The empty text gives no bytes; columns are built later.
    ///
    /// # Errors
    /// Returns the error of the compressor, such as missing memory.
    pub fn compress(self, text: Vec<u8>) -> io::Result<Vec<u8>> {
        if text.is_empty() {
            return Ok(text);
        }
        match self {
            Self::Lines | Self::Parquet => Ok(text),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&text)?;
                encoder.finish()
            }
            Self::Zstd => zstd::bulk::compress(&text, 3),
        }
    }
}
