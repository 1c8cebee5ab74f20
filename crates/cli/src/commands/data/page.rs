//! The page of a data set: one file with plots, without scripts or outside assets.

use logue_data::examine::Histogram;

use crate::commands::data::check::{distributions, times};
use crate::commands::data::examine::Examination;
use crate::commands::data::report::{file_name, first};

/// The bars of a plot.
const BARS: u64 = 40;
/// The size of a plot in pixels.
const SIZE: (u64, u64) = (520, 160);
/// The names that a list shows.
const SHOWN: usize = 25;

const STYLE: &str = "\
:root{color-scheme:light dark;--bar:#3b6ea5;--line:#8884;--muted:#777}\
@media(prefers-color-scheme:dark){:root{--bar:#7fb2e5;--muted:#999}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:1200px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:0 0 .3rem}\
.cards{display:flex;flex-wrap:wrap;gap:1rem;margin:1rem 0}\
.card{border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;min-width:0;max-width:100%}\
.number{font-size:1.6rem;font-weight:600}.muted{color:var(--muted);font-size:.85rem}\
svg{display:block;max-width:100%;height:auto}rect{fill:var(--bar)}\
text{fill:currentColor;font:11px system-ui,sans-serif}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top;overflow-wrap:anywhere}\
td.n,th.n{text-align:right;white-space:nowrap}\
.share{background:linear-gradient(to right,color-mix(in srgb,var(--bar) 30%,transparent) var(--w),transparent var(--w))}";

/// Returns the page as HTML.
pub(super) fn page(examination: &Examination) -> String {
    let names: Vec<String> = (0..examination.names.len())
        .map(|file| file_name(&examination.names, u32::try_from(file).unwrap_or(u32::MAX)))
        .collect();
    let title = escape(&names.join(", "));
    let (tally, measures) = (&examination.tally, &examination.measures);
    let trained = measures.assistant_tokens.sum() * 100 / measures.tokens.sum().max(1);
    let warnings: u64 = tally.found.values().map(times).sum();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style>\n<h1>{title}</h1>\n<div class=\"cards\">\n"
    );
    for (name, number) in [
        ("rows", grouped(tally.rows)),
        ("rows with errors", grouped(tally.refusals())),
        ("warnings", grouped(warnings)),
        ("exact duplicates", grouped(examination.duplicates)),
        ("tokens", grouped(measures.tokens.sum())),
        ("tokens of the assistant", format!("{trained} %")),
    ] {
        html.push_str(&format!(
            "<div class=\"card\"><div class=\"number\">{number}</div><div class=\"muted\">{name}</div></div>\n"
        ));
    }
    html.push_str("</div>\n");
    html.push_str(&findings(examination));
    html.push_str("<div class=\"cards\">\n");
    let is_drawn = |(_, histogram): &(&str, &Histogram)| histogram.max() > 0;
    for (name, histogram) in distributions(examination).into_iter().filter(is_drawn) {
        html.push_str(&plot(name, histogram));
    }
    html.push_str("</div>\n<div class=\"cards\">\n");
    for (title, counts) in [
        ("Roles", &measures.messages),
        ("Calls of tools", &measures.calls),
        ("Forms of rows", &measures.forms),
        ("Losses in reading", &measures.losses),
    ] {
        let counts = counts.iter().map(|(name, count)| (name.clone(), *count));
        html.push_str(&list(title, counts.collect()));
    }
    html.push_str("</div>\n");
    html.push_str(&groups(examination));
    html
}

/// Returns the table of findings by code.
fn findings(examination: &Examination) -> String {
    let tally = &examination.tally;
    if tally.refused.is_empty() && tally.found.is_empty() {
        return "<p>No findings.</p>\n".to_owned();
    }
    let mut html = String::from(
        "<h2>Findings</h2>\n<table><tr><th>code<th class=\"n\">findings<th class=\"n\">rows<th>first</tr>\n",
    );
    for (code, count) in tally.refused.iter().chain(&tally.found) {
        let first = first(&examination.names, count);
        let first = escape(first.trim_start_matches(", first "));
        html.push_str(&format!(
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td>{first}</tr>\n",
            escape(code),
            grouped(times(count)),
            grouped(count.rows),
        ));
    }
    html.push_str("</table>\n");
    html
}

/// Returns a distribution as bars with an axis.
fn plot(name: &str, histogram: &Histogram) -> String {
    let bars = histogram.bars(BARS);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let (width, height) = SIZE;
    let step = width / (bars.len() as u64).max(1);
    let mut html = format!(
        "<div class=\"card\"><h2>{name} in a row</h2><div class=\"muted\">p50 {}, p90 {}, p99 {}, max {}</div>\
         <svg viewBox=\"0 0 {width} {}\" width=\"{width}\" role=\"img\" aria-label=\"distribution of {name}\">",
        grouped(histogram.percentile(50)),
        grouped(histogram.percentile(90)),
        grouped(histogram.percentile(99)),
        grouped(histogram.max()),
        height + 20,
    );
    for (index, bar) in bars.iter().enumerate() {
        // A bar with at least one row can be seen.
        let tall = (bar.count * height).div_ceil(most);
        html.push_str(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{tall}\"><title>{} to {}: {} rows</title></rect>",
            index as u64 * step,
            height - tall,
            step.saturating_sub(2).max(1),
            grouped(bar.from),
            grouped(bar.to),
            grouped(bar.count),
        ));
    }
    html.push_str(&format!(
        "<text x=\"0\" y=\"{0}\">0</text><text x=\"{width}\" y=\"{0}\" text-anchor=\"end\">{1}</text></svg></div>\n",
        height + 15,
        grouped(histogram.max()),
    ));
    html
}

/// Returns a list of names with the share of each.
fn list(title: &str, mut counts: Vec<(String, u64)>) -> String {
    if counts.is_empty() {
        return String::new();
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most = counts.first().map_or(1, |(_, count)| *count).max(1);
    let mut html = format!("<div class=\"card\"><h2>{title}</h2><table>\n");
    for (name, count) in counts.iter().take(SHOWN) {
        let share = count * 100 / most;
        html.push_str(&format!(
            "<tr><td class=\"share\" style=\"--w:{share}%\">{}<td class=\"n\">{}</tr>\n",
            escape(name),
            grouped(*count)
        ));
    }
    html.push_str("</table>");
    if counts.len() > SHOWN {
        let more = counts.len() - SHOWN;
        html.push_str(&format!("<div class=\"muted\">and {more} more</div>"));
    }
    html.push_str("</div>\n");
    html
}

/// Returns the table of groups.
fn groups(examination: &Examination) -> String {
    if examination.groups.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>Groups</h2>\n<table><tr><th>group<th class=\"n\">rows<th class=\"n\">with errors<th class=\"n\">with warnings<th class=\"n\">tokens</tr>\n",
    );
    for (name, group) in &examination.groups {
        html.push_str(&format!(
            "<tr><td>{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}</tr>\n",
            escape(name),
            grouped(group.rows),
            grouped(group.rows_with_errors),
            grouped(group.rows_with_warnings),
            grouped(group.tokens),
        ));
    }
    html.push_str("</table>\n");
    html
}

/// Returns a number with a space between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a text of the data set for HTML.
fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            character if character.is_control() => html.push('\u{fffd}'),
            character => html.push(character),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::{escape, grouped};

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn text_of_a_data_set_is_not_markup() {
        assert_eq!(
            escape("<b title=\"x\">&"),
            "&lt;b title=&quot;x&quot;&gt;&amp;"
        );
    }
}
