//! The order in which the parts of an answer came, because the models want them back exactly so.

use super::content;
use crate::model::{Message, ToolRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A part of an answer. Text and calls are kept elsewhere and not twice; a mark is what the provider put beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    Text {
        bytes: usize,
        mark: Value,
    },
    Call {
        mark: Value,
    },
    /// Something that only the provider understands.
    Own(Value),
}

/// A part of an answer that goes back.
#[derive(Debug, PartialEq)]
pub enum Part<'a> {
    Text(&'a str, Value),
    Call(&'a ToolRequest, Value),
    Own(Value),
}

/// Takes down the order while an answer comes.
#[derive(Debug, Default)]
pub struct Order {
    entries: Vec<Entry>,
}

impl Order {
    /// A new block of text begins.
    pub fn begin_text(&mut self) {
        self.entries.push(Entry::Text { bytes: 0, mark: Value::Null });
    }

    /// More text. It belongs to the last block, if that is text without a mark.
    pub fn text(&mut self, more: &str) {
        if !matches!(self.entries.last(), Some(Entry::Text { mark: Value::Null, .. })) {
            self.begin_text();
        }
        if let Some(Entry::Text { bytes, .. }) = self.entries.last_mut() {
            *bytes += more.len();
        }
    }

    /// Marks the last block of text.
    pub fn mark_text(&mut self, with: &Value) {
        if let Some(Entry::Text { mark, .. }) = self.entries.last_mut() {
            mark.clone_from(with);
        }
    }

    /// A call.
    pub fn call(&mut self, mark: Value) {
        self.entries.push(Entry::Call { mark });
    }

    /// Something that only the provider understands.
    pub fn own(&mut self, value: Value) {
        self.entries.push(Entry::Own(value));
    }

    /// The order, to be kept; nothing if it is the usual one: a text, then calls, without marks.
    pub fn kept(&mut self) -> Option<Value> {
        let entries = std::mem::take(&mut self.entries);
        let usual = entries.iter().enumerate().all(|(at, entry)| match entry {
            Entry::Text { mark, .. } => at == 0 && mark.is_null(),
            Entry::Call { mark } => mark.is_null(),
            Entry::Own(_) => false,
        });
        serde_json::to_value(entries).ok().filter(|_| !usual)
    }
}

/// The parts of an answer in their order; in the usual order if nobody took it down, or another model did.
pub fn parts<'a>(message: &'a Message, by: &str) -> Vec<Part<'a>> {
    let Message::Assistant { text, calls, .. } = message else { return Vec::new() };
    if let Some(parts) = entries(message, by).and_then(|entries| laid_out(text, calls, entries)) {
        return parts;
    }
    let said = (!text.is_empty()).then_some(Part::Text(text, Value::Null));
    said.into_iter().chain(calls.iter().map(|call| Part::Call(call, Value::Null))).collect()
}

/// Whether there is something in it that only this model understands, such as its thoughts.
pub fn has_own(message: &Message, by: &str) -> bool {
    entries(message, by).is_some_and(|entries| entries.iter().any(|entry| matches!(entry, Entry::Own(_))))
}

fn entries(message: &Message, by: &str) -> Option<Vec<Entry>> {
    serde_json::from_value(content::kept(message, by)?).ok()
}

/// `None` if the order is not that of this text and these calls.
fn laid_out<'a>(text: &'a str, calls: &'a [ToolRequest], entries: Vec<Entry>) -> Option<Vec<Part<'a>>> {
    let (mut at, mut next) = (0_usize, calls.iter());
    let mut parts = Vec::with_capacity(entries.len());
    for entry in entries {
        parts.push(match entry {
            Entry::Text { bytes, mark } => {
                let end = at.checked_add(bytes)?;
                let said = text.get(at..end)?;
                at = end;
                Part::Text(said, mark)
            }
            Entry::Call { mark } => Part::Call(next.next()?, mark),
            Entry::Own(value) => Part::Own(value),
        });
    }
    (at == text.len() && next.next().is_none()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: &str) -> ToolRequest {
        ToolRequest { id: id.into(), name: "t".into(), arguments: "{}".into() }
    }

    fn message(text: &str, calls: Vec<ToolRequest>, kept: Option<Value>) -> Message {
        let kept = kept.map(|data| content::keep("m", &data));
        Message::Assistant { text: text.into(), thought: String::new(), calls, kept }
    }

    #[test]
    fn parts_come_back_as_they_came() {
        let mut order = Order::default();
        order.own(json!("a"));
        order.text("grü");
        order.text("ße");
        order.call(json!("mark"));
        order.own(json!("b"));
        order.text("x");
        let message = message("grüßex", vec![call("1")], order.kept());
        let one = call("1");
        let expect = [
            Part::Own(json!("a")),
            Part::Text("grüße", Value::Null),
            Part::Call(&one, json!("mark")),
            Part::Own(json!("b")),
            Part::Text("x", Value::Null),
        ];
        assert_eq!(parts(&message, "m"), expect);
        // Another model gets what everybody understands.
        assert_eq!(parts(&message, "n"), [Part::Text("grüßex", Value::Null), Part::Call(&one, Value::Null)]);
        assert!(has_own(&message, "m") && !has_own(&message, "n"));
    }

    #[test]
    fn the_usual_order_is_not_kept_and_a_wrong_one_not_used() {
        let mut order = Order::default();
        order.text("a");
        order.call(Value::Null);
        assert_eq!(order.kept(), None);
        for (text, count) in [("ß", 0), ("ab", 0), ("a", 1), ("", 0)] {
            order.own(json!(1));
            order.text("a");
            let kept = order.kept();
            let message = message(text, vec![call("1"); count], kept);
            assert!(parts(&message, "m").iter().all(|part| !matches!(part, Part::Own(_))), "{text} {count}");
        }
    }
}
