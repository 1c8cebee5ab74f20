//! Loads the files that a prompt names: documents, imports, images, other prompts.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chatmd::{
    DocumentRequest, DocumentText, ImageData, ImageRequest, ImportRequest, ImportedText, World,
    WorldError, WorldErrorKind,
};
use logue_message::image_media_type;
use logue_tools::{EntryKind, FolderHandle, RootError, Roots, WrittenFiles};

use crate::prompt::source_file::MAX_SOURCE_BYTES;
use crate::transcript::payload::is_as_named;

/// The size limit of a document in a message, in bytes.
const MAX_DOCUMENT: u64 = 16 * 1024 * 1024;

/// The directory beside a transcript with its payload files.
pub(crate) const PAYLOAD_FOLDER: &str = ".chatmd";

/// The files that a prompt can read.
///
/// A document is searched below the roots, the prompt's directory first. Payload files of a
/// transcript (`./.chatmd/…`) are searched only in `.chatmd` of the transcript's own directory, so
/// that a transcript elsewhere neither uses another one's payloads nor opens the directory that it
/// is written to. Imports are relative to the importing file.
#[derive(Clone, Debug)]
pub struct FileLoader {
    roots: Arc<Roots>,
    /// The directory of the transcript; `None` if it does not exist.
    transcript: Option<FolderHandle>,
    file: Option<PathBuf>,
    written: WrittenFiles,
}

impl FileLoader {
    /// A loader of `roots`, with the payloads of a transcript in `transcript_folder`.
    pub fn new(roots: Arc<Roots>, transcript_folder: &Path) -> Self {
        let known = roots.at(transcript_folder).map(|root| (**root).clone());
        Self {
            transcript: known.or_else(|| FolderHandle::open(transcript_folder).ok()),
            roots,
            file: None,
            written: WrittenFiles::default(),
        }
    }

    /// Shares the record of files that tools have written with `other`.
    #[must_use]
    pub(crate) fn together_with(mut self, other: &Self) -> Self {
        self.written = other.written.clone();
        self
    }

    /// The files that tools have written.
    pub(crate) fn written(&self) -> &WrittenFiles {
        &self.written
    }

    /// Refuses a file that a tool has written: a model could grant itself tools with it.
    fn unwritten(&self, src: &str, real: &Path) -> Result<(), WorldError> {
        if !self.written.contains(real) {
            return Ok(());
        }
        let message = format!("{src}: a tool wrote it in this run, so it is not taken as a prompt");
        Err(WorldError::new(WorldErrorKind::Other, message)
            .with_help("review its content, and run again"))
    }

    /// Names the file of the prompt, so that an import of it is detected.
    #[must_use]
    pub fn with_file(mut self, path: &Path) -> Self {
        self.file = path.canonicalize().ok();
        self
    }

    /// The directories that may be read.
    pub fn roots(&self) -> &Arc<Roots> {
        &self.roots
    }

    /// The canonical path of the prompt.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads another prompt and returns its text and canonical path.
    pub(crate) fn prompt(&self, src: &str) -> Result<(String, PathBuf), WorldError> {
        let (bytes, path) = read(&self.roots, src, MAX_DOCUMENT)?;
        self.unwritten(src, &path)?;
        Ok((into_text(src, bytes)?, path))
    }

    /// Reads a payload of the transcript, up to the size limit of a transcript.
    fn payload(&self, src: &str, name: &str) -> Result<Vec<u8>, WorldError> {
        let found = self.payload_folder(src, name);
        let found = found.and_then(|folder| read(&folder, name, MAX_SOURCE_BYTES));
        let (bytes, _) = found.map_err(|error| match error.kind {
            WorldErrorKind::NotFound => WorldError::new(
                WorldErrorKind::PayloadMissing,
                format!("{src}: payload not found beside the transcript"),
            )
            .with_help(
                "restore the directory `.chatmd` beside the transcript, or remove \
                 the tool call and its response",
            ),
            _ => error,
        })?;
        if !is_as_named(name, &bytes) {
            return Err(WorldError::new(
                WorldErrorKind::PayloadChanged,
                format!("{src}: the payload was changed after the transcript named it"),
            )
            .with_help(
                "bring the original back; to keep the change, give the file another name and \
                 name that in the transcript",
            ));
        }
        Ok(bytes)
    }
}

impl FileLoader {
    /// Opens the directory of the transcript's payload files.
    fn payload_folder(&self, src: &str, name: &str) -> Result<Roots, WorldError> {
        let missing = || refused(&RootError::NotFound(name.to_owned()));
        let beside = self.transcript.as_ref().ok_or_else(missing)?;
        let folder = OsStr::new(PAYLOAD_FOLDER);
        match beside.enter(folder) {
            Ok(folder) => Ok(Roots::of_folder(folder)),
            Err(error) => match beside.kind(folder) {
                Ok(EntryKind::Folder) => {
                    let message = format!("{src}: {error}");
                    Err(WorldError::new(WorldErrorKind::Other, message))
                }
                Ok(_) => Err(no_payload_folder(src)),
                Err(_) => Err(missing()),
            },
        }
    }
}

