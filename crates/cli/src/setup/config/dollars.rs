//! Amounts of money in settings.

use std::str::FromStr;

use serde::Deserialize;

/// A non-negative amount of money in US dollars.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Dollars(pub(crate) f64);

impl TryFrom<f64> for Dollars {
    type Error = String;

    fn try_from(amount: f64) -> Result<Self, String> {
        if amount.is_finite() && amount >= 0.0 {
            return Ok(Self(amount));
        }
        Err(format!(
            "invalid amount of US dollars: {amount} (expected 0 or more)"
        ))
    }
}

impl FromStr for Dollars {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse::<f64>();
        let amount = number.map_err(|_| "expected a number such as 2.50".to_owned())?;
        Self::try_from(amount)
    }
}
