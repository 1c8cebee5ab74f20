//! Reading and decompression of response bodies within a limit.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

/// The compression of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
}

impl Packing {
    /// Returns the compression named by `content-encoding`; `None` if it was not requested.
    pub(crate) fn named(encoding: &str) -> Option<Self> {
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Self::Plain),
            "gzip" | "x-gzip" => Some(Self::Gzip),
            _ => None,
        }
    }
}

/// An error that ends a body.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLarge,
    Broken(io::Error),
}

/// A partially received body.
pub(crate) struct Body {
    /// Number of bytes that may still be received.
    left: usize,
    sink: Sink,
}

enum Sink {
    Plain(Limited),
    Gzip(Box<MultiGzDecoder<Limited>>),
}

impl Body {
    pub(crate) fn new(packing: Packing, limit: usize) -> Self {
        let limited = Limited {
            bytes: Vec::new(),
            limit,
            over: false,
        };
        let sink = match packing {
            Packing::Plain => Sink::Plain(limited),
            Packing::Gzip => Sink::Gzip(Box::new(MultiGzDecoder::new(limited))),
        };
        Self { left: limit, sink }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), BodyError> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .ok_or(BodyError::TooLarge)?;
        match &mut self.sink {
            Sink::Plain(limited) => limited.write_all(bytes).map_err(|_| BodyError::TooLarge),
            Sink::Gzip(unpacker) => {
                let written = unpacker.write_all(bytes);
                written.map_err(|error| fault(unpacker.get_ref(), error))
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>, BodyError> {
        match self.sink {
            Sink::Plain(limited) => Ok(limited.bytes),
            Sink::Gzip(mut unpacker) => {
                let ended = unpacker.try_finish();
                ended.map_err(|error| fault(unpacker.get_ref(), error))?;
                Ok(std::mem::take(&mut unpacker.get_mut().bytes))
            }
        }
    }
}

fn fault(limited: &Limited, error: io::Error) -> BodyError {
    if limited.over {
        BodyError::TooLarge
    } else {
        BodyError::Broken(error)
    }
}

/// A writer that fails above a limit, which stops the decompressor.
struct Limited {
    bytes: Vec<u8>,
    limit: usize,
    over: bool,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.over = true;
            return Err(io::Error::other("more bytes than the limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
