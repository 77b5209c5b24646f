//! What the readers of the four formats have in common: events of a stream go in, pieces of an answer come out.

use super::known::Tokens;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Event, Finish};
use serde_json::Value;

/// More tokens than this nobody has: the figure is nonsense.
const MOST: f64 = 1e10;

/// Reads one answer.
pub trait Decode: Send {
    /// Takes an event in. True if nothing more is to come.
    fn take(&mut self, event: &sse::Event, out: &mut Vec<Event>) -> Result<bool, Trouble>;

    /// Why the answer ended was told, so it is complete; what may follow is of no weight.
    fn finished(&self) -> bool;

    /// The end: what was held back, why it ended and what it took. `None` if the answer is not complete.
    fn close(&mut self, out: &mut Vec<Event>) -> Option<(Finish, Option<Tokens>)>;
}

/// The data of an event as JSON.
pub fn json(event: &sse::Event) -> Result<Value, Trouble> {
    serde_json::from_str(&event.data).map_err(|_| Trouble::passing("a piece of the answer is no JSON"))
}

/// A piece of text, if there is one.
pub fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A number of tokens, however it is written; 0 if it is none that could be.
pub fn count(value: &Value) -> u64 {
    counted(value).unwrap_or(0)
}

/// The same, or nothing.
pub fn counted(value: &Value) -> Option<u64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
    (0.0..=MOST).contains(&number).then_some(number as u64)
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
                Box::new(openai_chat::Decoder::new("x")),
                Box::new(openai_responses::Decoder::new("x")),
                Box::new(anthropic::Decoder::new("x")),
                Box::new(gemini::Decoder::new("x")),
            ];
            for mut reader in readers {
                let mut out = Vec::new();
                for (value, noise) in &stream {
                    for data in [value.to_string(), noise.clone()] {
                        let _ = reader.take(&sse::Event { data, ..sse::Event::default() }, &mut out);
                    }
                }
                // Nor do its figures, whatever they are.
                if let Some((_, Some(tokens))) = reader.close(&mut out) {
                    let usage = tokens.usage(&super::super::known::known("gpt-4.1"));
                    prop_assert!(usage.used <= 1 << 40 && usage.cost.is_none_or(|cost| (0.0..1e9).contains(&cost)));
                }
            }
        }
    }
}
