//! A form of the agent, docked like any question: fields to fill in, checked as they are sent. It takes the keys only when it is given them.

use crate::ask::Pressed;
use crate::rows::look as theme;
use crate::text::{behind, fit};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;
use tieline::schema::ElicitValue;
use tieline_client::elicit::{Field, Filled, Form, parse};
use tieline_client::live::Reply;
use tieline_client::sanitize;

/// Nobody types more into a field, in bytes.
const MAX_TYPED_BYTES: usize = 16 << 10;

/// What was typed into a form so far.
#[derive(Debug)]
pub struct Filling {
    /// The number of its question.
    pub number: u64,
    /// The field that is typed into; the one behind the last sends.
    at: usize,
    texts: Vec<String>,
    why: Option<String>,
}

impl Filling {
    /// A form as it came.
    pub fn of(number: u64, form: &Form) -> Self {
        let text = |field: &Field| {
            let value = form.filled.get(&field.name).or(field.default.as_ref());
            value.map(shown).unwrap_or_default()
        };
        let why = form.problems.first().map(ToString::to_string);
        Self { number, at: 0, texts: form.fields.iter().map(text).collect(), why }
    }

    /// A key. `dead` if it is too soon to send.
    pub fn key(&mut self, form: &Form, key: KeyEvent, dead: bool) -> Pressed {
        let last = form.fields.len();
        let field = form.fields.get(self.at);
        let choices = field.map(|field| &field.choices[..]).unwrap_or_default();
        // What was wrong may be right by now; it is looked at again when it is sent.
        self.why = None;
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) => self.at = self.at.saturating_sub(1),
            (KeyCode::Down, KeyModifiers::NONE) => self.at = (self.at + 1).min(last),
            (KeyCode::Enter, KeyModifiers::NONE) if self.at < last => self.at += 1,
            (KeyCode::Enter, KeyModifiers::NONE) if dead => {
                return Pressed::Said("that was too quick to be meant for this form");
            }
            (KeyCode::Enter, KeyModifiers::NONE) => match self.values(form) {
                Ok(values) => return Pressed::Answer(Reply::Form(Filled::Accept(values))),
                Err((at, why)) => (self.at, self.why) = (at, Some(why)),
            },
            (KeyCode::Esc, _) => return Pressed::Answer(Reply::Form(Filled::Decline)),
            (KeyCode::Tab | KeyCode::BackTab, _) => return Pressed::Back(String::new()),
            (KeyCode::Char('o'), KeyModifiers::CONTROL) => return Pressed::Whole,
            (KeyCode::Left | KeyCode::Right, KeyModifiers::NONE) if !choices.is_empty() => {
                let now = choices.iter().position(|(value, _)| *value == self.texts[self.at]);
                let next = match (now, key.code) {
                    (None, _) => 0,
                    (Some(at), KeyCode::Right) => (at + 1) % choices.len(),
                    (Some(at), _) => (at + choices.len() - 1) % choices.len(),
                };
                self.texts[self.at].clone_from(&choices[next].0);
            }
            (KeyCode::Backspace, _) if self.at < last => drop(self.texts[self.at].pop()),
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) if self.at < last => {
                let typed = &mut self.texts[self.at];
                // A number stands for the choice with this number.
                match c.to_digit(10).and_then(|digit| choices.get((digit as usize).checked_sub(1)?)) {
                    Some((value, _)) => typed.clone_from(value),
                    None if choices.is_empty() && typed.len() < MAX_TYPED_BYTES => typed.push(c),
                    None => {}
                }
            }
            _ => return Pressed::NotOurs,
        }
        Pressed::Taken
    }

    /// Text was pasted: into the field, never beyond it.
    pub fn paste(&mut self, text: &str) {
        if let Some(field) = self.texts.get_mut(self.at) {
            let room = MAX_TYPED_BYTES.saturating_sub(field.len());
            field.push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    fn values(&self, form: &Form) -> Result<BTreeMap<String, ElicitValue>, (usize, String)> {
        let mut values = BTreeMap::new();
        for (at, (field, text)) in form.fields.iter().zip(&self.texts).enumerate() {
            match text.is_empty() {
                true if field.required => return Err((at, format!("{}: it must be filled in", field.label))),
                true => {}
                false => {
                    let value = parse(&field.schema, text).map_err(|why| (at, format!("{}: {why}", field.label)))?;
                    values.insert(field.name.clone(), value);
                }
            }
        }
        Ok(values)
    }

    /// Its rows: each field with what is typed, the help of the chosen one, and what sends it.
    pub fn rows(&self, form: &Form, width: usize) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        let mark = |at: usize| if at == self.at { "❯ " } else { "  " };
        for (at, (field, text)) in form.fields.iter().zip(&self.texts).enumerate() {
            let label = field.choices.iter().find(|(value, _)| value == text).map_or(text, |(_, label)| label);
            let must = if field.required { "*" } else { "" };
            let line = format!("{}{}{must}: ", mark(at), field.label);
            let typed = format!("{}{}", sanitize::exact_line(label), if at == self.at { "▏" } else { "" });
            let room = width.saturating_sub(unicode_width::UnicodeWidthStr::width(line.as_str()));
            let style = if at == self.at { theme::STRONG } else { theme::PLAIN };
            rows.push(Line::from(vec![
                Span::styled(fit(&line, width), theme::QUIET),
                Span::styled(fit(&typed, room), style),
            ]));
            if at == self.at {
                let choices = field.choices.iter().enumerate();
                let choices: Vec<_> = choices.map(|(at, (_, label))| format!("{} {label}", at + 1)).collect();
                let help = field.help.iter().cloned().chain((!choices.is_empty()).then(|| choices.join(" · ")));
                for help in help {
                    let help = help.replace('\n', " ");
                    rows.extend(behind(["  │ ", "  │ "], theme::QUIET, &help, theme::QUIET, width));
                }
            }
        }
        let send = self.at >= form.fields.len();
        rows.push(Line::styled(
            format!("{}Send it", mark(form.fields.len())),
            if send { theme::CHOSEN } else { theme::PLAIN },
        ));
        if let Some(why) = &self.why {
            rows.push(Line::styled(fit(why, width), theme::BAD));
        }
        rows
    }
}

fn shown(value: &ElicitValue) -> String {
    match value {
        ElicitValue::Text(text) => text.clone(),
        ElicitValue::Integer(number) => number.to_string(),
        ElicitValue::Number(number) => number.to_string(),
        ElicitValue::Bool(on) => if *on { "yes" } else { "no" }.to_owned(),
        ElicitValue::Choices(choices) => choices.join(", "),
        other @ ElicitValue::Other(_) => tieline::schema::to_json(other, tieline::schema::Dialect::V2),
    }
}
