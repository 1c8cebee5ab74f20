//! Reads `tokenizer.json`, and refuses what is not implemented.

use super::added::{AddedToken, AddedTokens};
use super::model::{Merge, Model, pair};
use super::split::{BYTE_LEVEL, Pattern, Split};
use super::tokenizer::Parts;
use crate::Refusal;
use logue_source::{DiagnosticCode, Span};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The largest id, which bounds the tables.
const LARGEST_ID: u32 = 1 << 22;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Option<Value>,
    #[serde(default)]
    pre_tokenizer: Option<Value>,
    #[serde(default)]
    post_processor: Option<Value>,
    model: BpeFile,
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the file")]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
}

#[derive(Deserialize)]
struct BpeFile {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    #[serde(default)]
    merges: Merges,
}

/// The two forms of merges: `"a b"` and `["a", "b"]`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merges {
    Texts(Vec<String>),
    Pairs(Vec<(String, String)>),
}

impl Default for Merges {
    fn default() -> Self {
        Self::Pairs(Vec::new())
    }
}

/// Loads the parts of a tokenizer.
pub(super) fn load(bytes: &[u8]) -> Result<Parts, Refusal> {
    let file: File = serde_json::from_slice(bytes)
        .map_err(|error| refused("file", &format!("is not a BPE tokenizer: {error}")))?;
    check_model(&file.model)?;
    let is_nfc = is_nfc(file.normalizer.as_ref())?;
    let splits = splits(file.pre_tokenizer.as_ref())?;
    let begin = begin(file.post_processor.as_ref())?;
    let mut names = HashMap::with_capacity(file.added_tokens.len());
    let (mut raw, mut normalized) = (Vec::new(), Vec::new());
    for added in file.added_tokens {
        if added.content.is_empty() {
            continue;
        }
        names.insert(added.content.clone(), added.id);
        let content = if added.normalized && is_nfc {
            super::normalize::Normalized::nfc(&added.content)
                .text
                .into_owned()
        } else {
            added.content
        };
        let token = AddedToken {
            content,
            id: added.id,
            is_single_word: added.single_word,
            takes_left: added.lstrip,
            takes_right: added.rstrip,
        };
        if added.normalized {
            normalized.push(token);
        } else {
            raw.push(token);
        }
    }
    let search = |tokens| {
        AddedTokens::new(tokens).ok_or_else(|| refused("added_tokens", "are too many to search"))
    };
    Ok(Parts {
        model: model(&file.model)?,
        raw: search(raw)?,
        normalized: search(normalized)?,
        is_nfc,
        splits,
        names,
        begin,
    })
}

/// Refuses a part of the file.
fn refused(part: &str, reason: &str) -> Refusal {
    let message = format!("the part `{part}` of the tokenizer {reason}");
    let help = "byte-level BPE is supported: the tokenizers of Llama 3, Qwen and DeepSeek V3";
    Refusal::new(DiagnosticCode::DataTokenizer, message, Span::new(0, 0)).with_help(help)
}

fn check_model(model: &BpeFile) -> Result<(), Refusal> {
    if let Some(kind) = model.kind.as_deref().filter(|kind| *kind != "BPE") {
        return Err(refused(
            "model",
            &format!("has the unsupported type `{kind}`"),
        ));
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return Err(refused("model.dropout", "makes ids random"));
    }
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if is_set(&model.continuing_subword_prefix) {
        return Err(refused(
            "model.continuing_subword_prefix",
            "is not supported",
        ));
    }
    if is_set(&model.end_of_word_suffix) {
        return Err(refused("model.end_of_word_suffix", "is not supported"));
    }
    if model.byte_fallback {
        return Err(refused("model.byte_fallback", "is not supported"));
    }
    Ok(())
}

fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_set(part: &Value, name: &str) -> bool {
    part.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn children<'v>(part: &'v Value, name: &str) -> &'v [Value] {
    part.get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn unsupported(part: &str, value: &Value) -> Refusal {
    refused(part, &format!("has the unsupported type `{}`", kind(value)))
}

