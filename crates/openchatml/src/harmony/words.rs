//! Recovery of damaged words of a header.
//!
//! A repair never raises authority and never shows what may have been meant to be hidden: no word
//! becomes `system` or `developer`, and only junk that is not a letter is cut off a `final`.

use crate::syntax::vocabulary::{Channel, FUNCTIONS, FrameRole};

/// Content types that models glue to the word before.
const GLUED: [&str; 2] = ["json", "code"];

/// The meaning of the word in a role's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RoleWord {
    pub(super) role: FrameRole,
    /// Of the speaker, or the tool.
    pub(super) name: Option<String>,
    /// Whether the word is not what it should be.
    pub(super) repaired: bool,
    /// Whether the role is certain enough to be believed in a header that breaks off.
    pub(super) certain: bool,
    /// The channel that is glued to the role, as in `assistantfinal`.
    pub(super) channel: Option<&'static str>,
}

/// Reads the word in a role's place.
pub(super) fn role(word: &[u8]) -> RoleWord {
    let text = String::from_utf8_lossy(word);
    let read = |role, name: Option<&str>, repaired| RoleWord {
        role,
        name: name.map(str::to_owned),
        repaired,
        certain: true,
        channel: None,
    };
    let (first, name) = text
        .split_once(':')
        .map_or((text.as_ref(), None), |(first, name)| (first, Some(name)));
    let name = name.filter(|name| !name.is_empty());
    match FrameRole::parse(first.as_bytes()) {
        FrameRole::Tool if first.starts_with(FUNCTIONS) => {
            return read(FrameRole::Tool, Some(&text), false);
        }
        FrameRole::Other => {}
        role => return read(role, name, false),
    }
    if let Some(channel) = glued_channel(&text) {
        return RoleWord {
            channel: Some(channel),
            certain: false,
            ..read(FrameRole::Assistant, None, true)
        };
    }
    let lower = first.to_ascii_lowercase();
    for role in [FrameRole::Assistant, FrameRole::User, FrameRole::Tool] {
        let Some(rest) = role.as_str().and_then(|known| lower.strip_prefix(known)) else {
            continue;
        };
        let doubled = role.as_str().is_some_and(|known| {
            rest.strip_prefix(known)
                .is_some_and(|rest| rest.is_empty() || rest == known)
        });
        if rest.is_empty() || doubled || !rest.starts_with(may_stand_in_a_name) {
            return read(role, name, true);
        }
    }
    // Harmony writes a tool's name in the role's place.
    let known_form =
        text == "python" || (text.contains('.') && text.chars().all(may_stand_in_a_name));
    RoleWord {
        role: FrameRole::Tool,
        name: Some(text.into_owned()),
        repaired: !known_form,
        certain: known_form,
        channel: None,
    }
}

/// The channel after `assistant`, where a server left the tokens between them out.
fn glued_channel(word: &str) -> Option<&'static str> {
    let rest = word.strip_prefix("assistant")?;
    let known = [Channel::Analysis, Channel::Commentary, Channel::Final];
    let mut names = known.into_iter().filter_map(Channel::as_str);
    names.find(|name| *name == rest)
}

/// Returns whether a word without `to=` is the recipient of a call: a function or a declared tool.
pub(super) fn is_address(word: &[u8], tools: &[String]) -> bool {
    let Ok(text) = std::str::from_utf8(word) else {
        return false;
    };
    let name = text
        .strip_prefix(FUNCTIONS)
        .or_else(|| text.strip_prefix("browser."));
    name.is_some_and(|name| !name.is_empty() && name.chars().all(may_stand_in_a_name))
        || tools.iter().any(|tool| tool == text)
}

/// The bytes of a channel with `to=` glued to it, as in `commentaryto=functions.f`.
///
/// Never those of `final`, so that no text is shown that may have been meant to be hidden.
pub(super) fn addressed_channel(word: &[u8]) -> Option<usize> {
    let known = [Channel::Analysis, Channel::Commentary];
    let mut names = known.into_iter().filter_map(Channel::as_str);
    let name = names.find(|name| {
        let rest = word.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"to="))
    })?;
    Some(name.len())
}

/// The meaning of the word in a channel's place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChannelWord {
    pub(super) name: Option<String>,
    /// A content type that was glued to the channel.
    pub(super) content_type: Option<&'static str>,
    /// Bytes of the word that are the channel; junk follows them.
    pub(super) used: usize,
    pub(super) repaired: bool,
}

/// Reads the word in a channel's place.
pub(super) fn channel(word: &[u8]) -> ChannelWord {
    if let Some(name) = Channel::parse(word).as_str() {
        return ChannelWord {
            name: Some(name.to_owned()),
            used: word.len(),
            ..ChannelWord::default()
        };
    }
    let known = [Channel::Analysis, Channel::Commentary, Channel::Final];
    for name in known.into_iter().filter_map(Channel::as_str) {
        let Some((head, rest)) = word.split_at_checked(name.len()) else {
            continue;
        };
        if !head.eq_ignore_ascii_case(name.as_bytes()) {
            continue;
        }
        let glued = GLUED.into_iter().find(|glued| rest == glued.as_bytes());
        let junk = rest.first().is_none_or(|byte| !is_word_byte(*byte));
        if glued.is_some() || junk || name != "final" {
            return ChannelWord {
                name: Some(name.to_owned()),
                content_type: glued,
                used: if glued.is_some() {
                    word.len()
                } else {
                    name.len()
                },
                repaired: true,
            };
        }
    }
    let plain = !word.is_empty() && word.iter().all(|byte| is_word_byte(*byte));
    ChannelWord {
        name: plain.then(|| String::from_utf8_lossy(word).into_owned()),
        content_type: None,
        used: word.len(),
        repaired: true,
    }
}

/// The declared tool and the content type that `recipient` is glued together from.
pub(super) fn unglue<'t>(recipient: &str, tools: &'t [String]) -> Option<(&'t str, &'static str)> {
    if tools.iter().any(|tool| tool == recipient) {
        return None;
    }
    GLUED.into_iter().find_map(|glued| {
        let name = recipient.strip_suffix(glued)?;
        let tool = tools.iter().find(|tool| *tool == name)?;
        Some((tool.as_str(), glued))
    })
}

/// The length of the longest prefix of `word` that can be a content type.
pub(super) fn content_type_length(word: &[u8]) -> usize {
    if !word.first().is_some_and(u8::is_ascii_alphabetic) {
        return 0;
    }
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"/+-._;".contains(byte);
    word.iter().take_while(|byte| part(byte)).count()
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn may_stand_in_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | ':')
}
