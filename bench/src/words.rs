//! Text of the kinds that conversations are made of.
//!
//! The words are tokens of the vocabulary, the frequent ones more often, as in real text: prose in
//! Latin letters and in Chinese, Japanese and Korean, code, JSON, logs, emoji.

use crate::random::Random;

/// Words to choose from, frequent ones first.
pub(crate) struct Words {
    latin: Vec<&'static str>,
    accented: Vec<&'static str>,
    east: Vec<&'static str>,
    names: Vec<&'static str>,
}

const EMOJI: [&str; 8] = ["🦊", "👍🏽", "🎉", "👩‍💻", "🇩🇪", "✅", "🚀", "😀"];

impl Words {
    pub(crate) fn new() -> Self {
        let (mut latin, mut accented, mut east, mut names) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for id in 0..199_998 {
            let bytes = logue_o200k::token_bytes(id).unwrap_or_default();
            let Ok(text) = std::str::from_utf8(bytes) else {
                continue;
            };
            let word = text.strip_prefix(' ').unwrap_or_default();
            let lower = |c: char| c.is_lowercase();
            let is_east = |c: char| ('\u{3040}'..='\u{D7A3}').contains(&c);
            if word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase()) {
                latin.push(word);
            } else if word.len() > 2 && word.chars().all(lower) {
                accented.push(word);
            } else if text.chars().all(is_east) && !text.is_empty() {
                east.push(text);
            } else if text.len() > 3 && text.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                names.push(text);
            }
        }
        Self {
            latin,
            accented,
            east,
            names,
        }
    }

    fn word(words: &[&'static str], random: &mut Random) -> &'static str {
        let at = random.skewed(words.len());
        words.get(at).copied().unwrap_or("word")
    }

    /// Sentences of about `count` words.
    pub(crate) fn prose(&self, random: &mut Random, count: usize) -> String {
        if random.one_in(8) {
            return self.eastern(random, count);
        }
        let accents = random.one_in(4);
        let mut text = String::with_capacity(count * 7);
        let mut left = 0_usize;
        for at in 0..count {
            let words = if accents && random.one_in(3) {
                &self.accented
            } else {
                &self.latin
            };
            let word = Self::word(words, random);
            if left == 0 {
                left = 5 + random.below(18);
                if at > 0 {
                    text.push_str(random.pick(&[". ", ". ", "? ", ".\n\n", "! ", ":\n- ", ".\n"]));
                }
                let mut letters = word.chars();
                text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
                text.push_str(letters.as_str());
            } else {
                text.push_str(if random.one_in(11) { ", " } else { " " });
                text.push_str(word);
            }
            left -= 1;
            if random.one_in(120) {
                text.push(' ');
                text.push_str(random.pick(&EMOJI));
            } else if random.one_in(40) {
                text.push_str(&format!(" `{}`", self.name(random)));
            } else if random.one_in(50) {
                text.push_str(&format!(" {}", random.below(100_000)));
            }
        }
        text.push('.');
        text
    }

    fn eastern(&self, random: &mut Random, count: usize) -> String {
        let mut text = String::with_capacity(count * 6);
        for _ in 0..count {
            text.push_str(Self::word(&self.east, random));
            if random.one_in(12) {
                text.push_str(random.pick(&["。", "，", "、", "。\n"]));
            }
        }
        text
    }

    fn name(&self, random: &mut Random) -> String {
        let first = Self::word(&self.latin, random);
        match random.below(3) {
            0 => first.to_owned(),
            1 => format!("{first}_{}", Self::word(&self.latin, random)),
            _ => format!("{first}{}", Self::word(&self.names, random)),
        }
    }

    /// Lines of a program.
    pub(crate) fn code(&self, random: &mut Random, lines: usize) -> String {
        let mut text = String::new();
        let mut depth = 0_usize;
        for _ in 0..lines {
            text.push_str(&"    ".repeat(depth));
            let (a, b, c) = (self.name(random), self.name(random), self.name(random));
            match random.below(9) {
                0 => text.push_str(&format!("fn {a}({b}: &{c}) -> Result<Vec<u8>, Error> {{")),
                1 => text.push_str(&format!(
                    "let {a} = {b}.iter().map(|x| x.{c}()).sum::<u64>();"
                )),
                2 => text.push_str(&format!("if {a} < {b} && !{c}.is_empty() {{")),
                3 => text.push_str(&format!("// {}", self.prose(random, 8).replace('\n', " "))),
                4 => text.push_str(&format!("return Err(Error::new(\"{a}: {b} < {c}\"));")),
                5 => text.push_str(&format!(
                    "{a}.{b}[{}] = {c}; // 0x{:x}",
                    random.below(99),
                    random.below(1 << 30)
                )),
                6 => {}
                _ => {
                    depth = depth.saturating_sub(1);
                    text.push('}');
                }
            }
            if text.ends_with('{') {
                depth = (depth + 1).min(5);
            }
            text.push('\n');
        }
        text
    }

    /// A JSON object of about `fields` fields, nested.
    pub(crate) fn json(&self, random: &mut Random, fields: usize) -> String {
        let mut text = String::from("{");
        for at in 0..fields.max(1) {
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(&format!("\"{}\": ", self.name(random)));
            match random.below(7) {
                0 => text.push_str(&random.below(1 << 40).to_string()),
                1 => text.push_str(&format!("{}.{}", random.below(1000), random.below(1000))),
                2 => text.push_str(random.pick(&["true", "false", "null"])),
                3 => text.push_str(&format!(
                    "[{}, {}, \"{}\"]",
                    random.below(9),
                    random.below(99),
                    self.name(random)
                )),
                4 => text.push_str(&format!(
                    "{{\"id\": \"{:016x}\", \"path\": \"/src/{}.rs\"}}",
                    random.below(1 << 60),
                    self.name(random)
                )),
                _ => {
                    let count = 1 + random.below(12);
                    let words = self.prose(random, count);
                    text.push_str(&serde_json::Value::String(words).to_string());
                }
            }
        }
        text.push('}');
        text
    }

    /// Lines of a log.
    pub(crate) fn log(&self, random: &mut Random, lines: usize) -> String {
        let mut text = String::new();
        for _ in 0..lines {
            text.push_str(&format!(
                "2026-03-{:02}T{:02}:{:02}:{:02}Z {} {}: {}\n",
                1 + random.below(28),
                random.below(24),
                random.below(60),
                random.below(60),
                random.pick(&["INFO", "WARN", "DEBUG", "ERROR"]),
                self.name(random),
                self.prose(random, 9).replace('\n', " "),
            ));
        }
        text
    }
}
