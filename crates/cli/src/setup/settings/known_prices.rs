//! Prices of well-known models of OpenAI and Anthropic.
//!
//! The numbers are facts that litellm 1.109.1 lists (`model_prices_and_context_window_backup.json`, read on
//! 2026-11-23): US dollars per million tokens of requests, responses and cached requests. Higher rates for
//! long requests, batches and written caches are not part of it. Prices of the settings take precedence.

use logue_agent::Price;

/// The name of a model, and its prices of requests, responses and cached requests.
type Row = (&'static str, f64, f64, Option<f64>);

/// Returns the models with their prices.
pub(super) fn known_prices() -> impl Iterator<Item = (String, Price)> {
    let price = |(model, input, output, cached): &Row| {
        let price = Price::new(*input, *output).with_cached_input(*cached);
        ((*model).to_owned(), price)
    };
    PRICES.iter().map(price)
}

const PRICES: &[Row] = &[
    ("claude-fable-5", 10.0, 50.0, Some(1.0)),
    ("claude-fable-5-1", 10.0, 50.0, Some(0.25)),
    ("claude-haiku-4-5", 1.0, 5.0, Some(0.1)),
    ("claude-haiku-4-5-20251001", 1.0, 5.0, Some(0.1)),
    ("claude-haiku-5-5", 0.1, 0.5, Some(0.01)),
    ("claude-mythos-5", 10.0, 50.0, Some(1.0)),
    ("claude-mythos-5-1", 10.0, 50.0, Some(0.25)),
    ("claude-opus-4-5", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-5-20251101", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-6", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-6-20260205", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-7", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-7-20260416", 5.0, 25.0, Some(0.5)),
    ("claude-opus-4-8", 5.0, 25.0, Some(0.5)),
    ("claude-opus-5", 5.0, 25.0, Some(0.5)),
    ("claude-opus-5-5", 4.0, 20.0, Some(0.2)),
    ("claude-sonnet-4-5", 3.0, 15.0, Some(0.3)),
    ("claude-sonnet-4-5-20250929", 3.0, 15.0, Some(0.3)),
    ("claude-sonnet-4-6", 3.0, 15.0, Some(0.3)),
    ("claude-sonnet-5", 2.0, 10.0, Some(0.2)),
    ("claude-sonnet-5-5", 2.0, 10.0, Some(0.1)),
    ("gpt-3.5-turbo", 0.5, 1.5, None),
    ("gpt-3.5-turbo-0125", 0.5, 1.5, None),
    ("gpt-3.5-turbo-1106", 1.0, 2.0, None),
    ("gpt-3.5-turbo-16k", 3.0, 4.0, None),
    ("gpt-4", 30.0, 60.0, None),
    ("gpt-4-0613", 30.0, 60.0, None),
    ("gpt-4-turbo", 10.0, 30.0, None),
    ("gpt-4-turbo-2024-04-09", 10.0, 30.0, None),
    ("gpt-4.1", 2.0, 8.0, Some(0.5)),
    ("gpt-4.1-2025-04-14", 2.0, 8.0, Some(0.5)),
    ("gpt-4.1-mini", 0.4, 1.6, Some(0.1)),
    ("gpt-4.1-mini-2025-04-14", 0.4, 1.6, Some(0.1)),
    ("gpt-4.1-nano", 0.1, 0.4, Some(0.025)),
    ("gpt-4.1-nano-2025-04-14", 0.1, 0.4, Some(0.025)),
    ("gpt-4o", 2.5, 10.0, Some(1.25)),
    ("gpt-4o-2024-05-13", 5.0, 15.0, None),
    ("gpt-4o-2024-08-06", 2.5, 10.0, Some(1.25)),
    ("gpt-4o-2024-11-20", 2.5, 10.0, Some(1.25)),
    ("gpt-4o-mini", 0.15, 0.6, Some(0.075)),
    ("gpt-4o-mini-2024-07-18", 0.15, 0.6, Some(0.075)),
    ("gpt-5", 1.25, 10.0, Some(0.125)),
    ("gpt-5-2025-08-07", 1.25, 10.0, Some(0.125)),
    ("gpt-5-chat", 1.25, 10.0, Some(0.125)),
    ("gpt-5-chat-latest", 1.25, 10.0, Some(0.125)),
    ("gpt-5-codex", 1.25, 10.0, Some(0.125)),
    ("gpt-5-mini", 0.25, 2.0, Some(0.025)),
    ("gpt-5-mini-2025-08-07", 0.25, 2.0, Some(0.025)),
    ("gpt-5-nano", 0.05, 0.4, Some(0.005)),
    ("gpt-5-nano-2025-08-07", 0.05, 0.4, Some(0.005)),
    ("gpt-5-pro", 15.0, 120.0, None),
    ("gpt-5-pro-2025-10-06", 15.0, 120.0, None),
    ("gpt-5.1", 1.25, 10.0, Some(0.125)),
    ("gpt-5.1-2025-11-13", 1.25, 10.0, Some(0.125)),
    ("gpt-5.1-chat-latest", 1.25, 10.0, Some(0.125)),
    ("gpt-5.1-codex", 1.25, 10.0, Some(0.125)),
    ("gpt-5.1-codex-max", 1.25, 10.0, Some(0.125)),
    ("gpt-5.1-codex-mini", 0.25, 2.0, Some(0.025)),
    ("gpt-5.2", 1.75, 14.0, Some(0.175)),
    ("gpt-5.2-2025-12-11", 1.75, 14.0, Some(0.175)),
    ("gpt-5.2-chat-latest", 1.75, 14.0, Some(0.175)),
    ("gpt-5.2-codex", 1.75, 14.0, Some(0.175)),
    ("gpt-5.2-pro", 21.0, 168.0, None),
    ("gpt-5.2-pro-2025-12-11", 21.0, 168.0, None),
    ("gpt-5.3-chat-latest", 1.75, 14.0, Some(0.175)),
    ("gpt-5.3-codex", 1.75, 14.0, Some(0.175)),
    ("gpt-5.4", 2.5, 15.0, Some(0.25)),
    ("gpt-5.4-2026-03-05", 2.5, 15.0, Some(0.25)),
    ("gpt-5.4-mini", 0.75, 4.5, Some(0.075)),
    ("gpt-5.4-mini-2026-03-17", 0.75, 4.5, Some(0.075)),
    ("gpt-5.4-nano", 0.2, 1.25, Some(0.02)),
    ("gpt-5.4-nano-2026-03-17", 0.2, 1.25, Some(0.02)),
    ("gpt-5.4-pro", 30.0, 180.0, None),
    ("gpt-5.4-pro-2026-03-05", 30.0, 180.0, None),
    ("gpt-5.5", 5.0, 30.0, Some(0.5)),
    ("gpt-5.5-2026-04-23", 5.0, 30.0, Some(0.5)),
    ("gpt-5.5-pro", 30.0, 180.0, None),
    ("gpt-5.5-pro-2026-04-23", 30.0, 180.0, None),
    ("gpt-5.6", 4.0, 20.0, Some(0.4)),
    ("gpt-5.6-luna", 0.2, 1.2, Some(0.02)),
    ("gpt-5.6-sol", 4.0, 20.0, Some(0.4)),
    ("gpt-5.6-terra", 2.0, 12.0, Some(0.2)),
    ("gpt-6-astra", 10.0, 50.0, Some(1.0)),
    ("gpt-6-luna", 0.1, 0.5, Some(0.01)),
    ("gpt-6-sol", 2.0, 10.0, Some(0.2)),
    ("gpt-6.1-sol", 2.0, 10.0, Some(0.1)),
    ("gpt-6.1-terra", 1.0, 5.0, Some(0.05)),
    ("o1", 15.0, 60.0, Some(7.5)),
    ("o1-2024-12-17", 15.0, 60.0, Some(7.5)),
    ("o1-pro", 150.0, 600.0, None),
    ("o1-pro-2025-03-19", 150.0, 600.0, None),
    ("o3", 2.0, 8.0, Some(0.5)),
    ("o3-2025-04-16", 2.0, 8.0, Some(0.5)),
    ("o3-mini", 1.1, 4.4, Some(0.55)),
    ("o3-mini-2025-01-31", 1.1, 4.4, Some(0.55)),
    ("o3-pro", 20.0, 80.0, None),
    ("o3-pro-2025-06-10", 20.0, 80.0, None),
    ("o4-mini", 1.1, 4.4, Some(0.275)),
    ("o4-mini-2025-04-16", 1.1, 4.4, Some(0.275)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_cached_requests_cost_less() {
        for pair in PRICES.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{}", pair[1].0);
        }
        for (model, input, output, cached) in PRICES {
            assert!(*input > 0.0 && output > input, "{model}");
            assert!(
                cached.is_none_or(|cached| cached > 0.0 && cached < *input),
                "{model}"
            );
        }
    }
}
