//! Full-text search over messages.

use rusqlite::{Connection, params, params_from_iter};

use crate::sqlite::search_failure;
use logue_harness::store::StoreError;

/// The characters of a message before and after the first found word in an excerpt.
const BEFORE: usize = 30;
const AFTER: usize = 90;

/// A temporary full-text index of messages, for one search over any store.
///
/// It is in a private temporary database, which SQLite removes when the index is dropped, so nothing
/// outlives a removed session. Case and accents are ignored. Memory is bounded by the cache of the
/// database.
///
/// ```
/// use logue_store::SearchIndex;
///
/// # fn main() -> Result<(), logue_harness::store::StoreError> {
/// let mut index = SearchIndex::new()?;
/// index.add("s1", [(0, "user", "How is Résumé spelled?"), (1, "assistant", "With accents.")])?;
/// let hits = index.find(&["resume"], 10)?;
/// assert_eq!((hits[0].session.as_str(), hits[0].seq), ("s1", 0));
/// assert!(index.find(&["resume", "missing"], 10)?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SearchIndex {
    connection: Connection,
}

/// A message that contains all words of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session.
    pub session: String,
    /// The position in the history, from 0.
    pub seq: u64,
    /// The role of the message.
    pub role: String,
    /// The part of the text around the first found word, on one line.
    pub excerpt: String,
}

impl SearchIndex {
    /// Creates an empty index.
    ///
    /// # Errors
    /// Returns an error if the temporary database cannot be created.
    pub fn new() -> Result<Self, StoreError> {
        let connection = Connection::open("").map_err(search_failure)?;
        let index = "CREATE VIRTUAL TABLE found USING fts5(
            text, session UNINDEXED, seq UNINDEXED, role UNINDEXED,
            tokenize = \"unicode61 remove_diacritics 2\")";
        connection.execute_batch(index).map_err(search_failure)?;
        Ok(Self { connection })
    }

    /// Adds messages of a session, each with its position, role and text.
    ///
    /// # Errors
    /// Returns an error if the temporary database cannot be written.
    pub fn add<'m>(
        &mut self,
        session: &str,
        messages: impl IntoIterator<Item = (u64, &'m str, &'m str)>,
    ) -> Result<(), StoreError> {
        let change = self.connection.transaction().map_err(search_failure)?;
        {
            let insert = "INSERT INTO found (text, session, seq, role) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = change.prepare_cached(insert).map_err(search_failure)?;
            for (seq, role, text) in messages {
                let seq = i64::try_from(seq).unwrap_or(i64::MAX);
                insert
                    .execute(params![text, session, seq, role])
                    .map_err(search_failure)?;
            }
        }
        change.commit().map_err(search_failure)
    }

    /// Returns the messages that contain all words, the best ones first.
    ///
    /// A word that ends with `*` is a prefix. Words of scripts without spaces between words (Chinese,
    /// Japanese, Thai and others) are found anywhere in a text.
    ///
    /// # Errors
    /// Returns an error if the temporary database cannot be read.
    pub fn find(&self, words: &[&str], limit: usize) -> Result<Vec<SearchHit>, StoreError> {
        let (mut indexed, mut contained) = (String::new(), Vec::new());
        for word in words {
            let (word, star) = match word.strip_suffix('*') {
                Some(prefix) => (prefix, "*"),
                None => (*word, ""),
            };
            if word.chars().any(has_no_spaces) {
                contained.push(word.to_owned());
            } else if word.chars().any(char::is_alphanumeric) {
                // A quoted word has no operators.
                indexed.push_str(&format!("\"{}\"{star} ", word.replace('"', "\"\"")));
            }
        }
        let mut values = Vec::new();
        let mut conditions = Vec::new();
        if !indexed.is_empty() {
            conditions.push("found MATCH ?".to_owned());
            values.push(indexed);
        }
        for word in contained {
            conditions.push("instr(text, ?) > 0".to_owned());
            values.push(word);
        }
        if conditions.is_empty() {
            return Ok(Vec::new());
        }
        let order = if conditions.iter().any(|one| one.contains("MATCH")) {
            "rank"
        } else {
            "rowid"
        };
        let query = format!(
            "SELECT session, seq, role, text FROM found WHERE {} ORDER BY {order} LIMIT {limit}",
            conditions.join(" AND ")
        );
        let mut select = self.connection.prepare(&query).map_err(search_failure)?;
        let rows = select.query_map(params_from_iter(values), |row| {
            let seq: i64 = row.get(1)?;
            let text: String = row.get(3)?;
            Ok(SearchHit {
                session: row.get(0)?,
                seq: u64::try_from(seq).unwrap_or_default(),
                role: row.get(2)?,
                excerpt: excerpt(&text, words),
            })
        });
        let hits: Result<Vec<SearchHit>, rusqlite::Error> = rows.and_then(Iterator::collect);
        hits.map_err(search_failure)
    }
}

