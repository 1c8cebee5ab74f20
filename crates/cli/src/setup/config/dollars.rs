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
        Err(format!("invalid amount of US dollars: {amount}"))
    }
}

impl FromStr for Dollars {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let amount = text.parse::<f64>().map_err(|error| error.to_string())?;
        Self::try_from(amount)
    }
}
