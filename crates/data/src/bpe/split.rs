//! The pieces of a text within which tokens are merged.

use regex_automata::PatternID;
use regex_automata::meta::Regex;

/// The end of most patterns: white space, of which the last character belongs to the next word.
const TRAILING: &str = r"|\s+(?!\S)|\s+";

/// The pattern of the pre-tokenizer `ByteLevel` with `use_regex`.
pub(super) const BYTE_LEVEL: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The text that a step searches for.
pub(super) enum Pattern {
    /// A pattern without assertions.
    Plain(Regex),
    /// A pattern that ends in [`TRAILING`]; its second pattern is `\s+`.
    ///
    /// Its lookahead only gives back the last character of white space, which costs less here
    /// than in an engine with assertions.
    Trailing(Regex),
    /// Any other pattern.
    Fancy(Box<fancy_regex::Regex>),
    /// A fixed text.
    Literal(String),
    /// Digits, each one or in runs.
    Digits { each: bool },
}

/// One step of the pre-tokenizer.
pub(super) struct Split {
    pub(super) pattern: Pattern,
    /// Found text is dropped; otherwise it is a piece.
    pub(super) is_removed: bool,
    /// Found text and the text between are exchanged.
    pub(super) is_inverted: bool,
}

impl Pattern {
    /// Compiles a regular expression in the syntax of the files.
    ///
    /// # Errors
    /// Returns the reason if the expression is invalid.
    pub(super) fn regex(source: &str) -> Result<Self, String> {
        if let Some(words) = source.strip_suffix(TRAILING)
            && !has_assertions(words)
            && let Ok(regex) = Regex::new_many(&[words, r"\s+"])
        {
            return Ok(Self::Trailing(regex));
        }
        if !has_assertions(source)
            && let Ok(regex) = Regex::new(source)
        {
            return Ok(Self::Plain(regex));
        }
        let regex = fancy_regex::RegexBuilder::new(source)
            .backtrack_limit(usize::MAX)
            .build();
        regex
            .map(|regex| Self::Fancy(Box::new(regex)))
            .map_err(|error| error.to_string())
    }

    /// Calls `found` with the bytes of each match, in order; empty matches are left out.
    fn each_match(&self, text: &str, mut found: impl FnMut(usize, usize)) {
        match self {
            Self::Plain(regex) => {
                for each in regex.find_iter(text).filter(|each| !each.is_empty()) {
                    found(each.start(), each.end());
                }
            }
            Self::Trailing(regex) => trailing(regex, text, found),
            Self::Fancy(regex) => {
                let matches = regex.find_iter(text).map_while(Result::ok);
                for each in matches.filter(|each| each.start() < each.end()) {
                    found(each.start(), each.end());
                }
            }
            Self::Literal(literal) => {
                if !literal.is_empty() {
                    for (at, part) in text.match_indices(literal.as_str()) {
                        found(at, at + part.len());
                    }
                }
            }
            Self::Digits { each } => {
                let mut run: Option<(usize, usize)> = None;
                for (at, character) in text.char_indices() {
                    let end = at + character.len_utf8();
                    match (character.is_numeric(), run) {
                        (true, Some((start, _))) if !each => run = Some((start, end)),
                        (true, last) => {
                            if let Some((start, end)) = last {
                                found(start, end);
                            }
                            run = Some((at, end));
                        }
                        (false, Some((start, end))) => {
                            found(start, end);
                            run = None;
                        }
                        (false, None) => {}
                    }
                }
                if let Some((start, end)) = run {
                    found(start, end);
                }
            }
        }
    }
}

/// Finds the matches of a pattern that ends in [`TRAILING`].
fn trailing(regex: &Regex, text: &str, mut found: impl FnMut(usize, usize)) {
    let mut input = regex_automata::Input::new(text);
    while let Some(each) = regex.find(input.clone()) {
        let (start, mut end) = (each.start(), each.end());
        if start == end {
            // The patterns of the files do not match empty text.
            input.set_start(start + 1);
            if start >= text.len() {
                return;
            }
            continue;
        }
        if each.pattern() == PatternID::must(1) && end < text.len() {
            let last = text
                .get(start..end)
                .and_then(|space| space.chars().next_back());
            let length = last.map_or(0, char::len_utf8);
            if end - length > start {
                end -= length;
            }
        }
        found(start, end);
        input.set_start(end);
    }
}

