//! Finding lines in a file.
//!
//! Models copy lines with small mistakes in white space, so lines are compared exactly first, then
//! without the white space behind them, then without that around them. Each comparison of a whole
//! file is one pass (Knuth, Morris and Pratt), and what all passes of one patch may cost is bounded.

/// How lines are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchMode {
    /// Byte by byte.
    Exact,
    /// Without white space at the end.
    Ends,
    /// Without white space at either end.
    Around,
}

pub(super) const MATCH_MODES: [MatchMode; 3] =
    [MatchMode::Exact, MatchMode::Ends, MatchMode::Around];

impl MatchMode {
    /// What of a line is compared. It has no line break.
    pub(super) fn of(self, line: &str) -> &str {
        match self {
            Self::Exact => line,
            Self::Ends => line.trim_end(),
            Self::Around => line.trim(),
        }
    }
}

/// What the comparisons of one patch may cost, in lines of usual length.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(50_000_000)
    }
}

/// The patch compares more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

impl Budget {
    /// Pays for reading a text once.
    pub(super) fn pay_for_all(&mut self, text: &str) -> Result<(), Spent> {
        self.0 = self.0.checked_sub(1 + text.len() / 4).ok_or(Spent)?;
        Ok(())
    }

    /// Pays for looking at a line.
    pub(super) fn pay(&mut self, line: &str) -> Result<(), Spent> {
        // Long lines that are nearly equal cost more.
        self.0 = self.0.checked_sub(1 + line.len() / 64).ok_or(Spent)?;
        Ok(())
    }
}

/// Where lines were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MatchLocation {
    /// The first line of the first place that has all of them.
    pub(super) at: Option<usize>,
    /// How many of the lines, from the first one on, some place has.
    pub(super) most: usize,
    /// That place.
    pub(super) most_at: usize,
}

/// Finds `pattern` among `lines`, not before `from`. Linear in both.
///
/// # Errors
/// The budget is spent.
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

/// For each prefix of the pattern the length of the longest shorter prefix that it ends with.
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
