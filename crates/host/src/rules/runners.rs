//! Which programs run what their arguments say: the one table, with the arguments that make them do so.
//!
//! A rule like `run printf *` is meant for printing. Where a program in this table is given such an argument, the line is complex,
//! so that no rule that allows covers it. Interpreters and package runners (`python *`, `npx *`) are not in it: who allows them
//! with any argument can see that this is everything.

use super::shell::Word;

/// When a program runs what it is told.
enum When {
    /// Whatever its arguments are.
    Always,
    /// With one of these words: `--option` also shortened and with `=value`, `-x` also among other letters, `-word` as it is, and
    /// others as the start of a word.
    Given(&'static str),
    /// With a word that has one of these texts in it.
    Has(&'static [&'static str]),
    /// As this says of its arguments.
    If(fn(&[&str]) -> bool),
}
use When::{Always, Given, Has, If};

/// Programs, and when they run what they are told.
const TABLE: &[(&str, When)] = &[
    // Another shell, or a shell's own words that run their arguments.
    (
        "sh ash bash busybox cmd csh dash elvish fish ksh ksh93 mksh nu osh powershell pwsh rbash tcsh toybox xonsh zsh . alias bind \
         builtin command compgen complete coproc enable eval exec fc hash source trap",
        Always,
    ),
    // They set variables, and what is between brackets in a name, or in a number, is run: `a[$(…)]`.
    ("declare export getopts let local mapfile read readarray readonly typeset unset wait", Always),
    ("printf", If(|words| words.iter().any(|word| word.starts_with("-v") || names_element(word)))),
    (
        "test [",
        If(|words| words.iter().any(|word| matches!(*word, "-v" | "-R") || (*word != "[" && word.contains('[')))),
    ),
    // Programs that start another one.
    (
        "at batch bwrap chpst chroot chrt cgexec crontab dbus-run-session doas entr env expect fakeroot firejail flock gosu hyperfine \
         ionice ld.so logsave ltrace nice nohup nsenter numactl parallel perf pkexec prlimit proot rlwrap run-parts runuser screen script \
         sem setarch setpriv setsid sg ssh start-stop-daemon stdbuf strace su sudo systemd-run taskset time timeout tmux unbuffer unshare \
         valgrind watch watchexec xargs xvfb-run",
        Always,
    ),
    // Languages and editors that look like tools.
    ("awk gawk mawk nawk m4 gnuplot gdb lldb ed ex vi vim view vimdiff nvim emacs", Always),
    ("sed gsed", If(|words| !is_plain_sed(words))),
    ("dc", Has(&["!"])),
    ("sqlite3", Has(&[".shell", ".system", ".sh", ".load", "load_extension", "edit(", ".import", ".output", ".once"])),
    ("psql", Has(&["\\!", "\\o", "\\g", "\\copy", "rogram", "ROGRAM"])),
    ("mysql mariadb", Has(&["\\!", "system", "\\P", "pager", "\\T", "tee"])),
    // Options of others.
    ("find gfind", Given("-exec -execdir -ok -okdir -fprintf -fprint -fls -fprint0")),
    ("fd fdfind", Given("-x -X --exec --exec-batch")),
    ("rg", Given("--pre --hostname-bin")),
    ("tar gtar bsdtar", If(tar_runs)),
    ("git", If(git_runs)),
    ("hg", Given("--config")),
    ("jj", Given("--config --config-toml --config-file")),
    ("svn", Given("--config-option --diff-cmd --diff3-cmd --editor-cmd")),
    ("rsync", Given("-e --rsh --rsync-path")),
    ("scp sftp", Given("-S -o -D")),
    ("sort gsort", Given("--compress-program")),
    ("split gsplit", Given("--filter")),
    ("zip", Given("-TT --unzip-command")),
    ("cpio", Given("--rsh-command")),
    ("man", Given("-P -H --pager --html --preprocessor")),
    ("cargo", Given("--config")),
    ("go", Given("-exec -toolexec -vettool -overlay -modfile")),
    ("make gmake", Given("--eval SHELL= .SHELLFLAGS= MAKE=")),
    ("gcc g++ cc c++ clang clang++", Given("-wrapper -specs -fplugin -B -Xclang")),
    ("tcpdump", Given("-z")),
    ("wget", Given("--use-askpass --execute -e")),
    ("curl", Given("-K --config")),
    ("openssl", Given("engine -engine -provider -provider-path")),
    ("pandoc", Given("-F --filter -L --lua-filter --pdf-engine")),
    ("ip", If(|words| words.contains(&"exec"))),
];

