//! Which words of a command line are said to the agent, and which are options: for tips where what was said looks like an option.

use tieline_client::agents::join_line;

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Said,
    /// An option, known by one letter or more.
    Short,
    Long,
    /// Of the option before it.
    Value,
}

/// The words of a line, up to a `--`.
struct Line {
    words: Vec<(String, Role)>,
}

impl Line {
    fn read(command: &clap::Command, words: impl Iterator<Item = String>) -> Self {
        let mut read: Vec<(String, Role)> = Vec::new();
        let mut is_value = false;
        for word in words.take_while(|word| word != "--") {
            let role = match (std::mem::take(&mut is_value), word.as_bytes()) {
                (true, _) => Role::Value,
                (false, [b'-', b'-', ..]) => {
                    let known = command.get_arguments().find(|known| {
                        let names = known.get_all_aliases().unwrap_or_default();
                        known.get_long().into_iter().chain(names).any(|name| word[2..] == *name)
                    });
                    is_value = known.is_some_and(|known| known.get_action().takes_values());
                    Role::Long
                }
                (false, [b'-', _, ..]) => {
                    is_value = wants_next(command, &word[1..]);
                    Role::Short
                }
                _ => Role::Said,
            };
            read.push((word, role));
        }
        Self { words: read }
    }

    /// Where what is said begins.
    fn start(&self) -> Option<usize> {
        self.words.iter().position(|(_, role)| *role == Role::Said)
    }

    /// The options of one letter behind what is said, which may belong to it.
    fn taken(&self) -> impl Iterator<Item = &str> {
        let start = self.start().unwrap_or(self.words.len());
        self.words[start..].iter().filter(|(_, role)| *role == Role::Short).map(|(word, _)| word.as_str())
    }

    /// The line as it is to be typed if the words behind `path` are said: up to an option with a long name that is known.
    fn quoted(&self, path: &str, unknown: Option<&str>) -> Option<String> {
        let start = self.start()?;
        let is_end = |(word, role): &(String, Role)| {
            *role == Role::Long && unknown.is_none_or(|unknown| !word.starts_with(unknown))
        };
        let end = self.words[start..].iter().position(is_end).map_or(self.words.len(), |end| start + end);
        let text = |words: &[(String, Role)]| words.iter().map(|(word, _)| word.clone()).collect::<Vec<_>>();
        let said = vec![text(&self.words[start..end]).join(" ")];
        let words = [text(&self.words[..start]), said, text(&self.words[end..])].concat();
        Some(format!("tieline {path} {}", join_line(&words)))
    }
}

/// Whether the last of some options of one letter each takes the next word.
fn wants_next(command: &clap::Command, letters: &str) -> bool {
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        match command.get_arguments().find(|known| known.get_short() == Some(letter)) {
            Some(known) if known.get_action().takes_values() => return letters.next().is_none(),
            Some(_) => {}
            None => return false,
        }
    }
    false
}

const TIP: &str = "what is said stands in quotes: ";

/// The tip for a line whose option is none, or does not fit, if words are said before it.
pub fn tip(command: &clap::Command, path: &str, unknown: Option<&str>) -> Option<String> {
    let words = std::env::args().skip(1 + path.split(' ').count());
    let line = Line::read(command, words);
    let start = line.start()?;
    let behind = |(word, role): &(String, Role)| match unknown {
        Some(unknown) => word.starts_with(unknown),
        None => *role == Role::Short,
    };
    line.words[start..]
        .iter()
        .any(behind)
        .then(|| line.quoted(path, unknown))
        .flatten()
        .map(|line| format!("{TIP}{line}"))
}

/// What to say where options of one letter were taken from behind what is said.
pub fn taken(command: &clap::Command) -> Option<(String, String)> {
    let line = Line::read(command, std::env::args().skip(2));
    let mut taken: Vec<&str> = line.taken().collect();
    taken.dedup();
    let quoted = line.quoted("exec", None).filter(|_| !taken.is_empty())?;
    let (is, options) = if taken.len() == 1 { ("is", "an option") } else { ("are", "options") };
    let note = format!("{} behind what is said {is} taken as {options} of `tieline exec`", taken.join(", "));
    Some((note, format!("{TIP}{quoted}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    #[test]
    fn words_that_are_said_are_told_from_options() {
        let command = crate::exec::Arguments::augment_args(clap::Command::new("exec"));
        let check = |line: &str, taken: &str, quoted: Option<&str>| {
            let line = Line::read(&command, line.split(' ').map(str::to_owned));
            assert_eq!(line.taken().collect::<Vec<_>>().join(" "), taken);
            assert_eq!(line.quoted("exec", None).as_deref(), quoted);
        };
        check("run grep -r TODO src", "-r", Some("tieline exec 'run grep -r TODO src'"));
        check("-F json run ls -la --timeout 3s", "-la", Some("tieline exec -F json 'run ls -la' --timeout 3s"));
        check("-qc say --model a/b", "", Some("tieline exec -qc say --model a/b"));
        check("-F json --bogus", "", None);
        check("git commit -am wip -- cat -n", "-am", Some("tieline exec 'git commit -am wip'"));
        check("-s name explain", "", Some("tieline exec -s name explain"));
    }
}
