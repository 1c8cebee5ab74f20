//! Hostile and damaged files: text or an error, without a panic.

use logue_pdf::{PdfError, PdfLimits, pages};

use crate::file::{File, WIN_ANSI};

/// A generator of numbers without a seed from outside.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }
}

fn limits() -> PdfLimits {
    PdfLimits::new().with_operations(100_000)
}

/// A file with compressed content, a form and a composite font.
fn rich() -> Vec<u8> {
    let mut file = File::new(WIN_ANSI, &["BT /F 12 Tf (one) Tj ET", "", "(three) Tj"]);
    file.compress(7, &b"BT /F 12 Tf 1 2 Td [(tw) 20 (o)] TJ ET ".repeat(20));
    let map = "begincmap 1 beginbfrange <00> <ff> <0041> endbfrange endcmap";
    let map = file.add_stream("", map.as_bytes());
    file.replace(
        3,
        &format!(
            "<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode {map} 0 R \
             /DescendantFonts [<< /W [0 9 500 10 [1 2 3]] >>] >>"
        ),
    );
    file.bytes()
}

#[test]
fn mutations_and_truncations_end() {
    let whole = rich();
    assert!(pages(whole.clone(), &limits()).is_ok());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for _ in 0..500 {
        let mut bytes = whole.clone();
        for _ in 0..=numbers.next(8) {
            let place = numbers.next(bytes.len());
            match numbers.next(4) {
                0 => bytes[place] = u8::try_from(numbers.next(256)).unwrap(),
                1 => drop(bytes.remove(place)),
                2 => bytes.insert(place, b"0123456789<>[]()/ R"[numbers.next(19)]),
                _ => {
                    let end = (place + numbers.next(40)).min(bytes.len());
                    let part = bytes[place..end].to_vec();
                    let other = numbers.next(bytes.len());
                    bytes.splice(other..other, part);
                }
            }
        }
        drop(pages(bytes, &limits()));
    }
    for length in (0..whole.len()).step_by(7) {
        drop(pages(whole[..length].to_vec(), &limits()));
    }
}

#[test]
fn forms_that_multiply_end() {
    let mut file = File::new(WIN_ANSI, &["/X Do"]);
    let first = file.objects() + 1;
    for number in first..first + 8 {
        let entries = format!(
            "/Subtype /Form /Resources << /XObject << /X {} 0 R >> >>",
            number + 1
        );
        file.add_stream(&entries, &b"/X Do ".repeat(10));
    }
    let resources = format!("<< /XObject << /X {first} 0 R >> >>");
    file.replace(
        4,
        &format!("<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources {resources} >>"),
    );
    let limit = 100_000;
    assert_eq!(
        pages(file.bytes(), &limits()),
        Err(PdfError::TooComplex { limit })
    );
}

#[test]
fn forms_that_contain_themselves_end() {
    let mut file = File::new(WIN_ANSI, &["/X Do"]);
    let own = file.objects() + 1;
    let resources = format!("/Resources << /XObject << /X {own} 0 R >> /Font << /F 3 0 R >> >>");
    let form = format!("/Subtype /Form {resources}");
    file.add_stream(&form, b"BT /F 12 Tf (x) Tj ET /X Do /X Do");
    file.replace(
        4,
        &format!("<< /Type /Page /Parent 2 0 R /Contents 5 0 R {resources} >>"),
    );
    assert!(pages(file.bytes(), &limits()).is_ok());
}

#[test]
fn numbers_without_sense_are_read() {
    for content in [
        "BT /F 1e99 Tf 1e99 1e99 Td (a) Tj 99999999999999999999 0 Td (b) Tj ET",
        "BT /F 0 Tf 0 0 0 0 0 0 Tm (a) Tj (b) Tj ET",
        "BT /F 12 Tf [(a) -1e308 (b)] TJ 0 Tz (c) Tj ET",
        "Q Q Q q q q BT /F Tf Tj (x) ET ET",
    ] {
        assert!(pages(File::new(WIN_ANSI, &[content]).bytes(), &limits()).is_ok());
    }
}