/// Returns whether an expression has parts that finite automata do not have.
///
/// These are assertions, references and possessive repetition, which automata read as repetition
/// of a repetition.
fn has_assertions(source: &str) -> bool {
    let has_group = [
        "(?=", "(?!", "(?<", "(?>", "\\G", "\\K", "\\h", "\\R", "\\X",
    ]
    .iter()
    .any(|part| source.contains(part));
    let mut is_in_class = false;
    let mut previous = ' ';
    let mut characters = source.chars();
    let mut is_special = has_group;
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let escaped = characters.next();
                is_special |= escaped.is_some_and(|escaped| escaped.is_ascii_digit());
                if matches!(escaped, Some('p' | 'P' | 'x' | 'u'))
                    && characters.as_str().starts_with('{')
                {
                    // The braces of a class or a character are not a repetition.
                    characters.by_ref().find(|character| *character == '}');
                }
                previous = ' ';
                continue;
            }
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '+' if !is_in_class && matches!(previous, '?' | '*' | '+' | '}') => is_special = true,
            _ => {}
        }
        previous = character;
    }
    is_special
}

impl Split {
    /// Cuts each piece, which are bytes of `text`, into smaller ones.
    pub(super) fn apply(
        &self,
        text: &str,
        pieces: &[(usize, usize)],
        result: &mut Vec<(usize, usize)>,
    ) {
        for &(from, to) in pieces {
            let Some(piece) = text.get(from..to) else {
                continue;
            };
            let mut last = 0;
            let mut add = |start: usize, end: usize, is_match: bool| {
                if start < end && !(self.is_removed && is_match != self.is_inverted) {
                    result.push((from + start, from + end));
                }
            };
            self.pattern.each_match(piece, |start, end| {
                add(last, start, false);
                add(start, end, true);
                last = end;
            });
            add(last, piece.len(), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTE_LEVEL, Pattern, Split};

    fn pieces(pattern: Pattern, text: &str) -> Vec<String> {
        let split = Split {
            pattern,
            is_removed: false,
            is_inverted: false,
        };
        let mut result = Vec::new();
        split.apply(text, &[(0, text.len())], &mut result);
        let texts = result.iter().filter_map(|&(from, to)| text.get(from..to));
        texts.map(str::to_owned).collect()
    }

    #[test]
    fn white_space_gives_its_last_character_to_the_next_word() {
        let pattern = || Pattern::regex(BYTE_LEVEL).unwrap();
        assert!(matches!(pattern(), Pattern::Trailing(_)));
        assert_eq!(pieces(pattern(), "a   b"), ["a", "  ", " b"]);
        assert_eq!(
            pieces(pattern(), "a \n\tb  "),
            ["a", " \n", "\t", "b", "  "]
        );
        assert_eq!(pieces(pattern(), "\u{3000}x"), ["\u{3000}", "x"]);
    }

    #[test]
    fn both_engines_give_the_same_pieces() {
        let words = BYTE_LEVEL;
        let slow = || Pattern::Fancy(Box::new(fancy_regex::Regex::new(words).unwrap()));
        for text in [
            "it's  12 \u{a0}\u{a0}x\r\n\r\n y!! ",
            "\n\n\n",
            "  ",
            " \u{2003}a",
        ] {
            let fast = pieces(Pattern::regex(words).unwrap(), text);
            assert_eq!(fast, pieces(slow(), text), "{text:?}");
        }
    }

    #[test]
    fn possessive_repetition_is_left_to_the_other_engine() {
        let pattern = Pattern::regex(r"\p{L}++|[a+]+").unwrap();
        assert!(matches!(pattern, Pattern::Fancy(_)));
        assert!(matches!(
            Pattern::regex(r"[a?+]+").unwrap(),
            Pattern::Plain(_)
        ));
    }

    #[test]
    fn digits_are_cut_alone_or_in_runs() {
        assert_eq!(
            pieces(Pattern::Digits { each: true }, "a12²b"),
            ["a", "1", "2", "²", "b"]
        );
        assert_eq!(
            pieces(Pattern::Digits { each: false }, "12 3"),
            ["12", " ", "3"]
        );
    }
}
