//! Text that has to fit, and texts that are known again.

pub use tieline_json::{cut, cut_line};

/// How a record of an earlier conversation begins and ends: an agent that lost it is handed one, and knows by this that nobody typed it.
pub const RECORD: (&str, &str) = (
    "The lines below that begin with `> ` are a record of an earlier conversation",
    "Here the record of the earlier conversation ends. What the user says now comes next.",
);

/// `1 file`, `2 files`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_counted_has_its_number() {
        assert_eq!([0, 1, 2].map(|count| super::counted(count, "file")), ["0 files", "1 file", "2 files"]);
    }
}
