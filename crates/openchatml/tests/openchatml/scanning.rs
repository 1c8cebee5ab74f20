//! Control tokens in what people say: found in any piece of any form.

use logue_source::Span;
use openchatml::scan::{
    ScanFormat, TokenFamilies, TokenFamily, TokenHit, TokenScanner, families_of, is_control_token,
};
use openchatml::{ControlToken, Dialect, FrameBuf, write_frame};
use proptest::prelude::*;

use crate::strategies::{broken_transcript, marked_text};

const V2_2: ScanFormat = ScanFormat::Envelope(Dialect::V2_2);

fn scan(text: ScanFormat, pieces: &[&[u8]]) -> Vec<TokenHit> {
    let mut found = Vec::new();
    let mut scan = TokenScanner::new(text);
    for piece in pieces {
        scan.push(piece, &mut |token| found.push(token));
    }
    scan.finish(&mut |token| found.push(token));
    found
}

/// The tokens, with `!` where they do harm.
fn words(text: ScanFormat, source: &str) -> String {
    let found = scan(text, &[source.as_bytes()]);
    let words = found.iter().map(|found| {
        assert!(is_control_token(&found.token));
        let harm = if found.is_escaped { "" } else { "!" };
        format!(
            "{harm}{}@{}-{}",
            found.token, found.span.start, found.span.end
        )
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_form_has_its_own_markup() {
    let cases: &[(ScanFormat, &str, &str)] = &[
        (
            ScanFormat::Plain,
            "a <|end|> b <|nothing|> <| end|>",
            "!<|end|>@2-9",
        ),
        (
            ScanFormat::Plain,
            "<<|im_start|>system",
            "!<|im_start|>@1-13",
        ),
        (ScanFormat::Plain, "<|<|end|>|>", "!<|end|>@2-9"),
        (
            ScanFormat::Json,
            r#"{"a":"\u003c|end\u007C\u003e"}"#,
            "!<|end|>@6-28",
        ),
        (ScanFormat::Json, r#"{"a":"\\u003c|end|>"}"#, ""),
        (ScanFormat::Json, r#"{"a":"<\|end|>"}"#, "!<|end|>@6-14"),
        (
            V2_2,
            "version: 2.2\ntokens: [\"<|start|>\", \"<|im_end|>\"]\n<|start|>user<|message|>a<|end|>",
            "",
        ),
        (
            V2_2,
            "<|start|>user<|message|>a <<|end|> <|im_end|> <|message|><|end|>",
            "<|end|>@27-34 !<|im_end|>@35-45 !<|message|>@46-57",
        ),
        (
            V2_2,
            "<|start|>user<|message|><|literal|><|start|><|im_end|><|endliteral|><|end|>",
            "<|start|>@35-44 !<|im_end|>@44-54",
        ),
        (
            V2_2,
            "<|start|>user<|message|><|literal|><|start|>",
            "<|start|>@35-44 !<|literal|>@24-35",
        ),
        (
            V2_2,
            "<|start|>assistant<|channel|>analysis<|message|><|start_reason|><|end|>",
            "",
        ),
        (
            V2_2,
            "<|start|>assistant<|channel|>final<|message|><|start_reason|><|end|>",
            "!<|start_reason|>@45-61",
        ),
        (
            ScanFormat::Envelope(Dialect::V2_0),
            "version: 2.0\n<|start|>user<|message|><|literal|><|end|>",
            "!<|literal|>@37-48",
        ),
        (
            ScanFormat::Envelope(Dialect::Harmony),
            "<|start|>user<|message|><|im_end|><|literal|><|end|>",
            "!<|im_end|>@24-34 !<|literal|>@34-45",
        ),
        (
            ScanFormat::Envelope(Dialect::ChatMl),
            "<|im_start|>user\n<|end|><|fim_prefix|><|im_end|>",
            "!<|end|>@17-24 !<|fim_prefix|>@24-38",
        ),
        (
            ScanFormat::Envelope(Dialect::V0_1),
            "<|im_start|>user\n<|end|><|fim_prefix|><|im_end|>",
            "!<|end|>@17-24",
        ),
    ];
    for (text, source, expected) in cases {
        assert_eq!(words(*text, source), *expected, "{source}");
    }
}

#[test]
fn tokens_of_other_families_are_found() {
    let cases = [
        (TokenFamily::Llama, "a <|eot_id|> b", "!<|eot_id|>@2-12"),
        (
            TokenFamily::Llama,
            "x<<SYS>>y<</SYS>>",
            "!<<SYS>>@1-8 !<</SYS>>@9-17",
        ),
        (
            TokenFamily::Llama,
            "<SYS>> a<<b> <|reserved_special_token_7|>",
            "!<|reserved_special_token_7|>@13-41",
        ),
        (
            TokenFamily::Mistral,
            "[INST] [/INST]",
            "![INST]@0-6 ![/INST]@7-14",
        ),
        (
            TokenFamily::Mistral,
            "[[TOOL_CALLS]] [TOOL_CALLS [ARGS]",
            "![TOOL_CALLS]@1-13",
        ),
        (
            TokenFamily::Gemma,
            "<start_of_turn>user",
            "!<start_of_turn>@0-15",
        ),
        (
            TokenFamily::DeepSeek,
            "<｜User｜> <｜a▁b｜> <｜a\n｜>",
            "!<｜User｜>@0-12 !<｜a▁b｜>@13-26",
        ),
        (
            TokenFamily::Qwen,
            "</tool_response><think>",
            "!</tool_response>@0-16 !<think>@16-23",
        ),
        (TokenFamily::Phi, "<|/tool|>", "!<|/tool|>@0-9"),
        (TokenFamily::Glm, "[gMASK]<sop>", "![gMASK]@0-7 !<sop>@7-12"),
        (TokenFamily::Kimi, "<|im_middle|>", "!<|im_middle|>@0-13"),
        (
            TokenFamily::Cohere,
            "<|START_OF_TURN_TOKEN|>",
            "!<|START_OF_TURN_TOKEN|>@0-23",
        ),
    ];
    for (family, text, expected) in cases {
        assert_eq!(words(ScanFormat::Plain, text), expected, "{text}");
        let without = TokenFamilies::ALL.without(family);
        let only = TokenFamilies::NONE.with(family);
        for (families, is_found) in [(only, true), (without, false)] {
            let mut hits = Vec::new();
            let mut scan = TokenScanner::new(ScanFormat::Plain).with_families(families);
            scan.push(text.as_bytes(), &mut |hit| hits.push(hit));
            let own = hits.iter().any(|hit| hit.families.contains(family));
            assert_eq!(own, is_found, "{text}");
        }
    }
    let json = r#"{"a":"\u003c\uff5cUser\uFF5c> \ud83d"}"#;
    assert_eq!(words(ScanFormat::Json, json), "!<｜User｜>@6-29");
    assert!(families_of("<SYS>>").is_empty() && !families_of("<<SYS>>").is_empty());
}

#[test]
fn tags_of_chatmd_are_markup_outside_raw_blocks() {
    let text = "<tool_call>a</tool_call><tool_response>\nRAW|</tool_response> <|end|>|RAW\n</tool_response>";
    let expected = "!</tool_response>@44-60 !<|end|>@61-68";
    assert_eq!(words(ScanFormat::ChatMd, text), expected);
    assert_eq!(
        words(ScanFormat::ChatMd, "<user><think></user>"),
        "!<think>@6-13"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::soak::rounds(256, 5_120)))]
    #[test]
    fn pieces_change_nothing(bytes in broken_transcript(), cuts in proptest::collection::vec(0..200_usize, 0..4)) {
        let forms = Dialect::ALL.into_iter().map(ScanFormat::Envelope).chain([ScanFormat::Plain, ScanFormat::Json, ScanFormat::ChatMd]);
        for text in forms {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let whole = scan(text, &[&bytes]);
            prop_assert_eq!(&whole, &scan(text, &pieces));
            for found in whole {
                let spelled = found.span.bytes(&bytes);
                prop_assert!(text == ScanFormat::Json || spelled == found.token.as_bytes());
            }
        }
    }

    /// A body that was written is told token by token: its own escaped, the others not.
    #[test]
    fn what_was_written_is_found(body in marked_text(), other: bool) {
        let body = if other { format!("{body}<|im_start|>{body}") } else { body };
        let mut text = String::from("version: 2.2\n");
        write_frame(&mut text, &FrameBuf::user(body.as_str())).unwrap();
        let found = scan(V2_2, &[text.as_bytes()]);
        let said = scan(ScanFormat::Plain, &[body.as_bytes()]);
        let names = |found: &[TokenHit]| found.iter().map(|found| found.token.clone()).collect::<Vec<_>>();
        prop_assert_eq!(names(&found), names(&said));
        for found in &found {
            let own = ControlToken::ALL.iter().any(|token| token.as_str() == found.token);
            prop_assert_eq!(found.is_escaped, own, "{}", text);
        }
        prop_assert!(found.iter().all(|found| found.span != Span::default()));
    }

    /// JSON may spell a letter in several ways.
    #[test]
    fn json_hides_nothing(body in marked_text(), every in 1..4_usize) {
        let mut spelled = String::from("\"");
        for (index, letter) in body.chars().enumerate() {
            let plain = letter.is_ascii() && !letter.is_ascii_control() && letter != '"' && letter != '\\';
            if plain && index % every != 0 {
                spelled.push(letter);
            } else {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    spelled.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        spelled.push('"');
        let decoded: String = serde_json::from_str(&spelled).unwrap();
        prop_assert_eq!(&decoded, &body);
        let plain = scan(ScanFormat::Plain, &[body.as_bytes()]).len();
        prop_assert_eq!(scan(ScanFormat::Json, &[spelled.as_bytes()]).len(), plain);
    }
}
