//! Masked rows as JSON.

use serde_json::Value;

use super::dispatch::Masked;

/// The label of a token that is not trained.
const UNTRAINED: &str = "-100";

/// The columns of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "a set of columns")]
pub struct Columns {
    /// `input_ids`.
    pub input_ids: bool,
    /// `labels`: the ids, and -100 for tokens that are not trained.
    pub labels: bool,
    /// `attention_mask`: 1 for each token.
    pub attention_mask: bool,
    /// `assistant_masks`: 1 for each trained token, else 0.
    pub assistant_masks: bool,
    /// `text`.
    pub text: bool,
    /// `spans`: the start and end in bytes of `text`, the class, the message and the mask.
    pub spans: bool,
}

impl Columns {
    /// No column.
    pub const NONE: Self = Self {
        input_ids: false,
        labels: false,
        attention_mask: false,
        assistant_masks: false,
        text: false,
        spans: false,
    };

    /// Adds a column by its name; returns whether the name is known.
    pub fn add(&mut self, name: &str) -> bool {
        let field = match name {
            "input_ids" => &mut self.input_ids,
            "labels" => &mut self.labels,
            "attention_mask" => &mut self.attention_mask,
            "assistant_masks" => &mut self.assistant_masks,
            "text" => &mut self.text,
            "spans" => &mut self.spans,
            _ => return false,
        };
        *field = true;
        true
    }
}

impl Default for Columns {
    /// The four columns of tokens.
    fn default() -> Self {
        Self {
            input_ids: true,
            labels: true,
            attention_mask: true,
            assistant_masks: true,
            ..Self::NONE
        }
    }
}

/// Appends a masked row as one JSON object, with a line end.
pub fn write_masked(masked: Masked<'_>, columns: Columns, out: &mut Vec<u8>) {
    let mut open = b'{';
    if columns.input_ids {
        key(out, &mut open, "input_ids");
        for &id in masked.ids {
            number(out, id);
            out.push(b',');
        }
        close(out);
    }
    if columns.labels {
        key(out, &mut open, "labels");
        for (&id, &trained) in masked.ids.iter().zip(masked.trained) {
            if trained {
                number(out, id);
            } else {
                out.extend_from_slice(UNTRAINED.as_bytes());
            }
            out.push(b',');
        }
        close(out);
    }
    if columns.attention_mask {
        key(out, &mut open, "attention_mask");
        for _ in masked.ids {
            out.extend_from_slice(b"1,");
        }
        close(out);
    }
    if columns.assistant_masks {
        key(out, &mut open, "assistant_masks");
        for &trained in masked.trained {
            out.extend_from_slice(if trained { b"1," } else { b"0," });
        }
        close(out);
    }
    if columns.text {
        out.push(open);
        open = b',';
        out.extend_from_slice(b"\"text\":");
        out.extend_from_slice(Value::from(masked.text).to_string().as_bytes());
    }
    if columns.spans {
        key(out, &mut open, "spans");
        for span in masked.spans {
            let text = format!(
                "{{\"start\":{},\"end\":{},\"class\":\"{}\",\"message\":{},\"trained\":{}}},",
                span.start,
                span.end,
                span.class.as_str(),
                span.message,
                span.trained
            );
            out.extend_from_slice(text.as_bytes());
        }
        close(out);
    }
    if open == b'{' {
        out.push(open);
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a key and the beginning of its list.
fn key(out: &mut Vec<u8>, open: &mut u8, name: &str) {
    out.push(*open);
    *open = b',';
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":[");
}

/// Ends a list, whose last comma is replaced.
fn close(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b']');
}

/// Appends a number in decimal.
fn number(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut first = digits.len();
    loop {
        first -= 1;
        if let Some(digit) = digits.get_mut(first) {
            *digit = b'0' + (number % 10) as u8;
        }
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}
