//! One file while it is read.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Chain, Cursor, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::bufread::GzDecoder;
use serde::de::IgnoredAny;

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
///
/// It is opened once, and its first bytes are kept, because a pipe gives each byte once.
pub(super) fn open(
    path: &Path,
    form: Option<InputForm>,
    at: Position,
    count: &Arc<AtomicU64>,
) -> Result<Opened, DataError> {
    opened(path, form, at, count).map_err(DataError::read(path))
}

fn opened(
    path: &Path,
    form: Option<InputForm>,
    at: Position,
    count: &Arc<AtomicU64>,
) -> io::Result<Opened> {
    let source = Source::open(path)?;
    let is_parquet = form.is_none() && source.magic == PARQUET;
    #[cfg(feature = "parquet")]
    if form == Some(InputForm::Parquet) || is_parquet {
        return parquet(source, at, count);
    }
    #[cfg(not(feature = "parquet"))]
    if is_parquet {
        return Err(io::Error::other("it is Parquet, which this build lacks"));
    }
    let known = form.or_else(|| by_extension(path));
    let mut start = Vec::new();
    let (form, stream) = match (known, &source.read) {
        (Some(form), _) => (form, source.stream(at.offset, count)?),
        // The form is recognized at the beginning of the file.
        (None, SourceBytes::File(file)) => {
            let beginning = unpacked(&source.magic, file.try_clone()?, &Arc::default())?;
            beginning.take(LOOKED_AT).read_to_end(&mut start)?;
            (by_content(&start), source.stream(at.offset, count)?)
        }
        (None, SourceBytes::Pipe(_)) => {
            let mut stream = source.stream(at.offset, count)?;
            (&mut stream).take(LOOKED_AT).read_to_end(&mut start)?;
            let form = by_content(&start);
            let joined: Stream = Box::new(Cursor::new(start).chain(stream));
            (form, joined)
        }
    };
    Ok(match form {
        InputForm::Json => Opened::Values(Values::new(stream, at)),
        _ => Opened::Lines(Lines::new(stream, at)),
    })
}

/// An open input with its first bytes.
struct Source {
    magic: Vec<u8>,
    read: SourceBytes,
}

/// The bytes after the first ones, or a file that can be positioned.
enum SourceBytes {
    File(File),
    Pipe(Box<dyn Read + Send>),
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        let mut magic = Vec::new();
        if path.as_os_str() == "-" {
            let mut stdin = io::stdin();
            (&mut stdin).take(MAGIC_BYTES).read_to_end(&mut magic)?;
            let read = SourceBytes::Pipe(Box::new(stdin));
            return Ok(Self { magic, read });
        }
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::other("it is a directory"));
        }
        (&mut file).take(MAGIC_BYTES).read_to_end(&mut magic)?;
        let read = if metadata.is_file() {
            SourceBytes::File(file)
        } else {
            SourceBytes::Pipe(Box::new(file))
        };
        Ok(Self { magic, read })
    }

    /// Returns the decompressed bytes from `offset`.
    fn stream(self, offset: u64, count: &Arc<AtomicU64>) -> io::Result<Stream> {
        let mut stream: Stream = match self.read {
            SourceBytes::File(mut file) if !is_compressed(&self.magic) => {
                file.seek(SeekFrom::Start(offset))?;
                return Ok(Box::new(counted(file, count)));
            }
            SourceBytes::File(file) => unpacked(&self.magic, file, count)?,
            SourceBytes::Pipe(pipe) => unpacked_from(Cursor::new(self.magic).chain(pipe), count)?,
        };
        let skipped = io::copy(&mut (&mut stream).take(offset), &mut io::sink())?;
        if skipped < offset {
            return Err(io::Error::other(
                "it is shorter than when it was read before",
            ));
        }
        Ok(stream)
    }
}

