//! A command line taken apart into words, without a shell, and put together again: quotes and backslashes count, nothing is
//! expanded.

use crate::config::Error;
use crate::sanitize;

/// Words as one would type them, each character visible.
pub fn join_line<S: AsRef<str>>(words: &[S]) -> String {
    let plain =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c));
    let quote = |word: &str| if plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) };
    sanitize::exact_line(&words.iter().map(|word| quote(word.as_ref())).collect::<Vec<_>>().join(" "))
}

/// The words of a line. What only a shell could do (pipes, variables, several commands) is refused rather than passed on.
pub fn split_line(line: &str) -> Result<Vec<String>, Error> {
    let refuse = |why: &str| Err(Error::new(format!("the command line {line:?} {why}")));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('\'') => break,
                        Some(inside) => word.push(inside),
                        None => return refuse("has a quote that is not closed"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some('\\') => match letters.next() {
                            Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return refuse("has a quote that is not closed"),
                        },
                        Some(inside) => word.push(inside),
                        None => return refuse("has a quote that is not closed"),
                    }
                }
            }
            '\\' => match letters.next() {
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => return refuse("ends with a backslash"),
            },
            '|' | '&' | ';' | '<' | '>' | '$' | '`' => {
                return refuse("needs a shell, which is not used here; put it in quotes, or into a script");
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) { refuse("names no program") } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_lines() {
        for (line, want) in [
            ("agent --acp", Some(vec!["agent", "--acp"])),
            ("  a\t'b c'  \"d \\\" $e\" f\\ g ''", Some(vec!["a", "b c", "d \" $e", "f g", ""])),
            ("\"C:\\\\x\" \"\\n\"", Some(vec!["C:\\x", "\\n"])),
            ("a'b'\"c\"", Some(vec!["abc"])),
            ("", None),
            ("''", None),
            ("a 'b", None),
            ("a \"b", None),
            ("a \\", None),
            ("a | b", None),
            ("a; b", None),
            ("a $HOME", None),
        ] {
            let words = split_line(line).ok();
            assert_eq!(words.as_ref().map(|words| words.iter().map(String::as_str).collect()), want, "{line}");
            // And back.
            if let Some(words) = words {
                assert_eq!(split_line(&join_line(&words)).ok(), Some(words), "{line}");
            }
        }
        assert_eq!(join_line(&["a", "it's; so", ""]), r"a 'it'\''s; so' ''");
    }
}
