//! A long chunk of a message: where its text stands, so that it can be taken in parts and is never there as a whole beside its frame.

use std::ops::Range;
use tieline_json::{Kind, Reader};
use tieline_rpc::IdRule;
use tieline_rpc::message::{Call, Message, parse};
use tieline_schema::{Chunk, ClientCall, ContentBlock, Update};

/// What stands around the text is in each part; a message with more of it is taken whole, in bytes.
const MAX_AROUND_BYTES: usize = 16 << 10;
/// Where the text of a chunk stands in a message.
const PATH: [&str; 4] = ["params", "update", "content", "text"];

/// Where the text of a chunk stands, without its quotes; `None` if the message is anything else.
pub(super) fn text_of(message: &str) -> Option<Range<usize>> {
    let mut json = Reader::new(message);
    let begin = json.mark();
    for name in PATH {
        let mut object = json.object().ok()?;
        while object.key(&mut json).ok()?? != name {
            json.skip().ok()?;
        }
    }
    let is_text = json.peek().ok()? == Kind::String;
    let length = json.raw().ok()?.len();
    let end = json.since(begin).len();
    let text = is_text.then(|| end + 1 - length..end - 1)?;
    let around = message.len() - text.len();
    // That it is what counts, in a message that can be read, is told by the reader of all messages.
    let short = || [&message[..text.start], "x", &message[text.end..]].concat();
    (around <= MAX_AROUND_BYTES && is_chunk(&short())).then_some(text)
}

/// True if a message is a chunk whose text is `x`.
fn is_chunk(message: &str) -> bool {
    let Message::Notification { call: Call::Known(ClientCall::Update(told)), .. } =
        parse(message, IdRule::Liberal, &ClientCall::decode)
    else {
        return false;
    };
    matches!(&told.update, Update::Chunk(Chunk { content: ContentBlock::Text(text), .. }) if text.text == "x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_of_a_chunk_is_parted() {
        let chunk = |more: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{{"content":{{"text":"one\ntwo","type":"text"}},"messageId":"m","sessionUpdate":"agent_message_chunk"}},"sessionId":"s"{more}}}}}"#
            )
        };
        let good = chunk("");
        assert_eq!(text_of(&good).map(|text| &good[text]), Some("one\\ntwo"));
        let others = [
            good.replace("agent_message_chunk", "tool_call_update"),
            good.replace(r#""type":"text"}"#, r#""text":"another","type":"text"}"#),
            good.replace(r#""one\ntwo""#, "7"),
            good.replace("session/update", "_other"),
            good.replace(r#""jsonrpc":"2.0","#, r#""jsonrpc":"2.0","id":1,"#),
            chunk(&format!(r#","_meta":{{"a":"{}"}}"#, "y".repeat(MAX_AROUND_BYTES))),
            good[..good.len() - 1].to_owned(),
            format!("[{good}]"),
        ];
        for message in others {
            assert_eq!(text_of(&message), None, "{message}");
        }
    }
}