/// Opens a Parquet file, whose bytes count as read at once: its columns are read in any order.
#[cfg(feature = "parquet")]
fn parquet(source: Source, at: Position, count: &Arc<AtomicU64>) -> io::Result<Opened> {
    let SourceBytes::File(file) = source.read else {
        return Err(io::Error::other(
            "Parquet is read from its end, which a pipe does not allow; write it to a file, and name the file",
        ));
    };
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

/// Recognizes the form of an input by its beginning.
///
/// A first row that is broken does not make lines a JSON file: they have other lines that are objects.
fn by_content(start: &[u8]) -> InputForm {
    let is_cut = start.len() as u64 >= LOOKED_AT;
    let text = start.strip_prefix(BOM).unwrap_or(start).trim_ascii();
    let lines = || {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty())
    };
    let is_object = |line: &[u8]| line.starts_with(b"{") && is_json(line);
    let is_lines = match text.first() {
        // An element of an array is followed by a comma, so two such lines are not elements.
        Some(b'[') => {
            let next = lines().skip(1);
            let is_row = lines().next().is_some_and(is_json) && lines().nth(1).is_some();
            is_row
                || lines()
                    .zip(next)
                    .any(|(one, next)| is_object(one) && is_object(next))
        }
        Some(b'{') => {
            let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
            match values.next() {
                Some(Err(error)) if error.is_eof() && is_cut => lines().nth(1).is_none(),
                Some(Err(_)) => lines().any(is_object) || lines().nth(1).is_none(),
                _ => lines().next().is_some_and(is_object),
            }
        }
        _ => true,
    };
    if is_lines {
        InputForm::Lines
    } else {
        InputForm::Json
    }
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Returns the decompressed bytes of a file from its beginning.
fn unpacked(magic: &[u8], mut file: File, count: &Arc<AtomicU64>) -> io::Result<Stream> {
    file.seek(SeekFrom::Start(magic.len() as u64))?;
    unpacked_from(Cursor::new(magic.to_vec()).chain(file), count)
}

fn unpacked_from<R: Read + Send + 'static>(
    stream: Chain<Cursor<Vec<u8>>, R>,
    count: &Arc<AtomicU64>,
) -> io::Result<Stream> {
    let magic = stream.get_ref().0.get_ref().clone();
    let stream = counted(stream, count);
    Ok(if magic.starts_with(GZIP) {
        Box::new(Gzip::new(stream))
    } else if magic.starts_with(ZSTD) {
        let mut decoder = zstd::stream::read::Decoder::new(stream)?;
        decoder.window_log_max(WINDOW_LOG)?;
        Box::new(decoder)
    } else {
        Box::new(stream)
    })
}

/// The bytes by which compression and Parquet are recognized.
const MAGIC_BYTES: u64 = 4;
const GZIP: &[u8] = b"\x1F\x8B";
const ZSTD: &[u8] = b"\x28\xB5\x2F\xFD";
const PARQUET: &[u8] = b"PAR1";

fn is_compressed(magic: &[u8]) -> bool {
    magic.starts_with(GZIP) || magic.starts_with(ZSTD)
}

fn counted<R>(read: R, count: &Arc<AtomicU64>) -> Counted<R> {
    Counted {
        read,
        count: Arc::clone(count),
    }
}

/// A reader of the members of a gzip file, which zeros may follow.
struct Gzip<R: Read> {
    decoder: Option<GzDecoder<BufReader<R>>>,
}

impl<R: Read> Gzip<R> {
    fn new(stream: R) -> Self {
        let stream = BufReader::with_capacity(GZIP_BUFFER, stream);
        Self {
            decoder: Some(GzDecoder::new(stream)),
        }
    }
}

/// The compressed bytes that are read at a time.
const GZIP_BUFFER: usize = 64 * 1024;

impl<R: Read> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let read = decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(decoder) = self.decoder.take() else {
                break;
            };
            let mut stream = decoder.into_inner();
            let mut is_padded = false;
            loop {
                let bytes = stream.fill_buf()?;
                let Some(first) = bytes.iter().position(|byte| *byte != 0) else {
                    let zeros = bytes.len();
                    if zeros == 0 {
                        return Ok(0);
                    }
                    is_padded = true;
                    stream.consume(zeros);
                    continue;
                };
                if is_padded || first > 0 {
                    return Err(io::Error::other(
                        "it has other bytes after the zeros that follow its compressed text",
                    ));
                }
                break;
            }
            self.decoder = Some(GzDecoder::new(stream));
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{InputForm, by_content};

    #[test]
    fn a_broken_first_row_does_not_hide_lines() {
        let lines = [
            "{\"a\":1}\n{\"b\":2}",
            "{\"a\":\n{\"b\":2}\n{\"c\":3}\n",
            "{\"a\":[{\"r\":\"u\"\n{\"b\":2}\n",
            "{\"a\":\"no end\n{\"b\":2}\n",
            "[{\"a\"\n{\"b\":2}\n{\"c\":3}\n",
            "[1]\n{\"b\":2}\n",
            "text\n{\"b\":2}\n",
            "{\"a\":\n",
        ];
        for text in lines {
            assert_eq!(by_content(text.as_bytes()), InputForm::Lines, "{text}");
        }
        let json = [
            "{\n  \"a\": 1\n}\n",
            "{\n  \"a\": 1\n}\n{\"b\":2}\n",
            "{\"a\":1}{\"b\":2}",
            "[\n{\"a\":1},\n{\"b\":},\n{\"c\":3}\n]",
            "[]",
        ];
        for text in json {
            assert_eq!(by_content(text.as_bytes()), InputForm::Json, "{text}");
        }
    }
}
