//! Tokenizers from files. `testing/data-masks` compares those of models with `tokenizers`.

use logue_data::{HfTokenizer, Tokenizer as _};
use serde_json::{Value, json};

/// Returns the character in which files spell a byte.
fn spelled(byte: u8) -> char {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let before = (0..byte).filter(|byte| !is_printable(*byte)).count();
    if is_printable(byte) {
        char::from(byte)
    } else {
        char::from_u32(256 + u32::try_from(before).unwrap()).unwrap()
    }
}

/// A small tokenizer: the bytes 0..256, then `ab`, `abc`, ` a`, `bc`, then added tokens.
fn file() -> Value {
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..=u8::MAX {
        vocabulary.insert(spelled(byte).to_string(), json!(byte));
    }
    for (id, text) in [(256, "ab"), (257, "abc"), (258, "Ġa"), (259, "bc")] {
        vocabulary.insert(text.to_owned(), json!(id));
    }
    json!({
        "added_tokens": [
            {"id": 300, "content": "<|end|>", "special": true, "normalized": false},
            {"id": 301, "content": "é!", "special": false, "normalized": true},
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": " ?\\p{L}+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        ]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [300], "tokens": ["<|end|>"]}}},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", "ab c", "Ġ a"]},
    })
}

fn load(file: &Value) -> HfTokenizer {
    HfTokenizer::from_json(file.to_string().as_bytes()).unwrap()
}

fn rendered(tokenizer: &mut HfTokenizer, text: &str) -> (Vec<u32>, Vec<usize>) {
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    tokenizer.encode_rendered(text, &mut ids, &mut ends);
    (ids, ends)
}

#[test]
fn pieces_are_merged_by_rank() {
    let mut tokenizer = load(&file());
    assert_eq!(
        rendered(&mut tokenizer, "abc bc a"),
        (vec![257, 32, 98, 99, 258], vec![3, 4, 5, 6, 8])
    );
}

#[test]
fn long_pieces_have_the_ids_of_short_ones() {
    let mut tokenizer = load(&file());
    let (ids, ends) = rendered(&mut tokenizer, &"abcb".repeat(5000));
    assert_eq!(ids, [257, 98].repeat(5000));
    assert_eq!(ends.last(), Some(&20_000));
}

#[test]
fn pairs_and_texts_are_the_same_merges() {
    let mut pairs = file();
    pairs["model"]["merges"] = json!([["a", "b"], ["ab", "c"], ["Ġ", "a"]]);
    let text = "abc abc bca ab";
    assert_eq!(
        rendered(&mut load(&pairs), text),
        rendered(&mut load(&file()), text)
    );
}

#[test]
fn ignored_merges_give_whole_pieces_of_the_vocabulary() {
    let mut file = file();
    assert_eq!(rendered(&mut load(&file), "bc").0, [98, 99]);
    file["model"]["ignore_merges"] = json!(true);
    assert_eq!(rendered(&mut load(&file), "bc").0, [259]);
}

#[test]
fn added_tokens_are_found_before_and_after_normalization() {
    let mut tokenizer = load(&file());
    assert_eq!(
        rendered(&mut tokenizer, "a<|end|>e\u{301}!"),
        (vec![97, 300, 301], vec![1, 8, 12])
    );
    // Ordinary text never becomes an added token.
    let mut ids = Vec::new();
    tokenizer.encode("<|end|>", &mut ids);
    assert_eq!(ids, b"<|end|>".map(u32::from));
    assert_eq!(tokenizer.special("<|end|>"), Some(300));
    assert_eq!(tokenizer.special("<|start|>"), None);
}

#[test]
fn the_token_before_every_text_is_not_added() {
    let mut tokenizer = load(&file());
    assert_eq!(tokenizer.begin(), Some(300));
    assert_eq!(rendered(&mut tokenizer, "a").0, [97]);
    assert_eq!(rendered(&mut tokenizer, "<|end|>a").0, [300, 97]);
}

#[test]
fn unsupported_parts_are_refused_by_name() {
    let changes = [
        ("/model/type", json!("Unigram"), "`model`"),
        ("/model/dropout", json!(0.1), "`model.dropout`"),
        ("/model/byte_fallback", json!(true), "`model.byte_fallback`"),
        (
            "/model/end_of_word_suffix",
            json!("</w>"),
            "`model.end_of_word_suffix`",
        ),
        (
            "/model/continuing_subword_prefix",
            json!("##"),
            "`model.continuing_subword_prefix`",
        ),
        ("/model/merges", json!(["a x"]), "`model.merges`"),
        ("/model/merges", json!(["ab"]), "`model.merges`"),
        ("/model/vocab", json!({"a": 0}), "byte 0"),
        ("/model/vocab", json!({"a": u32::MAX}), "too large"),
        ("/normalizer", json!({"type": "Lowercase"}), "`normalizer`"),
        (
            "/pre_tokenizer",
            json!({"type": "Metaspace"}),
            "`pre_tokenizer`",
        ),
        ("/pre_tokenizer", Value::Null, "`ByteLevel`"),
        (
            "/pre_tokenizer/pretokenizers/0/behavior",
            json!("MergedWithNext"),
            "`pre_tokenizer.behavior`",
        ),
        (
            "/pre_tokenizer/pretokenizers/0/pattern",
            json!({"Regex": "("}),
            "`pre_tokenizer.pattern`",
        ),
        (
            "/pre_tokenizer/pretokenizers/1/add_prefix_space",
            json!(true),
            "`pre_tokenizer.add_prefix_space`",
        ),
        (
            "/post_processor",
            json!({"type": "BertProcessing"}),
            "`post_processor`",
        ),
    ];
    for (place, value, expected) in changes {
        let mut file = file();
        let (parent, name) = place.rsplit_once('/').unwrap();
        let parent = file.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        let refusal = HfTokenizer::from_json(file.to_string().as_bytes()).err();
        let finding = refusal.expect(place).finding;
        assert_eq!(finding.code.as_str(), "E-DATA-TOKENIZER", "{place}");
        assert!(finding.message.contains(expected), "{}", finding.message);
    }
    let refusal = HfTokenizer::from_json(b"{").err().unwrap();
    assert_eq!(refusal.finding.code.as_str(), "E-DATA-TOKENIZER");
}

#[test]
fn an_absent_file_is_named() {
    let refusal = HfTokenizer::load("no/such/tokenizer.json".as_ref())
        .err()
        .unwrap();
    assert_eq!(refusal.finding.code.as_str(), "E-SOURCE-READ");
    assert!(refusal.finding.message.contains("no/such/tokenizer.json"));
}

#[test]
fn a_duplicate_gives_the_same_ids() {
    let mut first = load(&file());
    let mut second = first.duplicate();
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    second.encode_rendered("abc <|end|> été", &mut ids, &mut ends);
    assert_eq!(rendered(&mut first, "abc <|end|> été"), (ids, ends));
}
