//! The committed corpus and the cases of `conformance`, through every property.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use openchatml::FrameRole;
use openchatml::harmony::HarmonyReadOptions;
use properties::{PROPERTIES, chatmd_edit, chatmd_read, chatmd_write, harmony_text_in_parts};

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names the input when its property panics.
struct Naming<'n>(&'n str, String);

impl Drop for Naming<'_> {
    #[expect(clippy::print_stderr, reason = "a failing test says of what")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("`{}` does not hold for {}", self.0, self.1);
        }
    }
}

#[test]
fn the_corpus_holds() {
    for (name, property) in PROPERTIES {
        let corpus = below(&top().join("fuzz/corpus").join(name));
        assert!((5..=60).contains(&corpus.len()), "{name}: {}", corpus.len());
        for (path, bytes) in corpus {
            assert!(bytes.len() <= 4096, "{} is not small", path.display());
            let _naming = Naming(name, path.display().to_string());
            property(&bytes);
        }
    }
}

#[test]
fn every_property_has_its_target_and_every_corpus_its_property() {
    let manifest = std::fs::read_to_string(top().join("fuzz/Cargo.toml")).unwrap();
    for (name, _) in PROPERTIES {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        let target = top().join(format!("fuzz/fuzz_targets/{name}.rs"));
        assert!(std::fs::read_to_string(target).unwrap().contains(name));
    }
    for entry in std::fs::read_dir(top().join("fuzz/corpus")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(PROPERTIES.iter().any(|(known, _)| *known == name), "{name}");
    }
}

/// Every file below a folder.
fn below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (folders, mut found): (Vec<_>, Vec<_>) = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .partition(|path| path.is_dir());
    found.sort();
    let own = found.into_iter().map(|path| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    });
    let mut files: Vec<_> = own.collect();
    files.extend(folders.iter().flat_map(|folder| below(folder)));
    files
}

/// The first code block under each heading of the cases of a language.
fn cases(language: &str) -> Vec<(String, String)> {
    let mut cases = Vec::new();
    for (path, bytes) in below(&top().join("conformance").join(language)) {
        let suite = String::from_utf8(bytes).unwrap();
        for case in suite.split("\n## ").skip(1) {
            let (title, rest) = case.split_once('\n').unwrap();
            let Some(block) = rest.split("\n```").nth(1) else {
                continue;
            };
            let (_info, text) = block.split_once('\n').unwrap_or((block, ""));
            cases.push((format!("{} in {}", title, path.display()), text.to_owned()));
        }
    }
    cases
}

#[test]
fn the_cases_hold() {
    let cases = cases("openchatml");
    assert!(cases.len() >= 140, "only {} cases were found", cases.len());
    for (title, text) in cases {
        for (name, property) in PROPERTIES {
            // What makes the choices stands before the text.
            for choices in ["", "ab", "bc", "Ca", "dacd"] {
                let _naming = Naming(name, format!("{title} behind {choices:?}"));
                property(format!("{choices}{text}").as_bytes());
            }
        }
        for start_role in [None, Some(FrameRole::Assistant), Some(FrameRole::User)] {
            let options = HarmonyReadOptions::default().with_start_role(start_role);
            let _naming = Naming("harmony_stream", title.clone());
            harmony_text_in_parts(text.as_bytes(), &options, 1);
        }
    }
}

#[test]
fn the_cases_of_chatmd_hold() {
    let cases = cases("chatmd");
    assert!(cases.len() >= 300, "only {} cases were found", cases.len());
    for (title, text) in cases {
        let _naming = Naming("chatmd_read", title.clone());
        chatmd_read(text.as_bytes());
        for choices in ["\u{0}\n", "\u{1}a|RAW</user>\"\\\n"] {
            let _naming = Naming("chatmd_edit", format!("{title} behind {choices:?}"));
            chatmd_edit(&[choices.as_bytes(), text.as_bytes()].concat());
        }
        // Every element in turn, with all values and with none of them.
        for tag in 0..8 {
            for choices in [&[tag, 0][..], &[tag, 0xFF], &[tag, 0x17]] {
                let _naming = Naming("chatmd_write", format!("{title} behind {choices:?}"));
                chatmd_write(&[choices, text.as_bytes()].concat());
            }
        }
    }
}

/// A text of a megabyte that a reader which is not linear would not come to the end of.
#[test]
fn repeated_constructs_are_read() {
    let inside = [
        "<",
        "|",
        "&",
        "\"",
        "'",
        "<b ",
        "<b>",
        "</b>",
        "<b x=\"",
        "<!",
        "<?",
        "RAW|",
        "|RAW",
        "RAW||RAW ",
        "<!--",
        "<!---->",
        "<doc src=\"a\"/>",
        "<user>",
        "</user>",
        "<user ",
        "<user></user>",
        "<agent>",
        "</doc>",
        "<user a=\"",
        "<user a='x>",
        "<user a=\"x>y\" ",
        "<img a=\">\"b",
        "<<user>",
        "<summary>",
        "<tool_call>",
        "x",
        "\n",
        "\u{FEFF}",
        "é",
    ];
    for construct in inside {
        let repeated = construct.repeat(1_000_000 / construct.len());
        let texts = [
            repeated.clone(),
            format!("<user>{repeated}</user>"),
            format!("<user a=\"{repeated}\">x</user>"),
            format!("<reasoning id=\"r\"><summary>{repeated}</summary></reasoning>"),
        ];
        for text in texts {
            let tree = chatmd::parse(&text);
            assert_eq!(tree.print(), text);
            assert!(chatmd::check(&text).len() < 400, "{construct}");
            assert!(tree.to_json().len() < text.len() * 12 + 100, "{construct}");
        }
    }
}