fn is_nfc(part: Option<&Value>) -> Result<bool, Refusal> {
    match part {
        None | Some(Value::Null) => Ok(false),
        Some(part) if kind(part) == "NFC" => Ok(true),
        Some(part) if kind(part) == "Sequence" => {
            let mut found = false;
            for child in children(part, "normalizers") {
                found |= is_nfc(Some(child))?;
            }
            Ok(found)
        }
        Some(part) => Err(unsupported("normalizer", part)),
    }
}

fn splits(part: Option<&Value>) -> Result<Vec<Split>, Refusal> {
    let mut result = Vec::new();
    let mut is_byte_level = false;
    if let Some(part) = part {
        add_splits(part, &mut result, &mut is_byte_level)?;
    }
    if is_byte_level {
        Ok(result)
    } else {
        Err(refused("pre_tokenizer", "does not end in `ByteLevel`"))
    }
}

fn add_splits(
    part: &Value,
    result: &mut Vec<Split>,
    is_byte_level: &mut bool,
) -> Result<(), Refusal> {
    if *is_byte_level {
        return Err(refused("pre_tokenizer", "has a step after `ByteLevel`"));
    }
    let isolated = |pattern| Split {
        pattern,
        is_removed: false,
        is_inverted: false,
    };
    match kind(part) {
        "Sequence" => {
            for child in children(part, "pretokenizers") {
                add_splits(child, result, is_byte_level)?;
            }
        }
        "ByteLevel" => {
            if is_set(part, "add_prefix_space") {
                let name = "pre_tokenizer.add_prefix_space";
                return Err(refused(name, "is not supported"));
            }
            // The setting is true where it is absent.
            if part.get("use_regex").and_then(Value::as_bool) != Some(false) {
                let pattern = Pattern::regex(BYTE_LEVEL)
                    .map_err(|error| refused("pre_tokenizer", &format!("is invalid: {error}")))?;
                result.push(isolated(pattern));
            }
            *is_byte_level = true;
        }
        "Digits" => result.push(isolated(Pattern::Digits {
            each: is_set(part, "individual_digits"),
        })),
        "Split" => result.push(split(part)?),
        _ => return Err(unsupported("pre_tokenizer", part)),
    }
    Ok(())
}

fn split(part: &Value) -> Result<Split, Refusal> {
    let source = part.get("pattern");
    let text = |name| {
        source
            .and_then(|source| source.get(name))
            .and_then(Value::as_str)
    };
    let pattern = match (text("Regex"), text("String")) {
        (Some(regex), _) => Pattern::regex(regex)
            .map_err(|error| refused("pre_tokenizer.pattern", &format!("is invalid: {error}")))?,
        (None, Some(literal)) => Pattern::Literal(literal.to_owned()),
        (None, None) => return Err(refused("pre_tokenizer.pattern", "is absent")),
    };
    let behavior = part.get("behavior").and_then(Value::as_str);
    let is_removed = match behavior.unwrap_or_default() {
        "Isolated" => false,
        "Removed" => true,
        other => {
            let reason = format!("has the unsupported value `{other}`");
            return Err(refused("pre_tokenizer.behavior", &reason));
        }
    };
    Ok(Split {
        pattern,
        is_removed,
        is_inverted: is_set(part, "invert"),
    })
}

