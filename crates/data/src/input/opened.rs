//! One file while it is read.

use std::fs::File;
use std::io::{self, Chain, Cursor, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::read::MultiGzDecoder;

use super::lines::{BOM, Lines};
use super::values::{Failure, Values};
use super::{Counted, InputForm, extension};
use crate::batch::{Position, RowBatch};
use crate::error::DataError;

type Stream = Box<dyn Read + Send>;

/// A reader of the batches of one file.
pub(super) enum Opened {
    Lines(Lines<Stream>),
    Values(Values<Stream>),
    #[cfg(feature = "parquet")]
    Parquet(Box<crate::columns::Rows>),
}

impl Opened {
    pub(super) fn batch(&mut self, path: &Path) -> Result<Option<RowBatch>, DataError> {
        match self {
            Self::Lines(lines) => lines.batch().map_err(DataError::read(path)),
            #[cfg(feature = "parquet")]
            Self::Parquet(rows) => rows.batch().map_err(DataError::read(path)),
            Self::Values(values) => values.batch().map_err(|failure| match failure {
                Failure::Io(error) => DataError::read(path)(error),
                Failure::Structure(bad) => DataError::Structure {
                    path: path.to_owned(),
                    line: bad.line,
                    column: bad.column,
                    message: bad.message,
                },
            }),
        }
    }
}

/// The most bytes of a compressed file's window: that of `zstd --long=27`.
const WINDOW_LOG: u32 = 27;

/// Opens a file at a position.
pub(super) fn open(
    path: &Path,
    form: Option<InputForm>,
    at: Position,
    count: &Arc<AtomicU64>,
) -> Result<Opened, DataError> {
    #[cfg(feature = "parquet")]
    if form == Some(InputForm::Parquet) || form.is_none() && is_parquet(path) {
        return parquet(path, at, count).map_err(DataError::read(path));
    }
    let stream = decompressed(path, at.offset, count).map_err(DataError::read(path))?;
    let (form, stream) = match form.or_else(|| by_extension(path)) {
        Some(form) => (form, stream),
        // The form is recognized at the beginning of the file.
        None if at.offset > 0 => {
            let start = decompressed(path, 0, &Arc::default()).map_err(DataError::read(path))?;
            let (form, _) = by_content(start).map_err(DataError::read(path))?;
            (form, stream)
        }
        None => by_content(stream).map_err(DataError::read(path))?,
    };
    Ok(match form {
        InputForm::Lines => Opened::Lines(Lines::new(stream, at)),
        #[cfg(feature = "parquet")]
        InputForm::Parquet => return parquet(path, at, count).map_err(DataError::read(path)),
        InputForm::Json => Opened::Values(Values::new(stream, at)),
    })
}

/// Returns whether a file begins as Parquet does.
#[cfg(feature = "parquet")]
fn is_parquet(path: &Path) -> bool {
    let mut magic = [0; 4];
    let file = File::open(path);
    path.as_os_str() != "-"
        && file.is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"PAR1"
}

/// Opens a Parquet file, whose bytes count as read at once: its columns are read in any order.
#[cfg(feature = "parquet")]
fn parquet(path: &Path, at: Position, count: &Arc<AtomicU64>) -> io::Result<Opened> {
    let file = File::open(path)?;
    count.fetch_add(file.metadata()?.len(), std::sync::atomic::Ordering::Relaxed);
    crate::columns::Rows::new(file, at).map(|rows| Opened::Parquet(Box::new(rows)))
}

fn by_extension(path: &Path) -> Option<InputForm> {
    match extension(path)? {
        "jsonl" | "ndjson" => Some(InputForm::Lines),
        "json" => Some(InputForm::Json),
        _ => None,
    }
}

/// The bytes by which the form of an input without a known extension is recognized.
const LOOKED_AT: u64 = 1 << 20;

/// Recognizes JSON lines by a first line that is one complete object.
fn by_content(mut stream: Stream) -> io::Result<(InputForm, Stream)> {
    let mut start = Vec::new();
    (&mut stream).take(LOOKED_AT).read_to_end(&mut start)?;
    let text = start.strip_prefix(BOM).unwrap_or(&start).trim_ascii_start();
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_line = line.starts_with(b"{")
        && (line.len() < text.len() || text.len() < 1 << 20)
        && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
    let form = if is_line || !text.starts_with(b"[") && !text.starts_with(b"{") {
        InputForm::Lines
    } else {
        InputForm::Json
    };
    Ok((form, Box::new(Cursor::new(start).chain(stream))))
}

/// Returns the decompressed bytes of a file from `offset`.
fn decompressed(path: &Path, offset: u64, count: &Arc<AtomicU64>) -> io::Result<Stream> {
    if path.as_os_str() == "-" {
        return unpacked(io::stdin(), offset, count);
    }
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    if is_compressed(&magic) {
        // A pipe cannot be rewound, so the bytes are put back by joining.
        let stream = Cursor::new(magic).chain(file);
        return unpacked_from(stream, offset, count);
    }
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
        return Ok(Box::new(counted(file, count)));
    }
    Ok(Box::new(Cursor::new(magic).chain(counted(file, count))))
}

fn unpacked<R: Read + Send + 'static>(
    mut read: R,
    offset: u64,
    count: &Arc<AtomicU64>,
) -> io::Result<Stream> {
    let mut magic = Vec::new();
    (&mut read).take(4).read_to_end(&mut magic)?;
    unpacked_from(Cursor::new(magic).chain(read), offset, count)
}

fn unpacked_from<R: Read + Send + 'static>(
    stream: Chain<Cursor<Vec<u8>>, R>,
    offset: u64,
    count: &Arc<AtomicU64>,
) -> io::Result<Stream> {
    let magic = stream.get_ref().0.get_ref().clone();
    let stream = counted(stream, count);
    let mut stream: Stream = if magic.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(stream))
    } else if magic.starts_with(ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::new(stream)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Box::new(decoder)
    } else {
        Box::new(stream)
    };
    let skipped = io::copy(&mut (&mut stream).take(offset), &mut io::sink())?;
    if skipped < offset {
        return Err(io::Error::other(
            "it is shorter than when it was read before",
        ));
    }
    Ok(stream)
}

const GZIP: &[u8] = b"\x1F\x8B";
const ZSTD: &[u8] = b"\x28\xB5\x2F\xFD";

fn is_compressed(magic: &[u8]) -> bool {
    magic.starts_with(GZIP) || magic.starts_with(ZSTD)
}

fn counted<R>(read: R, count: &Arc<AtomicU64>) -> Counted<R> {
    Counted {
        read,
        count: Arc::clone(count),
    }
}
