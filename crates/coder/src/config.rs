//! What is wrong with the user's configuration file, told without its text: it may be next to a secret.

/// The line, and what is wrong there in words that are ours.
pub fn wrong(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(0, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    // The parser's words may repeat a value; the names of fields are ours.
    let words = error.message();
    let told = if words.starts_with("unknown field") {
        words
    } else if let Some((_, expected)) = words.strip_prefix("unknown variant").and_then(|rest| rest.split_once(", ")) {
        return format!("line {line}: this can't be chosen, {expected}");
    } else if words.starts_with("invalid type") || words.starts_with("invalid value") {
        "a value is of the wrong kind"
    } else {
        "this is no TOML"
    };
    format!("line {line}: {told}")
}

/// True if there is no such file, also because what should be its folder is none.
pub fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
