//! Detection of HTML and of encodings.

use logue_html::{decode, is_html};

#[test]
fn pages_are_told_from_other_text() {
    for page in [
        "<!DOCTYPE html>",
        "\u{FEFF}\n <HTML lang=en>",
        "<!-- a --><p>x",
        "<!-- a",
        "<div/>",
        "<title>x",
        "<h1 class=x>",
    ] {
        assert!(is_html(page.as_bytes()), "{page}");
    }
    for other in [
        "",
        "x <html>",
        "<?xml version='1.0'?><feed>",
        "<user>hi</user>",
        "{}",
        "# <p>",
        "<htmlx>",
        "<",
        "<pre",
        "%PDF",
    ] {
        assert!(!is_html(other.as_bytes()), "{other}");
    }
}

#[test]
fn the_encoding_is_found() {
    for (bytes, charset, expected) in [
        (&b"caf\xC3\xA9"[..], None, "café"),
        (b"caf\xE9 \x93x\x94", None, "café “x”"),
        (b"caf\xE9", Some("ISO-8859-1"), "café"),
        (
            b"<meta charset=shift_jis>\x83\x65",
            None,
            "<meta charset=shift_jis>テ",
        ),
        (
            b"<meta http-equiv=content-type content='text/html; charset=koi8-r'>\xC1",
            None,
            "<meta http-equiv=content-type content='text/html; charset=koi8-r'>а",
        ),
        (
            b"<meta charset=utf-16le>ab",
            None,
            "<meta charset=utf-16le>ab",
        ),
        (
            b"<meta charset=utf-8>\xFFa",
            None,
            "<meta charset=utf-8>\u{FFFD}a",
        ),
        (b"\xFF\xFEa\0b\0", Some("utf-8"), "ab"),
        (b"\xEF\xBB\xBFa", Some("latin1"), "a"),
        (
            b"<meta charset=nonsense>\xE9",
            None,
            "<meta charset=nonsense>é",
        ),
    ] {
        assert_eq!(decode(bytes, charset), expected, "{bytes:?}");
    }
}
