//! Search for a sequence of lines in a file.
//!
//! Models copy lines with small mistakes in white space. Lines are therefore compared exactly
//! first, then without trailing white space, then without white space at either end. Each
//! comparison of a complete file is one pass (Knuth, Morris and Pratt), and the total cost of the
//! passes of one patch is bounded.

/// The comparison of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchMode {
    /// Byte by byte.
    Exact,
    /// Without trailing white space.
    Ends,
    /// Without white space at either end.
    Around,
}

pub(super) const MATCH_MODES: [MatchMode; 3] =
    [MatchMode::Exact, MatchMode::Ends, MatchMode::Around];

impl MatchMode {
    /// Returns the compared part of a line without a line break.
    pub(super) fn of(self, line: &str) -> &str {
        match self {
            Self::Exact => line,
            Self::Ends => line.trim_end(),
            Self::Around => line.trim(),
        }
    }
}

/// The remaining cost of comparisons in one patch, in lines of usual length.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(50_000_000)
    }
}

/// The error for an exhausted budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

impl Budget {
    /// Charges one pass over a text.
    pub(super) fn pay_for_all(&mut self, text: &str) -> Result<(), Spent> {
        self.0 = self.0.checked_sub(1 + text.len() / 4).ok_or(Spent)?;
        Ok(())
    }

    /// Charges the comparison of one line.
    pub(super) fn pay(&mut self, line: &str) -> Result<(), Spent> {
        // Long lines that are nearly equal cost more.
        self.0 = self.0.checked_sub(1 + line.len() / 64).ok_or(Spent)?;
        Ok(())
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MatchLocation {
    /// The first line of the first complete match.
    pub(super) at: Option<usize>,
    /// The length of the longest partial match, from the first line.
    pub(super) most: usize,
    /// The first line of that partial match.
    pub(super) most_at: usize,
}

/// Finds `pattern` in `lines`, at or after `from`. Linear in both.
///
/// # Errors
/// Returns [`Spent`] if the budget is exhausted.
pub(super) fn seek(
    lines: &[&str],
    from: usize,
    pattern: &[&str],
    budget: &mut Budget,
) -> Result<MatchLocation, Spent> {
    let mut sought = MatchLocation::default();
    if pattern.is_empty() {
        sought.at = Some(from);
        return Ok(sought);
    }
    let borders = borders(pattern, budget)?;
    let mut matched = 0;
    for (number, line) in lines.iter().enumerate().skip(from) {
        budget.pay(line)?;
        while matched > 0 && pattern.get(matched) != Some(line) {
            budget.pay(line)?;
            matched = borders[matched - 1];
        }
        if pattern.get(matched) == Some(line) {
            matched += 1;
        }
        if matched > sought.most {
            (sought.most, sought.most_at) = (matched, number + 1 - matched);
        }
        if matched == pattern.len() {
            sought.at = Some(number + 1 - matched);
            break;
        }
    }
    Ok(sought)
}

/// Returns, for each prefix of the pattern, the length of its longest proper border.
fn borders(pattern: &[&str], budget: &mut Budget) -> Result<Vec<usize>, Spent> {
    let mut borders = Vec::with_capacity(pattern.len());
    let mut length = 0;
    for (at, line) in pattern.iter().enumerate() {
        budget.pay(line)?;
        while length > 0 && pattern[length] != *line {
            budget.pay(line)?;
            length = borders[length - 1];
        }
        if at > 0 && pattern[length] == *line {
            length += 1;
        }
        borders.push(length);
    }
    Ok(borders)
}