/// Whether a command runs something that only its arguments name.
pub(super) fn runs_another(words: &[Word]) -> bool {
    let [program, arguments @ ..] = words else { return false };
    let program = program.program();
    let arguments: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    TABLE.iter().filter(|(names, _)| names.split_whitespace().any(|name| name == program)).any(|(_, when)| match when {
        Always => true,
        Given(options) => arguments.iter().any(|word| options.split_whitespace().any(|option| is_option(word, option))),
        Has(texts) => arguments.iter().any(|word| texts.iter().any(|text| word.contains(text))),
        If(so) => so(&arguments),
    })
}

/// Whether a word gives an option.
fn is_option(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    match option.as_bytes() {
        [b'-', b'-', ..] => name.len() > 2 && name.starts_with("--") && option.starts_with(name),
        [b'-', letter] => {
            !word.starts_with("--") && word.starts_with('-') && word.bytes().skip(1).any(|byte| byte == *letter)
        }
        [b'-', ..] => name == option || name.strip_prefix('-') == Some(option),
        _ => word.starts_with(option),
    }
}

/// An element of an array, whose number is worked out.
fn names_element(word: &str) -> bool {
    word.contains('[') && word.contains(['$', '`'])
}

fn tar_runs(words: &[&str]) -> bool {
    const LONG: &str = "--checkpoint-action --use-compress-program --to-command --info-script --new-volume-script --rsh-command \
        --rmt-command";
    // The first word may be letters without a dash.
    let letters = |(at, word): (usize, &&str)| {
        (at == 0 || word.starts_with('-')) && !word.starts_with("--") && word.contains(['I', 'F'])
    };
    words.iter().any(|word| LONG.split_whitespace().any(|option| is_option(word, option)))
        || words.iter().enumerate().any(letters)
}

fn git_runs(words: &[&str]) -> bool {
    let mut rest = words.iter();
    let mut deed = "";
    while let Some(word) = rest.next() {
        if *word == "-c" || word.starts_with("--config-env") || word.starts_with("--exec-path=") {
            return true;
        }
        if ["-C", "--git-dir", "--work-tree", "--namespace"].contains(word) {
            rest.next();
        } else if !word.starts_with('-') {
            deed = word;
            break;
        }
    }
    let rest: Vec<&str> = rest.copied().collect();
    let given =
        |options: &str| rest.iter().any(|word| options.split_whitespace().any(|option| is_option(word, option)));
    let deeds = match deed {
        "bisect" => rest.contains(&"run"),
        "submodule" => rest.contains(&"foreach"),
        "filter-branch" | "config" | "difftool" | "mergetool" | "send-email" | "daemon" | "instaweb" => true,
        "rebase" => given("-x --exec"),
        "grep" => given("-O --open-files-in-pager"),
        "clone" => given("-c --config -u --upload-pack --template"),
        "init" => given("--template"),
        _ => false,
    };
    deeds || given("--ext-diff --textconv --upload-pack --receive-pack --exec ext::")
}

/// Whether all that `sed` is told is to print, delete and replace.
fn is_plain_sed(words: &[&str]) -> bool {
    let mut scripts: Vec<&str> = Vec::new();
    let mut first = true;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-e" | "--expression" => scripts.extend(rest.next()),
            "-n" | "-r" | "-E" | "-s" | "-u" | "-z" | "-i" | "-nE" | "-nr" | "-En" | "--quiet" | "--silent"
            | "--in-place" | "--regexp-extended" | "--sandbox" | "--posix" | "--" => continue,
            word if word.starts_with('-') => return false,
            word if first && scripts.is_empty() => scripts.push(word),
            _ => {}
        }
        first = false;
    }
    !scripts.is_empty() && scripts.iter().all(|script| is_plain_script(script))
}

fn is_plain_script(script: &str) -> bool {
    let mut rest = script.trim();
    while !rest.is_empty() {
        // A place: numbers, the end, or a pattern between slashes; one, or two with a comma.
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "$,! ".contains(c));
            match rest.strip_prefix('/') {
                Some(pattern) => match after(pattern, '/') {
                    Some(after) => rest = after,
                    None => return false,
                },
                None => break,
            }
        }
        let Some(deed) = rest.chars().next() else { return false };
        rest = &rest[deed.len_utf8()..];
        match deed {
            'p' | 'd' | 'q' | '=' | 'h' | 'H' | 'g' | 'G' | 'n' | 'N' | 'x' | 'D' | 'P' => {}
            's' => {
                let Some(sign) = rest.chars().next().filter(|sign| "/|#,:@%!".contains(*sign)) else { return false };
                let Some(end) = after(&rest[1..], sign).and_then(|rest| after(rest, sign)) else { return false };
                rest = end.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiIM".contains(c));
            }
            _ => return false,
        }
        rest = rest.trim_start_matches(' ');
        match rest.strip_prefix([';', '\n']) {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => {}
            None => return false,
        }
    }
    true
}