/// Returns whether a character belongs to a script that does not separate words by spaces.
const fn has_no_spaces(character: char) -> bool {
    matches!(
        character,
        '\u{0e00}'..='\u{0eff}' // Thai, Lao
            | '\u{1000}'..='\u{109f}' // Myanmar
            | '\u{1780}'..='\u{17ff}' // Khmer
            | '\u{2e80}'..='\u{30ff}' // radicals, Hiragana, Katakana
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff66}'..='\u{ff9f}'
            | '\u{20000}'..='\u{3ffff}'
    )
}

/// Returns the part of a text around the first word, on one line.
fn excerpt(text: &str, words: &[&str]) -> String {
    let lower = |text: &str| -> Vec<char> { text.chars().flat_map(char::to_lowercase).collect() };
    let characters: Vec<char> = text.chars().collect();
    let folded = lower(text);
    // Few characters change their number in lower case; then the excerpt is the beginning.
    let found = words.iter().filter_map(|word| {
        let word = lower(word.trim_end_matches('*'));
        let is_aligned = folded.len() == characters.len() && !word.is_empty();
        let mut windows = folded.windows(word.len().max(1));
        is_aligned.then(|| windows.position(|window| window == word))?
    });
    let at = found.min().unwrap_or_default();
    let start = at.saturating_sub(BEFORE);
    let end = characters.len().min(at.saturating_add(AFTER));
    let part = characters.get(start..end).unwrap_or_default();
    let words: String = part.iter().collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    let (before, after) = (
        if start > 0 { "…" } else { "" },
        if end < characters.len() { "…" } else { "" },
    );
    format!("{before}{}{after}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> SearchIndex {
        let mut index = SearchIndex::new().unwrap();
        let messages = texts
            .iter()
            .zip(0..)
            .map(|(text, seq)| (seq, "user", *text));
        index.add("s", messages).unwrap();
        index
    }

    fn found(index: &SearchIndex, words: &[&str]) -> Vec<u64> {
        let mut hits: Vec<u64> = index
            .find(words, 100)
            .unwrap()
            .into_iter()
            .map(|hit| hit.seq)
            .collect();
        hits.sort_unstable();
        hits
    }

    #[test]
    fn words_are_found_and_never_operators() {
        let index = index(&[
            "Rust monads are not burritos",
            "a NEAR miss OR \"quoted\" AND column:value",
            "它是一个测试",
            "Übergrößenträger",
        ]);
        assert_eq!(found(&index, &["MONADS"]), [0]);
        assert_eq!(found(&index, &["bur*"]), [0]);
        assert_eq!(found(&index, &["bur"]), [0_u64; 0]);
        assert_eq!(found(&index, &["ubergroßentrager"]), [3]);
        assert_eq!(found(&index, &["near", "OR", "miss"]), [1]);
        assert_eq!(found(&index, &["column:value"]), [1]);
        assert_eq!(found(&index, &["\"quoted"]), [1]);
        assert_eq!(found(&index, &["一个"]), [2]);
        assert_eq!(found(&index, &["一个", "monads"]), [0_u64; 0]);
        assert_eq!(found(&index, &["*", "(", "-"]), [0_u64; 0]);
        assert_eq!(found(&index, &[]), [0_u64; 0]);
    }

    #[test]
    fn an_excerpt_shows_the_word_in_its_place() {
        let long = format!("{} needle\nin {}", "hay ".repeat(40), "straw ".repeat(40));
        let hit = &index(&[&long]).find(&["NEEDLE"], 1).unwrap()[0];
        assert!(
            hit.excerpt.starts_with('…') && hit.excerpt.ends_with('…'),
            "{}",
            hit.excerpt
        );
        assert!(
            hit.excerpt.contains("hay needle in straw"),
            "{}",
            hit.excerpt
        );
        assert_eq!(excerpt("short", &["x"]), "short");
    }
}
