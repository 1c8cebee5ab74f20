//! PDF files that tests write byte by byte.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A PDF file of objects, which are numbered from 1; the first one is the catalog.
pub(crate) struct File {
    objects: Vec<Vec<u8>>,
}

/// A simple font that has the encoding of Windows.
pub(crate) const WIN_ANSI: &str =
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

impl File {
    /// Creates a file whose pages have these contents and the font `F`.
    pub(crate) fn new(font: &str, pages: &[&str]) -> Self {
        let mut file = Self {
            objects: Vec::new(),
        };
        let kids: Vec<String> = (0..pages.len())
            .map(|page| format!("{} 0 R", 4 + 2 * page))
            .collect();
        file.add("<< /Type /Catalog /Pages 2 0 R >>");
        file.add(&format!(
            "<< /Type /Pages /Count {} /Kids [{}] /MediaBox [0 0 612 792] \
             /Resources << /Font << /F 3 0 R >> >> >>",
            pages.len(),
            kids.join(" ")
        ));
        file.add(font);
        for (page, content) in pages.iter().enumerate() {
            file.add(&format!(
                "<< /Type /Page /Parent 2 0 R /Contents {} 0 R >>",
                5 + 2 * page
            ));
            file.add_stream("", content.as_bytes());
        }
        file
    }

    /// Adds an object and returns its number.
    pub(crate) fn add(&mut self, object: &str) -> usize {
        self.objects.push(object.as_bytes().to_vec());
        self.objects.len()
    }

    /// Adds a stream and returns its number.
    pub(crate) fn add_stream(&mut self, entries: &str, bytes: &[u8]) -> usize {
        let length = bytes.len();
        let mut object = format!("<< /Length {length} {entries} >>\nstream\n").into_bytes();
        object.extend(bytes);
        object.extend(b"\nendstream");
        self.objects.push(object);
        self.objects.len()
    }

    /// Returns the number of objects.
    pub(crate) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Replaces the object with a number.
    pub(crate) fn replace(&mut self, number: usize, object: &str) {
        self.objects[number - 1] = object.as_bytes().to_vec();
    }

    /// Compresses the stream of the object with a number.
    pub(crate) fn compress(&mut self, number: usize, bytes: &[u8]) {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        let packed = encoder.finish().unwrap();
        self.add_stream("/Filter /FlateDecode", &packed);
        self.objects[number - 1] = self.objects.pop().unwrap();
    }

    /// Returns the bytes, with these entries in the trailer.
    pub(crate) fn bytes_with(&self, trailer: &str) -> Vec<u8> {
        let mut bytes = b"%PDF-1.7\n".to_vec();
        let mut places = Vec::new();
        for (number, object) in (1..).zip(&self.objects) {
            places.push(bytes.len());
            bytes.extend(format!("{number} 0 obj\n").as_bytes());
            bytes.extend(object);
            bytes.extend(b"\nendobj\n");
        }
        let table = bytes.len();
        let count = self.objects.len() + 1;
        bytes.extend(format!("xref\n0 {count}\n0000000000 65535 f \n").as_bytes());
        for place in places {
            bytes.extend(format!("{place:010} 00000 n \n").as_bytes());
        }
        let end = format!(
            "trailer\n<< /Size {count} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n"
        );
        bytes.extend(end.as_bytes());
        bytes
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_with("")
    }
}
