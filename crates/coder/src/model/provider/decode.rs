//! What the readers of the four formats have in common: events of a stream go in, pieces of an answer come out.

use super::content;
use super::known::Tokens;
use super::order::Order;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Event, Finish, ToolRequest};
use serde_json::Value;
use std::collections::HashSet;
use tieline_host::store::new_id;

/// More tokens than this nobody has: the figure is nonsense.
const MAX_TOKENS: f64 = 1e10;

/// Reads the events of one format.
pub trait Decode: Send {
    /// Takes an event in. True if nothing more is to come.
    fn take(&mut self, event: &sse::Event, answer: &mut Answer) -> Result<bool, Trouble>;

    /// The stream is over; what was held back goes into the answer.
    fn end(&mut self, _: &mut Answer) {}
}

/// An answer as far as it has come.
#[derive(Default)]
pub struct Answer {
    /// What nobody was told yet.
    pub out: Vec<Event>,
    /// The calls, which may still grow.
    pub calls: Vec<ToolRequest>,
    /// In which order its parts came.
    pub order: Order,
    /// Something else that the model wants to see again.
    pub kept: Option<Value>,
    /// Why it ended. Once this was told it is complete; what may follow is of no weight.
    pub finish: Option<Finish>,
    /// What was said is a refusal.
    pub refused: bool,
    /// What it took.
    pub tokens: Option<Tokens>,
}

impl Answer {
    /// More text, which has its place in the order.
    pub fn say(&mut self, value: &Value) {
        if let Some(more) = text(value) {
            self.order.text(&more);
            self.out.push(Event::Text(more));
        }
    }

    /// More of a thought.
    pub fn think(&mut self, value: &Value) {
        self.out.extend(text(value).map(Event::Thought));
    }

    /// A whole call, with what the provider put beside it.
    pub fn call(&mut self, call: ToolRequest, mark: Value) {
        self.calls.push(call);
        self.order.call(mark);
    }

    /// The end: why, and with the last pieces. `None` if the answer is not complete.
    pub fn close(&mut self, by: &str) -> Option<Finish> {
        let finish = if self.refused { Finish::Refusal } else { self.finish? };
        let mut seen = HashSet::new();
        for mut call in std::mem::take(&mut self.calls) {
            // Ids that are missing or came twice are made anew, because results are told apart by them.
            if call.id.is_empty() || !seen.insert(call.id.clone()) {
                call.id = new_id();
            }
            self.out.push(Event::Call(call));
        }
        let kept = self.kept.take().or_else(|| self.order.kept());
        self.out.extend(kept.map(|data| Event::Keep(content::keep(by, &data))));
        Some(finish)
    }
}

/// The data of an event as JSON.
pub fn json(event: &sse::Event) -> Result<Value, Trouble> {
    serde_json::from_str(&event.data).map_err(|_| Trouble::passing("a piece of the answer is no JSON"))
}

/// A piece of text, if there is one.
pub fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The text of a field; empty if there is none.
pub fn field(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// A number of tokens, however it is written; 0 if it is none that could be.
pub fn count(value: &Value) -> u64 {
    counted(value).unwrap_or(0)
}

/// The same, or nothing.
pub fn counted(value: &Value) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
    (0.0..=MAX_TOKENS).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::super::{anthropic, gemini, openai_chat, openai_responses};
    use super::*;
    use proptest::prelude::*;

    /// Words that mean something to one format or another.
    const WORDS: &str = "choices|delta|content|text|thinking|reasoning|tool_calls|function|arguments|id|index|usage|type|error|\
        message_start|message|content_block_start|content_block|content_block_delta|tool_use|input_json_delta|partial_json|\
        response.output_item.done|item|response.completed|response|candidates|parts|functionCall|args|thoughtSignature|\
        finish_reason|finishReason|stop|STOP|prompt_tokens|candidatesTokenCount|usageMetadata|refusal|data|signature";

    fn value() -> impl Strategy<Value = Value> {
        let word = || prop::sample::select(WORDS.split('|').map(str::to_owned).collect::<Vec<_>>());
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 48, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((word(), inner), 0..6).prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn figures_that_can_not_be_count_nothing() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(counted(&serde_json::from_str(text).unwrap()), expect, "{text}");
        };
        for (text, expect) in [("0", 0), ("12", 12), ("12.0", 12), ("\"12\"", 12), ("1e3", 1000)] {
            check(text, Some(expect));
        }
        for text in ["-1", "1e300", "18446744073709551615", "\"many\"", "\"NaN\"", "\"inf\"", "null", "[]", "true"] {
            check(text, None);
        }
    }

    proptest! {
        /// Whatever a server sends, a reader gives an answer or an error.
        #[test]
        fn no_stream_makes_a_reader_fail(stream in prop::collection::vec((value(), ".{0,6}"), 0..12)) {
            let readers: [Box<dyn Decode>; 4] = [
                Box::new(openai_chat::Decoder::default()),
                Box::new(openai_responses::Decoder::default()),
                Box::new(anthropic::Decoder::default()),
                Box::new(gemini::Decoder),
            ];
            for mut reader in readers {
                let mut answer = Answer::default();
                for (value, noise) in &stream {
                    for data in [value.to_string(), noise.clone()] {
                        let _ = reader.take(&sse::Event { data, ..sse::Event::default() }, &mut answer);
                    }
                }
                // Nor do its figures, whatever they are.
                reader.end(&mut answer);
                answer.close("x");
                if let Some(tokens) = answer.tokens {
                    let usage = tokens.usage(&super::super::known::known("gpt-4.1"));
                    prop_assert!(usage.used <= 1 << 40 && usage.cost.is_none_or(|cost| (0.0..1e9).contains(&cost)));
                }
            }
        }
    }
}
