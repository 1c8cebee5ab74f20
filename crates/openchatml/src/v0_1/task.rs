//! Texts of 0.1 without a conversation: a gap to fill, and several files in one text.

use super::marker::Marker;

/// The content of a text without messages (OpenChatML 0.1 §6, §7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task<'s> {
    /// A gap to fill.
    Fim(Fim<'s>),
    /// Several files.
    Files(Files<'s>),
}

/// A gap to fill (OpenChatML 0.1 §6, which closes the list). The parts are verbatim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fim<'s> {
    /// Text before the gap.
    pub prefix: &'s [u8],
    /// Text of the gap; empty if it is still open.
    pub middle: &'s [u8],
    /// Text after the gap.
    pub suffix: &'s [u8],
}

/// Several files in one text (OpenChatML 0.1 §7). The parts are verbatim, newlines beside the
/// separators included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files<'s> {
    /// Whether a separator precedes the first file.
    pub leading: bool,
    /// The files in order.
    pub files: Vec<&'s [u8]>,
}

impl<'s> Task<'s> {
    /// Reads a task; `None` if the text is not one. Linear in the text.
    ///
    /// ```
    /// use openchatml::v0_1::Task;
    ///
    /// let text = b"<|fim_prefix|>The capital is <|fim_middle|><|fim_suffix|>, a city.";
    /// let Some(Task::Fim(gap)) = Task::read(text) else { panic!() };
    /// assert_eq!(gap.suffix, b", a city.");
    /// assert_eq!(gap.write(), text);
    /// ```
    pub fn read(text: &'s [u8]) -> Option<Self> {
        if let Some(gap) = Fim::read(text) {
            return Some(Self::Fim(gap));
        }
        Files::read(text).map(Self::Files)
    }
}

impl<'s> Fim<'s> {
    /// Reads `<|fim_prefix|>…<|fim_middle|>…<|fim_suffix|>…`.
    ///
    /// Each token must occur once and in this order. Only white space may precede the first token.
    pub fn read(text: &'s [u8]) -> Option<Self> {
        let text = text.trim_ascii_start();
        let text = text.strip_prefix(Marker::FimPrefix.as_str().as_bytes())?;
        let (prefix, text) = cut(text, Marker::FimMiddle)?;
        let (middle, suffix) = cut(text, Marker::FimSuffix)?;
        let parts = [prefix, middle, suffix];
        let tokens = [
            Marker::FimPrefix,
            Marker::FimMiddle,
            Marker::FimSuffix,
            Marker::FileSeparator,
        ];
        let again = |part: &[u8]| tokens.iter().any(|token| cut(part, *token).is_some());
        if parts.iter().any(|part| again(part)) {
            return None;
        }
        Some(Self {
            prefix,
            middle,
            suffix,
        })
    }

    /// The text of the task; reading gives it back.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let parts = [
            (Marker::FimPrefix, self.prefix),
            (Marker::FimMiddle, self.middle),
            (Marker::FimSuffix, self.suffix),
        ];
        for (token, part) in parts {
            out.extend_from_slice(token.as_str().as_bytes());
            out.extend_from_slice(part);
        }
        out
    }

    /// The text with its gap filled.
    pub fn filled(&self) -> Vec<u8> {
        [self.prefix, self.middle, self.suffix].concat()
    }
}

impl<'s> Files<'s> {
    /// Reads files between `<|file_separator|>`; `None` if the text has no separator.
    pub fn read(text: &'s [u8]) -> Option<Self> {
        let (first, mut rest) = cut(text, Marker::FileSeparator)?;
        let leading = first.trim_ascii().is_empty();
        let mut files = Vec::new();
        if !leading {
            files.push(first);
        }
        while let Some((file, behind)) = cut(rest, Marker::FileSeparator) {
            files.push(file);
            rest = behind;
        }
        files.push(rest);
        Some(Self { leading, files })
    }

    /// The text of the files; reading gives them back.
    pub fn write(&self) -> Vec<u8> {
        let separator = Marker::FileSeparator.as_str().as_bytes();
        let mut out = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            if self.leading || index > 0 {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(file);
        }
        out
    }

    /// The gap in each file that is one.
    pub fn gaps(&self) -> impl Iterator<Item = (usize, Fim<'s>)> {
        let files = self.files.iter().enumerate();
        files.filter_map(|(index, file)| Some((index, Fim::read(file)?)))
    }
}

/// The text before and after the first `token`.
fn cut(text: &[u8], token: Marker) -> Option<(&[u8], &[u8])> {
    let token = token.as_str().as_bytes();
    let at = memchr::memmem::find(text, token)?;
    Some((text.get(..at)?, text.get(at + token.len()..)?))
}
