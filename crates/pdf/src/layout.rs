//! Lines and words from the positions of glyphs.

use crate::matrix::Matrix;

/// A shorter distance between glyphs, in ems, is kerning.
const WORD_GAP: f64 = 0.18;
/// A longer step across the line, in ems, begins a line.
const LINE_STEP: f64 = 0.45;
/// A longer step down, in ems, begins a paragraph.
const PARAGRAPH_STEP: f64 = 1.9;

/// The end of the text that was shown last.
#[derive(Clone, Copy, Debug)]
struct End {
    x: f64,
    y: f64,
    /// The direction of the text, of length 1.
    along: (f64, f64),
    size: f64,
}

/// Collects the text of a page.
#[derive(Debug, Default)]
pub(crate) struct PageLayout {
    text: String,
    end: Option<End>,
}

impl PageLayout {
    /// Appends a text from the origin of `start` to the origin of `stop`.
    pub(crate) fn show(&mut self, text: &str, start: Matrix, stop: Matrix) {
        if text.is_empty() {
            return;
        }
        let length = start.a.hypot(start.b);
        let size = start.c.hypot(start.d);
        if !(length.is_finite() && size.is_finite()) || length == 0.0 || size == 0.0 {
            // Glyphs of no size have text, but no place.
            self.text.push_str(text);
            return;
        }
        let along = (start.a / length, start.b / length);
        if let Some(end) = self.end {
            self.separate(end, start, along, size, text);
        }
        self.text.push_str(text);
        self.end = Some(End {
            x: stop.e,
            y: stop.f,
            along,
            size,
        });
    }

    /// Writes the white space between the last text and the next one.
    fn separate(&mut self, end: End, start: Matrix, along: (f64, f64), size: f64, next: &str) {
        let (dx, dy) = (start.e - end.x, start.f - end.y);
        let gap = dx * along.0 + dy * along.1;
        let step = dy * along.0 - dx * along.1;
        let size = size.max(end.size);
        let turned = along.0 * end.along.0 + along.1 * end.along.1 < 0.7;
        let is_line = turned || step.abs() > LINE_STEP * size;
        if is_line {
            self.trim_line();
            let is_paragraph = turned || step < -PARAGRAPH_STEP * size || step > 2.0 * size;
            if is_paragraph && !self.text.ends_with("\n\n") {
                self.text.push('\n');
            }
            if !self.text.ends_with("\n\n") {
                self.text.push('\n');
            }
            return;
        }
        let has_space = self.text.ends_with(char::is_whitespace);
        let has_space = has_space || next.starts_with(char::is_whitespace);
        // A step back on the line is an accent or another column.
        if !has_space && (gap > WORD_GAP * size || gap < -2.0 * size) {
            self.text.push(' ');
        }
    }

    fn trim_line(&mut self) {
        let end = self.text.trim_end_matches([' ', '\t', '\u{a0}']).len();
        self.text.truncate(end);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the text without white space at its ends.
    pub(crate) fn into_text(self) -> String {
        self.text.trim().to_owned()
    }
}