/// The error of a link or file in the place of the payload directory.
fn no_payload_folder(src: &str) -> WorldError {
    let message = format!(
        "{src}: `{PAYLOAD_FOLDER}` beside the transcript is not a directory, or is a link to one"
    );
    WorldError::new(WorldErrorKind::PayloadFolder, message)
        .with_help("replace it by a directory; links are not followed there")
}

impl World for FileLoader {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        let src = request.src;
        if !request.local {
            return Err(network_is_off(src));
        }
        let bytes = match payload_name(src) {
            None => read(&self.roots, src, MAX_DOCUMENT)?.0,
            Some(name) => self.payload(src, name)?,
        };
        let text = DocumentText::from(into_text(src, bytes)?);
        Ok(if is_html_name(src) {
            text.with_media_type("text/html")
        } else {
            text
        })
    }

    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        // The importing file is at its own canonical path; the roots still decide.
        let folder = request.importer.and_then(|path| Path::new(path).parent());
        let path = match folder {
            Some(folder) => folder.join(request.src).display().to_string(),
            None => request.src.to_owned(),
        };
        let (bytes, real) = read(&self.roots, &path, MAX_DOCUMENT)?;
        self.unwritten(request.src, &real)?;
        let name = match real.strip_prefix(self.roots.base()) {
            Ok(inside) => inside.display().to_string(),
            Err(_) => real.display().to_string(),
        };
        let text = into_text(&name, bytes)?;
        Ok(ImportedText::new(real.display().to_string(), name, text))
    }

    fn image(&mut self, request: &ImageRequest<'_>) -> Result<ImageData, WorldError> {
        let bytes = match payload_name(request.src) {
            None => read(&self.roots, request.src, MAX_DOCUMENT)?.0,
            Some(name) => self.payload(request.src, name)?,
        };
        let media_type = image_media_type(&bytes).ok_or_else(|| {
            let message = format!("{}: is not a PNG, JPEG, GIF or WebP image", request.src);
            WorldError::new(WorldErrorKind::Other, message)
                .with_help("convert it to one of the four; the type is detected from the content")
        })?;
        Ok(ImageData::new(media_type, STANDARD.encode(bytes)))
    }

    fn root_id(&self) -> Option<String> {
        Some(self.file.as_ref()?.display().to_string())
    }
}

/// The error of an address while the network is off.
pub(crate) fn network_is_off(src: &str) -> WorldError {
    WorldError::new(
        WorldErrorKind::Denied,
        format!("{src}: the network is off for prompts"),
    )
    .with_help("--allow-host HOST and `[network] allowed_hosts` in logue.toml allow a host; for a file add `local`")
}

fn is_html_name(src: &str) -> bool {
    let ending = Path::new(src)
        .extension()
        .and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ["html", "htm", "xhtml"]
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// Reads a file, and returns its path without links as well.
fn read(roots: &Roots, src: &str, most: u64) -> Result<(Vec<u8>, PathBuf), WorldError> {
    let opened = roots.open_file(src).map_err(|error| refused(&error))?;
    let too_large = || {
        let message = format!("{src}: has more than the {most} bytes that a document may have");
        WorldError::new(WorldErrorKind::TooLarge, message)
    };
    if opened.metadata.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    opened
        .file
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| WorldError::new(WorldErrorKind::Other, format!("{src}: {error}")))?;
    // The file may have grown since its size was read.
    if bytes.len() as u64 > most {
        return Err(too_large());
    }
    Ok((bytes, opened.path))
}

fn into_text(src: &str, bytes: Vec<u8>) -> Result<String, WorldError> {
    String::from_utf8(bytes)
        .map_err(|_| WorldError::new(WorldErrorKind::NotUtf8, format!("{src}: is not UTF-8 text")))
}

fn refused(error: &RootError) -> WorldError {
    let kind = match error {
        RootError::NotFound(_) => WorldErrorKind::NotFound,
        RootError::Outside(_) => WorldErrorKind::OutsideRoots,
        _ => WorldErrorKind::Other,
    };
    WorldError::new(kind, error.to_string())
        .with_help("paths are relative to the directory of the prompt; --root DIR adds another one")
}

/// Returns the name of a payload in its directory: one plain component.
pub(crate) fn payload_name(src: &str) -> Option<&str> {
    let within = src.strip_prefix("./").unwrap_or(src);
    let name = within.strip_prefix(PAYLOAD_FOLDER)?.strip_prefix('/')?;
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Some(name),
        _ => None,
    }
}
