//! The text of valid files.

use logue_pdf::{PdfError, PdfLimits, PdfText, pages};

use crate::file::{File, WIN_ANSI};

fn read(file: &File) -> PdfText {
    pages(file.bytes(), &PdfLimits::default()).unwrap()
}

fn page(font: &str, content: &str) -> String {
    read(&File::new(font, &[content])).pages.remove(0)
}

#[test]
fn pages_are_read_in_their_order() {
    let file = File::new(
        WIN_ANSI,
        &[
            "BT /F 12 Tf 72 700 Td (One) Tj ET",
            "",
            "BT /F 12 Tf 72 700 Td (Thr\\344ee \\(3\\)) Tj ET",
        ],
    );
    let text = read(&file);
    assert_eq!(text.pages, ["One", "", "Thräee (3)"]);
    assert_eq!(text.unreadable, 0);
}

#[test]
fn lines_words_and_paragraphs_follow_the_positions() {
    for (content, expected) in [
        ("(one) Tj 0 -14 Td (two) Tj", "one\ntwo"),
        ("(one) Tj 0 -30 Td (two) Tj", "one\n\ntwo"),
        ("14 TL (one) Tj T* (two) Tj (three) '", "one\ntwo\nthree"),
        ("14 TL (one) Tj 1 2 (two) \"", "one\ntwo"),
        ("[(W) 80 (ord) -300 (next)] TJ", "Word next"),
        ("(one) Tj 60 0 Td (two) Tj", "one two"),
        ("(one ) Tj 60 0 Td (two) Tj", "one two"),
        ("(H) Tj /F 6 Tf 4 Ts (2) Tj /F 12 Tf 0 Ts (O) Tj", "H2O"),
        (
            "1 0 0 1 72 700 Tm (a) Tj 0 1 -1 0 300 300 Tm (up) Tj 5 0 Td (on) Tj",
            "a\n\nupon",
        ),
    ] {
        let content = format!("BT /F 12 Tf 72 700 Td {content} ET");
        assert_eq!(page(WIN_ANSI, &content), expected, "{content}");
    }
    let turned = "q 0 1 -1 0 0 0 cm BT /F 12 Tf (one) Tj 0 -14 Td (two) Tj ET Q";
    assert_eq!(page(WIN_ANSI, turned), "one\ntwo");
}

#[test]
fn compressed_content_and_forms_are_read() {
    let mut file = File::new(WIN_ANSI, &[""]);
    file.compress(5, b"BT /F 12 Tf 72 700 Td (packed) Tj ET /X Do");
    let form = file.add_stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Matrix [1 0 0 1 72 600]",
        b"BT /F 12 Tf (in a form) Tj ET",
    );
    file.replace(
        4,
        &format!(
            "<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F 3 0 R >> \
             /XObject << /X {form} 0 R >> >> >>"
        ),
    );
    assert_eq!(read(&file).pages, ["packed\n\nin a form"]);
}

#[test]
fn to_unicode_names_the_characters_of_composite_fonts() {
    let content = "BT /F 12 Tf 72 700 Td <0003000400050099> Tj ET";
    let mut file = File::new(WIN_ANSI, &[content]);
    let map = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n\
               1 begincodespacerange <0000> <FFFF> endcodespacerange\n\
               1 beginbfrange <0003> <0004> <0416> endbfrange\n\
               1 beginbfchar <0005> <FB01D83DDE00> endbfchar\n\
               endcmap end end";
    let map = file.add_stream("", map.as_bytes());
    let inner = file.add(
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X /DW 500 /W [3 [600 700] 5 9 800] \
         /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
    );
    file.replace(
        3,
        &format!(
            "<< /Type /Font /Subtype /Type0 /BaseFont /X /Encoding /Identity-H /ToUnicode {map} 0 R \
             /DescendantFonts [{inner} 0 R] >>"
        ),
    );
    let text = read(&file);
    assert_eq!(text.pages, ["ЖЗfi😀"]);
    assert_eq!(text.unreadable, 1, "the last code has no character");
}

#[test]
fn names_of_glyphs_and_widths_of_the_font_are_used() {
    let font = "<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+CMR10 /FirstChar 65 /LastChar 67 \
                /Widths [500 600 700] /Encoding << /Differences [65 /ffi /uni00E9 /Lslash] >> >>";
    assert_eq!(page(font, "BT /F 10 Tf (ABC) Tj ET"), "ffiéŁ");
    // The width of A is 5 points, so the next text follows it without a gap.
    let close = "BT /F 10 Tf 1 0 0 1 0 0 Tm (A) Tj 1 0 0 1 5 0 Tm (B) Tj ET";
    assert_eq!(page(font, close), "ffié");
    let apart = "BT /F 10 Tf 1 0 0 1 0 0 Tm (A) Tj 1 0 0 1 8 0 Tm (B) Tj ET";
    assert_eq!(page(font, apart), "ffi é");
}

#[test]
fn a_damaged_table_of_references_is_repaired() {
    let file = File::new(WIN_ANSI, &["BT /F 12 Tf (still here) Tj ET"]);
    let mut bytes = file.bytes();
    let table = bytes.windows(5).position(|part| part == b"xref\n").unwrap();
    bytes.truncate(table);
    let text = pages(bytes, &PdfLimits::default()).unwrap();
    assert_eq!(text.pages, ["still here"]);
}

#[test]
fn limits_are_errors() {
    let content = "BT /F 12 Tf (four) Tj ET";
    let bytes = File::new(WIN_ANSI, &[content; 3]).bytes();
    let read = |limits: PdfLimits| pages(bytes.clone(), &limits);
    let limits = PdfLimits::new;
    assert_eq!(
        read(limits().with_pages(2)),
        Err(PdfError::TooManyPages { limit: 2 })
    );
    assert!(read(limits().with_pages(3)).is_ok());
    assert_eq!(
        read(limits().with_text_bytes(7)),
        Err(PdfError::TooMuchText { limit: 7 })
    );
    assert!(read(limits().with_text_bytes(12)).is_ok());
    assert_eq!(
        read(limits().with_operations(11)),
        Err(PdfError::TooComplex { limit: 11 })
    );
    assert!(read(limits().with_operations(12)).is_ok());
}

#[test]
fn a_password_and_an_unknown_encryption_are_errors() {
    let mut file = File::new(WIN_ANSI, &["BT /F 12 Tf (secret) Tj ET"]);
    let word = "00".repeat(32);
    let standard = file.add(&format!(
        "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{word}> /U <{word}> >>"
    ));
    let bytes = file.bytes_with(&format!("/Encrypt {standard} 0 R /ID [<01> <01>]"));
    let read = |bytes| pages(bytes, &PdfLimits::default());
    assert_eq!(read(bytes), Err(PdfError::PasswordRequired));
    let other = file.add("<< /Filter /Other /V 9 >>");
    let bytes = file.bytes_with(&format!("/Encrypt {other} 0 R /ID [<01> <01>]"));
    assert_eq!(read(bytes), Err(PdfError::UnknownEncryption));
}