/// What follows a sign that no backslash stands before.
fn after(text: &str, sign: char) -> Option<&str> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == sign && !escaped {
            return Some(&text[at + c.len_utf8()..]);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::rules::CommandLine;

    #[test]
    fn arguments_that_are_run_are_known() {
        for line in [
            "printf -v 'a[$(id)]' x",
            "printf -va x",
            "printf '%d' 'a[$(id)]'",
            "test -v 'a[$(id)]'",
            "test -v x",
            "[ -v 'a[`id`]' ]",
            "[ 'a[x]' -eq 1 ]",
            "test 'a[$(id)]' -eq 0",
            "read 'a[$(id)]'",
            "declare 'a[$(id)]=1'",
            "typeset x",
            "let 'a[$(id)]'",
            "unset 'a[$(id)]'",
            "export 'a[$(id)]'",
            "local x",
            "readonly x",
            "mapfile -C id x",
            "wait -p 'a[$(id)]'",
            "getopts x 'a[$(id)]'",
            "eval id",
            "env id",
            "xargs id",
            "nice id",
            "time id",
            "find . -exec id +",
            "find . -okdir id",
            "find . -fprintf x y",
            "awk 'BEGIN{system(\"id\")}'",
            "gawk x",
            "sed 1e",
            "sed -n '1e id' x",
            "sed 's/a/id/e' x",
            "sed 's/a/id/ge'",
            "sed -f x",
            "sed -e p -e 1e x",
            "sed --expression=1e x",
            "sed 'w x' y",
            "sed 's/a/b/w x'",
            "sed -s --fi=x",
            "sed '/x/{e id\n}'",
            "git -c core.pager=id log",
            "git --config-env=a=b log",
            "git --exec-path=/x log",
            "git -C x -c a=b log",
            "git bisect run id",
            "git submodule foreach id",
            "git rebase -x id",
            "git rebase --exec=id x",
            "git rebase --exe id",
            "git grep -O id",
            "git grep -Oid",
            "git log --ext-diff",
            "git ls-remote --upload-pack=id x",
            "git clone ext::id x",
            "git clone -c a=b x",
            "git config a.b c",
            "git difftool -x id",
            "tar --checkpoint-action=exec=id -cf x y",
            "tar --checkpoint-a exec=id",
            "tar -cf x -I id y",
            "tar xIf id x",
            "tar --to-command=id -xf x",
            "tar -xFf id x",
            "rsync -e id x y",
            "rsync --rsh=id x y",
            "rsync -avze id",
            "sort --compress-program=id",
            "split --filter=id x",
            "zip -T -TT id x y",
            "fd -x id",
            "rg --pre id x",
            "man -P id x",
            "cargo --config x build",
            "go test -exec id",
            "go vet -vettool=x",
            "make --eval=x",
            "make SHELL=/x",
            "gcc -wrapper id x.c",
            "gcc -fplugin=x y.c",
            "tcpdump -z id",
            "sqlite3 x '.shell id'",
            "psql -c '\\! id'",
            "dc -e '!id'",
            "ip netns exec x id",
            "vim -c '!id'",
            "/usr/bin/env id",
            "sudo id",
            "timeout 1 id",
            "command id",
        ] {
            assert!(CommandLine::parse(line).complex().is_some(), "{line}");
        }
    }

    #[test]
    fn what_runs_nothing_else_is_plain() {
        for line in [
            "printf '%s\\n' x",
            "printf '[%s]' x",
            "test -f x",
            "find . -name x",
            "find . -type f -delete",
            "sed -n 1,5p x",
            "sed -n '5p' x",
            "sed 's/a/b/g' x",
            "sed -i 's|a/e|b|' x",
            "sed -e 's/a\\/b/c/2' -e '$d' x",
            "sed '/a/d' x",
            "sed -E 's/(a|b)+/e/; 3q' x",
            "git log -c",
            "git switch -c x",
            "git status",
            "git -C x diff",
            "git grep x",
            "git rebase main",
            "git commit -m x",
            "tar -xf x",
            "tar czf x.tgz Files",
            "rsync -av x y",
            "sort -u x",
            "cargo test --color always",
            "go test ./x",
            "make test",
            "rg x",
            "fd x",
            "zip -r x y",
            "man x",
            "sqlite3 x 'select 1'",
            "psql -c 'select 1'",
            "ip a",
            "cat x",
        ] {
            assert_eq!(CommandLine::parse(line).complex(), None, "{line}");
        }
    }
}
