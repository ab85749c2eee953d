//! Whole numbers in bodies: `4.0` is one, too, as JSON knows no integers (JSON Schema, "integer").

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// 2^64.
const BEYOND: f64 = 18_446_744_073_709_551_616.0;

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Whole(u64),
    Fraction(f64),
}

/// A whole number.
pub fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    match Given::deserialize(from).map_err(|_| D::Error::custom("a whole number is expected"))? {
        Given::Whole(number) => Ok(number),
        Given::Fraction(number) if number.fract() == 0.0 && (0.0..BEYOND).contains(&number) => Ok(number as u64),
        Given::Fraction(_) => Err(D::Error::custom("a whole number is expected")),
    }
}

/// A whole number or null.
pub fn whole_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Number(#[serde(deserialize_with = "whole")] u64);
    Ok(Option::<Number>::deserialize(from)?.map(|number| number.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Body {
        #[serde(default, deserialize_with = "whole_or_none")]
        number: Option<u64>,
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
        let read = |text: &str| serde_json::from_str::<Body>(text).map(|body| body.number).map_err(drop);
        for (text, want) in [
            ("{}", Ok(None)),
            (r#"{"number": null}"#, Ok(None)),
            (r#"{"number": 0}"#, Ok(Some(0))),
            (r#"{"number": 15378520445947.0}"#, Ok(Some(15_378_520_445_947))),
            (r#"{"number": 18446744073709551615}"#, Ok(Some(u64::MAX))),
            (r#"{"number": 18446744073709551616}"#, Err(())),
            (r#"{"number": 1.5}"#, Err(())),
            (r#"{"number": -1}"#, Err(())),
            (r#"{"number": "1"}"#, Err(())),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
    }
}
