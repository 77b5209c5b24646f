//! Request ids: kept as the peer wrote them, so that they go back unchanged.

use std::fmt;
use tieline_json::{Error, Kind, Reader};

/// The id of a request. Integers of any size, strings, `null` and fractions all survive unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// The common case: an integer in its plain form.
    Int(i64),
    /// Anything else, as JSON text.
    Text(Box<str>),
}

/// Which ids a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdRule {
    /// Integers, strings, `null` and fractions.
    #[default]
    Liberal,
    /// Integers and strings only.
    Exact,
}

impl Id {
    /// Reads an id: a number, a string or `null`.
    pub fn read(json: &mut Reader<'_>) -> Result<Self, Error> {
        match json.peek()? {
            Kind::Number => Ok(Self::of(json.number()?)),
            Kind::String | Kind::Null => Ok(Self::Text(json.raw()?.into())),
            _ => {
                json.skip()?;
                Err(Error::data("an id is a number or a string").inside("id"))
            }
        }
    }

    /// Takes a number as text; only text that `i64` would print the same way becomes an integer.
    fn of(text: &str) -> Self {
        match text.parse::<i64>() {
            Ok(number) if text != "-0" => Self::Int(number),
            _ => Self::Text(text.into()),
        }
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Text(text) if &**text == "null")
    }

    /// True if `rule` lets a request have this id.
    pub fn allowed(&self, rule: IdRule) -> bool {
        match (rule, self) {
            (IdRule::Liberal, _) | (_, Self::Int(_)) => true,
            (IdRule::Exact, Self::Text(text)) => text.starts_with('"') || is_integral(text),
        }
    }

    /// Appends the id as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => tieline_json::write_i64(out, *number),
            Self::Text(text) => tieline_json::write_raw(out, text),
        }
    }
}

/// True for number text without a fraction: `12345678901234567890`, `1.0`, `1e3`.
fn is_integral(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            // What does not fit is as good as endless, in its own direction.
            let endless = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
            (mantissa, exponent.parse::<i64>().unwrap_or(endless))
        }
        None => (text, 0),
    };
    if !mantissa.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return false;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let shift = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let zeros = i64::try_from(whole.len() - whole.trim_end_matches('0').len()).unwrap_or(0);
    let digits_all_zero = whole.trim_start_matches('-').trim_matches('0').is_empty() && fraction.is_empty();
    digits_all_zero
        || exponent >= shift
        || (fraction.is_empty() && exponent.checked_neg().is_some_and(|shift| shift > 0 && zeros >= shift))
}

impl From<u64> for Id {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Self::Text(number.to_string().into()), Self::Int)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_back_as_they_came() {
        for (text, exact) in [
            ("1", true),
            ("-7", true),
            ("0", true),
            ("-0", true),
            ("9007199254740993", true),
            ("123456789012345678901234567890", true),
            ("\"\"", true),
            ("\"1\"", true),
            ("\"a\\u0041\"", true),
            ("null", false),
            ("1.5", false),
            ("1.0", true),
            ("1e3", true),
            ("1.25e2", true),
            ("1.25e1", false),
            ("10e-1", true),
            ("1e-1", false),
            ("0.0", true),
            ("1e-9223372036854775808", false),
            ("1e-99999999999999999999", false),
            ("1e99999999999999999999", true),
        ] {
            let id = Id::read(&mut Reader::new(text)).unwrap();
            let mut out = Vec::new();
            id.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text, "TR-ENV-05");
            assert_eq!(id.allowed(IdRule::Exact), exact, "{text}");
            assert!(id.allowed(IdRule::Liberal));
        }
        for text in ["true", "[]", "{}"] {
            assert!(Id::read(&mut Reader::new(text)).is_err());
        }
    }
}
