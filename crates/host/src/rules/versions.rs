//! Which commands have to change what a version control keeps.

use super::CommandLine;

/// Why such a command does not count as one that the sandbox holds.
pub const KEEPS_VERSIONS: &str = "it changes .git or the like, from which the sandbox would keep it";

/// Subcommands that leave the history of versions as it is, whatever follows.
const LOOKS: &str = "annotate blame cat cat-file describe diff diff-tree evolog grep help log ls-files ls-tree merge-base \
    name-rev obslog reflog rev-list rev-parse root shortlog show status whatchanged --version version";

/// Whether a command changes what a version control keeps. That can't be done without changing what is protected.
pub fn keeps_versions(line: &CommandLine) -> bool {
    line.commands().any(|words| {
        let [program, rest @ ..] = &words[..] else { return false };
        if !["git", "hg", "jj", "svn"].contains(&program.rsplit('/').next().unwrap_or_default()) {
            return false;
        }
        let mut rest = rest.iter();
        let mut deed = None;
        while let Some(word) = rest.next() {
            if ["-C", "-c"].contains(word) {
                rest.next();
            } else if *word == "--version" || !word.starts_with('-') {
                deed = Some(*word);
                break;
            }
        }
        let lists =
            |deed| ["branch", "remote", "tag"].contains(&deed) && rest.clone().all(|word| word.starts_with('-'));
        deed.is_some_and(|deed| !LOOKS.split_whitespace().any(|look| look == deed) && !lists(deed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_change_the_history() {
        let check = |line: &str, expect: bool| assert_eq!(keeps_versions(&CommandLine::parse(line)), expect, "{line}");
        for line in [
            "git commit -m x",
            "git add . && git commit -m x",
            "/usr/bin/git -C sub -c a=b --no-pager commit",
            "git stash",
            "git config core.hooksPath x",
            "git branch new",
            "git init",
            "jj new",
            "cd x; git push",
        ] {
            check(line, true);
        }
        for line in ["git", "git status", "git --no-pager log -1", "git -C x diff", "git branch -a", "ls", "make git"] {
            check(line, false);
        }
    }
}
