//! The control tokens of model families.

use std::sync::LazyLock;

/// A group of models that share control tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenFamily {
    /// OpenChatML 2.x and Harmony (gpt-oss).
    OpenChatMl,
    /// OpenChatML 0.1, `ChatML` and the special tokens of GPT encodings.
    ChatMl,
    /// Llama 2 to 4, Granite.
    Llama,
    /// Mistral, Mixtral and their relatives.
    Mistral,
    /// Gemma.
    Gemma,
    /// `DeepSeek`: every token between fullwidth bars.
    DeepSeek,
    /// Qwen and Hermes: tags of calls, results and reasoning.
    Qwen,
    /// Phi.
    Phi,
    /// GLM.
    Glm,
    /// Kimi.
    Kimi,
    /// Command R and later models of Cohere.
    Cohere,
}

impl TokenFamily {
    /// All families, in the order of their definition.
    pub const ALL: [Self; 11] = [
        Self::OpenChatMl,
        Self::ChatMl,
        Self::Llama,
        Self::Mistral,
        Self::Gemma,
        Self::DeepSeek,
        Self::Qwen,
        Self::Phi,
        Self::Glm,
        Self::Kimi,
        Self::Cohere,
    ];

    /// The name in lower case, such as `llama`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenChatMl => "openchatml",
            Self::ChatMl => "chatml",
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Gemma => "gemma",
            Self::DeepSeek => "deepseek",
            Self::Qwen => "qwen",
            Self::Phi => "phi",
            Self::Glm => "glm",
            Self::Kimi => "kimi",
            Self::Cohere => "cohere",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Tokens between `<|` and `|>` without them, and other tokens whole.
    const fn tokens(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::OpenChatMl => (OPENCHATML, &[]),
            Self::ChatMl => (CHATML, &[]),
            Self::Llama => (LLAMA, LLAMA_TAGS),
            Self::Mistral => (&[], MISTRAL_TAGS),
            Self::Gemma => (&[], GEMMA_TAGS),
            Self::DeepSeek => (&["EOT"], &[]),
            Self::Qwen => (QWEN, QWEN_TAGS),
            Self::Phi => (PHI, &[]),
            Self::Glm => (GLM, GLM_TAGS),
            Self::Kimi => (KIMI, &[]),
            Self::Cohere => (COHERE, COHERE_TAGS),
        }
    }
}

/// A set of [`TokenFamily`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenFamilies(u16);

impl TokenFamilies {
    /// No family.
    pub const NONE: Self = Self(0);
    /// Every family.
    pub const ALL: Self = Self(u16::MAX);

    /// This set and one more family.
    #[must_use]
    pub const fn with(self, family: TokenFamily) -> Self {
        Self(self.0 | family.bit())
    }

    /// This set except for one family.
    #[must_use]
    pub const fn without(self, family: TokenFamily) -> Self {
        Self(self.0 & !family.bit())
    }

    /// Returns whether a family is in this set.
    pub const fn contains(self, family: TokenFamily) -> bool {
        self.0 & family.bit() != 0
    }

    /// Returns whether no family is in this set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The families of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The families of this set, in the order of [`TokenFamily::ALL`].
    pub fn iter(self) -> impl Iterator<Item = TokenFamily> {
        TokenFamily::ALL
            .into_iter()
            .filter(move |family| self.contains(*family))
    }
}