/// Returns the token that a template of the post-processor puts before a text.
fn begin(part: Option<&Value>) -> Result<Option<u32>, Refusal> {
    let Some(part) = part.filter(|part| !part.is_null()) else {
        return Ok(None);
    };
    match kind(part) {
        "ByteLevel" => Ok(None),
        "Sequence" => {
            let mut found = None;
            for child in children(part, "processors") {
                found = found.or(begin(Some(child))?);
            }
            Ok(found)
        }
        "TemplateProcessing" => {
            let first = children(part, "single").first();
            let name = first
                .and_then(|first| first.get("SpecialToken"))
                .and_then(|token| token.get("id"))
                .and_then(Value::as_str);
            let Some(name) = name else {
                return Ok(None);
            };
            let id = part
                .get("special_tokens")
                .and_then(|tokens| tokens.get(name))
                .and_then(|token| children(token, "ids").first())
                .and_then(Value::as_u64)
                .and_then(|id| u32::try_from(id).ok());
            id.map(Some)
                .ok_or_else(|| refused("post_processor", &format!("has no id for `{name}`")))
        }
        _ => Err(unsupported("post_processor", part)),
    }
}

#[expect(clippy::iter_over_hash_type, reason = "the order has no effect")]
fn model(file: &BpeFile) -> Result<Model, Refusal> {
    let spelling = spelling();
    let mut bytes = [None; 256];
    let mut pieces = HashMap::default();
    let mut lengths = Vec::new();
    let mut content = Vec::new();
    for (text, &id) in &file.vocab {
        if id > LARGEST_ID {
            return Err(refused(
                "model.vocab",
                &format!("has the id {id}, which is too large"),
            ));
        }
        content.clear();
        content.extend(text.chars().map_while(|character| spelling.get(&character)));
        if content.len() != text.chars().count() {
            // An added token in plain text, which no merge gives.
            continue;
        }
        if let [byte] = *content.as_slice()
            && let Some(place) = bytes.get_mut(usize::from(byte))
        {
            *place = Some(id);
        }
        let index = usize::try_from(id).unwrap_or_default();
        if lengths.len() <= index {
            lengths.resize(index + 1, 0);
        }
        if let Some(place) = lengths.get_mut(index) {
            *place = u32::try_from(content.len()).unwrap_or(u32::MAX);
        }
        if file.ignore_merges {
            pieces.insert(content.as_slice().into(), id);
        }
    }
    if let Some(byte) = bytes.iter().position(Option::is_none) {
        return Err(refused(
            "model.vocab",
            &format!("has no token for the byte {byte}"),
        ));
    }
    Ok(Model {
        bytes: bytes.map(Option::unwrap_or_default),
        pieces,
        merges: merges(file)?,
        lengths,
    })
}

fn merges(file: &BpeFile) -> Result<super::model::Table<u64, Merge>, Refusal> {
    let mut table = super::model::Table::default();
    let mut joined = String::new();
    let mut add = |rank: usize, left: &str, right: &str| {
        joined.clear();
        joined.push_str(left);
        joined.push_str(right);
        let id = |text: &str| file.vocab.get(text).copied();
        let (Some(left), Some(right), Some(id)) = (id(left), id(right), id(&joined)) else {
            let reason = format!("name `{joined}` at {rank}, which is not in the vocabulary");
            return Err(refused("model.merges", &reason));
        };
        let rank = u32::try_from(rank).map_err(|_| refused("model.merges", "are too many"))?;
        table.insert(pair(left, right), Merge { rank, id });
        Ok(())
    };
    match &file.merges {
        Merges::Texts(texts) => {
            for (rank, text) in texts.iter().enumerate() {
                let Some((left, right)) = text.split_once(' ') else {
                    let reason = format!("have an entry without a space at {rank}");
                    return Err(refused("model.merges", &reason));
                };
                add(rank, left, right)?;
            }
        }
        Merges::Pairs(pairs) => {
            for (rank, (left, right)) in pairs.iter().enumerate() {
                add(rank, left, right)?;
            }
        }
    }
    Ok(table)
}

/// Returns the byte for each character in which the files spell bytes.
fn spelling() -> HashMap<char, u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others = 0;
    (0..=u8::MAX)
        .map(|byte| {
            if is_printable(byte) {
                return (char::from(byte), byte);
            }
            let character = char::from_u32(256 + others).unwrap_or_default();
            others += 1;
            (character, byte)
        })
        .collect()
}
