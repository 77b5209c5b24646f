//! Whether what was filled in is what the form asks for; and typed text turned into values.

use super::choices;
use crate::sanitize;
use std::collections::BTreeMap;
use std::fmt;
use tieline::schema::{ElicitValue, FormField, FormSchema, TextField, TextFormat};

/// No pattern of an agent may take more memory than this.
const PATTERN_SIZE: usize = 1 << 20;

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field.
    pub field: String,
    /// What is wrong, in words.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", sanitize::exact_line(&self.field), self.why)
    }
}

/// Everything that is wrong with what was filled in.
pub fn check(schema: &FormSchema, values: &BTreeMap<String, ElicitValue>) -> Vec<Problem> {
    let problem = |field: &str, why: String| Problem { field: field.to_owned(), why };
    let missing = schema.required.iter().filter(|name| !values.contains_key(*name));
    let mut problems: Vec<_> = missing.map(|name| problem(name, "it must be filled in".into())).collect();
    for (name, given) in values {
        match schema.field(name) {
            Some(field) => problems.extend(value(field, given).err().map(|why| problem(name, why))),
            None => problems.push(problem(name, "the form has no such field".into())),
        }
    }
    problems
}

/// The value that a person typed for a field.
pub fn parse(field: &FormField, typed: &str) -> Result<ElicitValue, String> {
    let typed_value = match field {
        FormField::Text(_) | FormField::Other(_) => ElicitValue::Text(typed.to_owned()),
        FormField::Integer(_) => {
            ElicitValue::Integer(typed.trim().parse().map_err(|_| "a whole number is needed".to_owned())?)
        }
        FormField::Number(_) => {
            let number: f64 = typed.trim().parse().map_err(|_| "a number is needed".to_owned())?;
            ElicitValue::Number(number)
        }
        FormField::Boolean(_) => match typed.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" | "true" | "1" => ElicitValue::Bool(true),
            "n" | "no" | "false" | "0" => ElicitValue::Bool(false),
            _ => return Err("yes or no is needed".into()),
        },
        FormField::Choices(_) => {
            let parts = typed.split(',').map(str::trim).filter(|part| !part.is_empty());
            ElicitValue::Choices(parts.map(str::to_owned).collect())
        }
    };
    value(field, &typed_value)?;
    Ok(typed_value)
}

/// Whether a value is right for a field.
pub(super) fn value(field: &FormField, value: &ElicitValue) -> Result<(), String> {
    match (field, value) {
        (FormField::Text(field), ElicitValue::Text(text)) => self::text(field, text),
        (FormField::Integer(field), ElicitValue::Integer(number)) => {
            range(number, field.minimum.as_ref(), field.maximum.as_ref())
        }
        (FormField::Number(field), ElicitValue::Number(number)) if number.is_finite() => {
            range(number, field.minimum.as_ref(), field.maximum.as_ref())
        }
        (FormField::Number(field), ElicitValue::Integer(number)) =>
        {
            #[allow(clippy::cast_precision_loss, reason = "it is compared with numbers of the same kind")]
            range(&(*number as f64), field.minimum.as_ref(), field.maximum.as_ref())
        }
        (FormField::Boolean(_), ElicitValue::Bool(_)) | (FormField::Other(_), _) => Ok(()),
        (FormField::Choices(choice), ElicitValue::Choices(chosen)) => {
            let offered = choices(field);
            if let Some(odd) = chosen.iter().find(|value| !offered.iter().any(|(other, _)| other == *value)) {
                return Err(format!("`{}` is not among the choices", sanitize::exact_line(odd)));
            }
            let count = chosen.len() as u64;
            if choice.min_items.is_some_and(|least| count < least) {
                return Err(format!("at least {} must be chosen", choice.min_items.unwrap_or_default()));
            }
            if choice.max_items.is_some_and(|most| count > most) {
                return Err(format!("at most {} can be chosen", choice.max_items.unwrap_or_default()));
            }
            Ok(())
        }
        (FormField::Text(_), _) => Err("a text is needed".into()),
        (FormField::Integer(_), _) => Err("a whole number is needed".into()),
        (FormField::Number(_), _) => Err("a number is needed".into()),
        (FormField::Boolean(_), _) => Err("yes or no is needed".into()),
        (FormField::Choices(_), _) => Err("a list of choices is needed".into()),
    }
}

fn range<T: PartialOrd + fmt::Display>(number: &T, least: Option<&T>, most: Option<&T>) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if number < least => Err(format!("it must be at least {least}")),
        (_, Some(most)) if number > most => Err(format!("it must be at most {most}")),
        _ => Ok(()),
    }
}

fn text(field: &TextField, text: &str) -> Result<(), String> {
    let offered = choices(&FormField::Text(field.clone()));
    if !offered.is_empty() && !offered.iter().any(|(value, _)| value == text) {
        return Err(format!("`{}` is not among the choices", sanitize::exact_line(text)));
    }
    let length = text.chars().count();
    if let Some(least) = field.min_length.filter(|least| length < *least as usize) {
        return Err(format!("it must have at least {least} characters"));
    }
    if let Some(most) = field.max_length.filter(|most| length > *most as usize) {
        return Err(format!("it must have at most {most} characters"));
    }
    if let Some(pattern) = &field.pattern
        && let Some(regex) = compile(pattern)
        && !regex.is_match(text)
    {
        return Err(format!("it must match the pattern {}", sanitize::exact_line(pattern)));
    }
    match &field.format {
        Some(format) if !has_format(format, text) => Err(format!("it must be of the form `{format}`")),
        _ => Ok(()),
    }
}

/// A pattern that we can't read is left to the agent, which checks again.
fn compile(pattern: &str) -> Option<regex::Regex> {
    let regex = regex::RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE).build();
    regex.inspect_err(|_| tracing::debug!("a pattern of a form can't be checked here")).ok()
}

/// Forms of text, roughly: what is surely wrong is told, the rest is for the agent.
fn has_format(format: &TextFormat, text: &str) -> bool {
    match format {
        TextFormat::Email => text.split_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !host.contains('@') && !text.contains(char::is_whitespace)
        }),
        TextFormat::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
                && !rest.is_empty()
                && !text.contains(char::is_whitespace)
        }),
        TextFormat::Date => is_date(text),
        TextFormat::DateTime => {
            text.split_once(['T', 't', ' ']).is_some_and(|(date, time)| is_date(date) && is_time(time))
        }
        TextFormat::Other(_) => true,
    }
}

fn numbers(text: &str, mark: char, lengths: [usize; 3]) -> Option<[u32; 3]> {
    let mut parts = text.split(mark);
    let mut found = [0; 3];
    for (slot, length) in found.iter_mut().zip(lengths) {
        let part =
            parts.next().filter(|part| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *slot = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Hours, minutes, seconds, and the zone.
fn is_time(text: &str) -> bool {
    let at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(at);
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let Some([hours, minutes, seconds]) = numbers(whole, ':', [2, 2, 2]) else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let zone = match zone {
        "Z" | "z" => true,
        _ => zone
            .strip_prefix(['+', '-'])
            .and_then(|zone| zone.split_once(':'))
            .is_some_and(|(hours, minutes)| hours.len() == 2 && minutes.len() == 2 && digits(hours) && digits(minutes)),
    };
    hours < 24 && minutes < 60 && seconds <= 60 && digits(fraction) && zone
}