const OPENCHATML: &[&str] = &[
    "start",
    "channel",
    "message",
    "call",
    "constrain",
    "return",
    "end",
    "literal",
    "endliteral",
    "refusal",
];
const CHATML: &[&str] = &[
    "im_start",
    "im_end",
    "im_sep",
    "fim_prefix",
    "fim_middle",
    "fim_suffix",
    "fim_pad",
    "file_separator",
    "file_sep",
    "repo_name",
    "reflect",
    "introspect",
    "reason",
    "start_reflect",
    "end_reflect",
    "start_introspect",
    "end_introspect",
    "start_reason",
    "end_reason",
    "function_list",
    "function_call",
    "function_output",
    "endoftext",
    "startoftext",
    "endofprompt",
];
const LLAMA: &[&str] = &[
    "begin_of_text",
    "end_of_text",
    "start_header_id",
    "end_header_id",
    "eot_id",
    "eom_id",
    "python_tag",
    "python_start",
    "python_end",
    "eot",
    "eom",
    "header_start",
    "header_end",
    "start_of_role",
    "end_of_role",
    "image",
    "image_start",
    "image_end",
    "patch",
];
/// The first `<` of `<<SYS>>` belongs to the letters before the word.
const LLAMA_TAGS: &[&str] = &[
    "<SYS>>", "</SYS>>", "<s>", "</s>", "<unk>", "<pad>", "[INST]", "[/INST]",
];
/// Without `[ARGS]`, `[IMG]`, `[PREFIX]`, `[MIDDLE]` and `[SUFFIX]`, which help texts contain.
const MISTRAL_TAGS: &[&str] = &[
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[/TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[CALL_ID]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[THINK]",
    "[/THINK]",
    "[IMG_BREAK]",
    "[IMG_END]",
];
const GEMMA_TAGS: &[&str] = &[
    "<bos>",
    "<eos>",
    "<unk>",
    "<pad>",
    "<|turn>",
    "<turn|>",
    "<|channel>",
    "<channel|>",
    "<|tool>",
    "<tool|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",
    "<tool_response|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<start_function_call>",
    "<end_function_call>",
    "<start_function_response>",
    "<end_function_response>",
    "<start_function_declaration>",
    "<end_function_declaration>",
];
const QWEN: &[&str] = &[
    "vision_start",
    "vision_end",
    "vision_pad",
    "image_pad",
    "video_pad",
    "object_ref_start",
    "object_ref_end",
    "box_start",
    "box_end",
    "quad_start",
    "quad_end",
];
const QWEN_TAGS: &[&str] = &[
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<think>",
    "</think>",
];
const PHI: &[&str] = &[
    "system",
    "user",
    "assistant",
    "end",
    "tool",
    "/tool",
    "tool_call",
    "/tool_call",
    "tool_response",
    "/tool_response",
    "tool_calls",
    "think",
    "context",
];
const GLM: &[&str] = &[
    "system",
    "user",
    "assistant",
    "observation",
    "begin_of_image",
    "end_of_image",
    "begin_of_video",
    "end_of_video",
    "begin_of_box",
    "end_of_box",
];
const GLM_TAGS: &[&str] = &[
    "[gMASK]",
    "[sMASK]",
    "<sop>",
    "<eop>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
];
const KIMI: &[&str] = &[
    "im_system",
    "im_user",
    "im_assistant",
    "im_middle",
    "tool_calls_section_begin",
    "tool_calls_section_end",
    "tool_call_begin",
    "tool_call_argument_begin",
    "tool_call_end",
    "media_begin",
    "media_content",
    "media_end",
    "media_pad",
];
const COHERE: &[&str] = &[
    "START_OF_TURN_TOKEN",
    "END_OF_TURN_TOKEN",
    "USER_TOKEN",
    "CHATBOT_TOKEN",
    "SYSTEM_TOKEN",
    "START_THINKING",
    "END_THINKING",
    "START_ACTION",
    "END_ACTION",
    "START_RESPONSE",
    "END_RESPONSE",
    "START_TOOL_RESULT",
    "END_TOOL_RESULT",
];
const COHERE_TAGS: &[&str] = &[
    "<BOS_TOKEN>",
    "<EOS_TOKEN>",
    "<EOP_TOKEN>",
    "<PAD>",
    "<UNK>",
];

/// The listed tokens, sorted, each with its families.
static SORTED: LazyLock<Vec<(String, TokenFamilies)>> = LazyLock::new(|| {
    let mut sorted = std::collections::BTreeMap::new();
    for family in TokenFamily::ALL {
        let (words, tags) = family.tokens();
        let words = words.iter().map(|word| format!("<|{word}|>"));
        for token in words.chain(tags.iter().map(|tag| (*tag).to_owned())) {
            let families = sorted.entry(token).or_insert(TokenFamilies::NONE);
            *families = families.with(family);
        }
    }
    sorted.into_iter().collect()
});

/// Reserved tokens are numbered, such as `<|reserved_special_token_7|>`.
const RESERVED: (&[u8], &[u8]) = (b"<|reserved_", b"|>");
/// The begin and end of tokens of `DeepSeek`: `<｜User｜>`.
const FULLWIDTH: (&[u8], &[u8]) = ("<｜".as_bytes(), "｜>".as_bytes());

/// Letters of the longest word that can be a token.
const MAX_WORD: usize = 64;

/// Returns whether a token may begin with `word`.
pub(super) fn may_begin(word: &[u8]) -> bool {
    let next = SORTED.partition_point(|(token, _)| token.as_bytes() < word);
    let listed = SORTED.get(next);
    listed.is_some_and(|(token, _)| token.as_bytes().starts_with(word))
        || word.len() <= MAX_WORD && (in_reserved(word) || in_fullwidth(word))
}

fn in_reserved(word: &[u8]) -> bool {
    let Some(rest) = word.strip_prefix(RESERVED.0) else {
        return RESERVED.0.starts_with(word);
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let end = rest.iter().position(|byte| !is_name(byte));
    end.is_none_or(|end| RESERVED.1.starts_with(rest.get(end..).unwrap_or_default()))
}

fn in_fullwidth(word: &[u8]) -> bool {
    let Some(rest) = word.strip_prefix(FULLWIDTH.0) else {
        return FULLWIDTH.0.starts_with(word);
    };
    let is_inside = |byte: &u8| !byte.is_ascii_control() && *byte != b'>';
    rest.iter().all(is_inside) || rest.ends_with(FULLWIDTH.1)
}

/// Returns the families that have `word` as a token.
pub(super) fn families_of_word(word: &[u8]) -> TokenFamilies {
    let found = SORTED.binary_search_by(|(token, _)| token.as_bytes().cmp(word));
    if let Some((_, families)) = found.ok().and_then(|index| SORTED.get(index)) {
        return *families;
    }
    let has = |(begin, end): (&[u8], &[u8])| {
        let inside = word
            .strip_prefix(begin)
            .and_then(|rest| rest.strip_suffix(end));
        inside.is_some_and(|inside| !inside.is_empty())
    };
    if has(RESERVED) && in_reserved(word) {
        let families = TokenFamilies::NONE.with(TokenFamily::OpenChatMl);
        families.with(TokenFamily::Llama).with(TokenFamily::Cohere)
    } else if has(FULLWIDTH) && in_fullwidth(word) {
        TokenFamilies::NONE.with(TokenFamily::DeepSeek)
    } else {
        TokenFamilies::NONE
    }
}

/// Returns the model families in which `text` is a control token.
pub fn families_of(text: &str) -> TokenFamilies {
    let word = match text {
        "<<SYS>>" => "<SYS>>",
        "<</SYS>>" => "</SYS>>",
        "<SYS>>" | "</SYS>>" => return TokenFamilies::NONE,
        other => other,
    };
    families_of_word(word.as_bytes())
}

/// Returns whether `text` is a control token of a dialect or of another model family.
pub fn is_control_token(text: &str) -> bool {
    !families_of(text).is_empty()
}
