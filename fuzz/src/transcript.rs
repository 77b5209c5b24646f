//! The transcript: what it says of itself rebuilds it.

use tieline_schema::{Dialect, Transcript, Update, from_json, to_json};

/// Each line is one update; lines that are none are passed over.
pub fn target(data: &[u8]) {
    let updates: Vec<Update> =
        data.split(|byte| *byte == b'\n').filter_map(|line| from_json(std::str::from_utf8(line).ok()?).ok()).collect();
    for dialect in Dialect::ALL {
        let transcript = built(dialect, &updates);
        let snapshot = transcript.to_updates();
        assert_eq!(built(dialect, &snapshot), transcript, "rebuilt in {dialect}");
        // Diffs as two texts become patches on this wire, so what went over it once is compared with what went twice.
        let sent = built(dialect, &sent(&snapshot));
        assert_eq!(built(dialect, &self::sent(&sent.to_updates())), sent, "rebuilt from the wire in {dialect}");
        assert_eq!(sent.items().len(), transcript.items().len());
    }
}

/// The updates as they are after a way over the wire of current v2.
fn sent(updates: &[Update]) -> Vec<Update> {
    let send = |update| {
        let text = to_json(update, Dialect::V2);
        from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    updates.iter().map(send).collect()
}

fn built(dialect: Dialect, updates: &[Update]) -> Transcript {
    let mut transcript = Transcript::new(dialect).with_output_limit(64);
    for (count, update) in updates.iter().enumerate() {
        if let Some(at) = transcript.apply(update) {
            assert!(at < transcript.items().len());
        }
        assert!(transcript.items().len() <= count + 1, "an update makes at most one item");
    }
    transcript
}
