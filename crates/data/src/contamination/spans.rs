//! The words that a row and a benchmark have in common.

use super::index::{BenchmarkIndex, BenchmarkRow};
use crate::row_turns::RowTurn;
use crate::words::{Word, each_word};

/// Words of a message that a benchmark has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContaminatedSpan {
    /// The number of the turn in the conversation, from 0.
    pub turn: usize,
    /// The first byte in the text of the turn.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// The number of words.
    pub words: usize,
    /// The row of the benchmark.
    pub benchmark: BenchmarkRow,
    /// The number of words of the text of the benchmark.
    pub benchmark_words: usize,
}

impl BenchmarkIndex {
    /// Returns the longest common runs of words, in the order of the row.
    ///
    /// Spans do not overlap; of equally long ones the first benchmark is named.
    pub fn spans(&self, turns: &[RowTurn<'_>]) -> Vec<ContaminatedSpan> {
        let mut spans = Vec::new();
        let (mut places, mut words) = (Vec::new(), Vec::new());
        for (number, turn) in turns.iter().enumerate() {
            places.clear();
            words.clear();
            each_word(&turn.text, |word| {
                places.push(word);
                words.push(word.hash);
            });
            self.spans_of(number, &places, &words, &mut spans);
        }
        spans
    }

    fn spans_of(
        &self,
        turn: usize,
        places: &[Word],
        words: &[u64],
        spans: &mut Vec<ContaminatedSpan>,
    ) {
        let mut at = 0;
        while at < words.len() {
            let Some((text, length)) = self.longest(words, at) else {
                at += 1;
                continue;
            };
            let end = at + length;
            let text_words = self.texts.get(text as usize);
            if let (Some(first), Some(last), Some(text)) =
                (places.get(at), places.get(end - 1), text_words)
            {
                spans.push(ContaminatedSpan {
                    turn,
                    start: first.start,
                    end: last.end,
                    words: length,
                    benchmark: text.row,
                    benchmark_words: text.end - text.start,
                });
            }
            at = end;
        }
    }

    /// Returns the text with the longest common run from `at` on, and its length.
    fn longest(&self, words: &[u64], at: usize) -> Option<(u32, usize)> {
        let mut best: Option<(u32, usize)> = None;
        for length in self.lengths() {
            let Some(run) = words.get(at..at + length) else {
                break;
            };
            for (text, start) in self.places(run) {
                let end = self.texts.get(text as usize).map_or(0, |text| text.end);
                let others = self.words.get(start + length..end).unwrap_or_default();
                let own = words.get(at + length..).unwrap_or_default();
                let more = own.iter().zip(others).take_while(|(a, b)| a == b).count();
                let length = length + more;
                if best.is_none_or(|(_, longest)| length > longest) {
                    best = Some((text, length));
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::BenchmarkIndex;
    use crate::contamination::{BenchmarkRow, benchmark_texts};
    use crate::row_turns::RowTurn;

    const QUESTION: &str = "A ferry leaves the harbour at noon and sails twelve miles each hour. \
        How far is it from the harbour at a quarter to four?";

    fn index(lines: &[&str], run: usize) -> BenchmarkIndex {
        let mut index = BenchmarkIndex::new(run);
        for (line, text) in (1..).zip(lines) {
            let texts = benchmark_texts(text.as_bytes());
            index.add(BenchmarkRow { file: 0, line }, &texts);
        }
        index.finished()
    }

    fn found(index: &BenchmarkIndex, text: &str) -> Vec<(u64, String, usize)> {
        let turn = RowTurn {
            speaker: "user".into(),
            text: text.into(),
        };
        let spans = index.spans(&[turn]);
        let of = |span: &super::ContaminatedSpan| {
            let words = text.get(span.start..span.end).unwrap_or_default();
            (span.benchmark.line, words.to_owned(), span.words)
        };
        spans.iter().map(of).collect()
    }

    #[test]
    fn spans_are_as_long_as_the_common_words() {
        let row = serde_json::json!({"question": QUESTION, "answer": "45 miles"}).to_string();
        let index = index(
            &[
                "An unrelated line of text that has its own words and no others",
                &row,
            ],
            13,
        );
        let text = format!(
            "Please solve this: {}",
            QUESTION.to_uppercase().replace(' ', "\n")
        );
        let spans = found(&index, &text);
        assert_eq!(spans.len(), 1, "{spans:?}");
        assert_eq!((spans[0].0, spans[0].2), (2, 25));
        assert!(spans[0].1.starts_with("A\nFERRY") && spans[0].1.ends_with("FOUR"));
    }

    #[test]
    fn shorter_runs_are_no_findings() {
        let index = index(&[QUESTION], 13);
        let words: Vec<&str> = QUESTION.split(' ').collect();
        assert!(found(&index, &words[..12].join(" ")).is_empty());
        assert_eq!(found(&index, &words[..13].join(" ")).len(), 1);
    }

    #[test]
    fn short_rows_are_found_as_a_whole() {
        let short = "which planet of the sun has the most moons";
        let index = index(&[short, "too short"], 13);
        assert_eq!(index.too_short(), 1);
        let spans = found(&index, &format!("Question: {short}?"));
        assert_eq!(spans, [(1, short.to_owned(), 9)]);
        assert!(found(&index, "which planet of the sun has the most rings").is_empty());
    }

    #[test]
    fn runs_do_not_cross_messages() {
        let index = index(&[QUESTION], 13);
        let (first, second) = QUESTION.split_at(60);
        let turn = |text: &'static str| RowTurn {
            speaker: "user".into(),
            text: text.into(),
        };
        assert!(index.spans(&[turn(first), turn(&second[..50])]).is_empty());
    }
}
