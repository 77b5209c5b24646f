//! A key that comes twice counts with its last value (TR-ENV-04), the one that tells the kind of an object too.

#![allow(clippy::unwrap_used)]

use tieline_json::Reader;
use tieline_schema::{ContentBlock, Decode, Update};

fn update(text: &str) -> Update {
    Update::decode(&mut Reader::new(text)).unwrap()
}

fn block(text: &str) -> ContentBlock {
    ContentBlock::decode(&mut Reader::new(text)).unwrap()
}

#[test]
fn tr_env_04_the_last_discriminator_counts() {
    let text = block(r#"{"type":"text","text":"a"}"#);
    for odd in [
        r#"{"type":"image","text":"a","type":"text"}"#,
        r#"{"type":"nobody","text":"a","type":"text"}"#,
        r#"{"text":"a","type":"image","type":"text"}"#,
        r#"{"type":5,"text":"a","type":"text"}"#,
        r#"{"type":"text","text":"b","type":"text","text":"a"}"#,
    ] {
        assert_eq!(block(odd), text, "{odd}");
    }
    // A kind that nobody knows is kept with the name that counts.
    assert_eq!(block(r#"{"type":"text","text":"a","type":"_mine"}"#).tag(), "_mine");
    assert!(ContentBlock::decode(&mut Reader::new(r#"{"type":"text","text":"a","type":5}"#)).is_err());
}

#[test]
fn tr_env_04_the_same_for_updates() {
    let thought = r#""sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"a"}"#;
    let expected = update(&format!("{{{thought}}}"));
    assert_eq!(update(&format!(r#"{{"sessionUpdate":"agent_message_chunk",{thought}}}"#)), expected);
    assert_eq!(update(&format!(r#"{{"sessionUpdate":"usage_update",{thought}}}"#)), expected);
    assert_eq!(update(&format!(r#"{{"sessionUpdate":"state_update","state":"idle",{thought}}}"#)), expected);
    // The same key further inside is another one.
    let inside = r#"{"sessionUpdate":"agent_thought_chunk","_meta":{"sessionUpdate":"plan"},"x":{"sessionUpdate":"plan"},"content":{"type":"text","text":"a"}}"#;
    assert_eq!(std::mem::discriminant(&update(inside)), std::mem::discriminant(&expected));
}
