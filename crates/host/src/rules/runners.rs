//! Which programs run, or write to, what their arguments say: the one table, with the arguments that make them do so.
//!
//! A rule like `run printf *` is meant for printing, and `run git log *` for looking. Where a program in this table is given such an
//! argument, the line is complex, so that no rule that allows covers it, unless the rule has that argument in it. Of programs that are not in it, some options count by
//! their names ([`TELLING_NAMES`]). Interpreters and package runners (`python *`, `npx *`) are not in it: who allows them with any
//! argument can see that this is everything.

use super::shell::Word;

/// When a program runs, or writes to, what it is told.
enum When {
    /// Whatever its arguments are.
    Always,
    /// With one of these words: `--option` also shortened and with `=value`, `-x` also among other letters, `-word` with one or two
    /// dashes, `^start` and others as the start of a word.
    Given(&'static str),
    /// With one of these options, if this is so of its value.
    With(&'static str, fn(&str) -> bool),
    /// With a word that has one of these texts in it, in any case of letters.
    Has(&'static [&'static str]),
    /// With one of these subcommands, and one of those words if there are any.
    Doing(&'static str, &'static str),
    /// As this says of its arguments.
    If(fn(&[&str]) -> bool),
}
use When::{Always, Doing, Given, Has, If, With};

/// Options that run or write what they name in most programs that have them.
const TELLING_NAMES: &str = "--exec --execute --eval --command --shell --script-shell --pager --editor --browser --config \
    --config-file --plugin --plugins --require --import --loader --wrapper --output --output-file --output-dir --output-directory \
    --outfile --outdir --out-dir --out-file --log-file";

/// Programs with other meanings for such names: `--output json`.
const OTHER_NAMES: &str = "aws az doctl gcloud helm kubectl oc";

/// Options of make that name other rules, or another folder with rules.
const MAKE_OPTIONS: &str = "-f -C -I -E --eval --file --makefile --directory --include-dir";

/// Programs, and when they run or write what they are told.
const TABLE: &[(&str, When)] = &[
    // Another shell, or a shell's own words that run their arguments.
    (
        "sh ash bash busybox cmd csh dash elvish fish ksh ksh93 mksh nu osh powershell pwsh rbash tcsh toybox xonsh zsh . alias bind \
         builtin command compgen complete coproc enable eval exec fc hash source trap",
        Always,
    ),
    ("jobs", Given("-x")),
    // They set variables, and what is between brackets in a name, or in a number, is run: `a[$(…)]`.
    ("declare export getopts let local mapfile read readarray readonly typeset unset wait", Always),
    ("printf", If(|words| words.iter().any(|word| word.starts_with("-v") || names_element(word)))),
    (
        "test [",
        If(|words| words.iter().any(|word| matches!(*word, "-v" | "-R") || (*word != "[" && word.contains('[')))),
    ),
    // Programs that start another one.
    (
        "ansible ansible-console ansible-pull at batch bwrap capsh catchsegv chpst choom chroot chronic chrt cgexec cpulimit crontab daemonize dbus-run-session doas dtach \
         eatmydata entr env expect fakeroot faketime firejail flock gosu hyperfine ifne ionice ld.so logsave ltrace nice nohup nsenter \
         nsjail numactl parallel perf pkexec prlimit proot rlwrap run-parts runcon runuser schroot screen script sem setarch setpriv \
         setsid sg socat ssh ssh-agent sshpass start-stop-daemon stdbuf strace su sudo systemd-inhibit systemd-nspawn systemd-run taskset \
         time timeout tmux torify torsocks unbuffer unshare valgrind watch watchexec xargs xdg-open xvfb-run",
        Always,
    ),
    // Languages and editors that look like tools.
    ("awk gawk mawk nawk m4 gnuplot gdb lldb ed ex vi vim view vimdiff nvim emacs nano", Always),
    ("sed gsed", If(|words| !is_plain_sed(words))),
    ("sed gsed", Given("-i --in-place")),
    ("dc", Has(&["!"])),
    (
        "sqlite3",
        Has(&[
            ".sh",
            ".sys",
            ".load",
            "load_extension",
            "edit(",
            ".import",
            ".output",
            ".once",
            ".excel",
            ".log",
            ".backup",
            ".save",
            ".clone",
            ".read",
            ".open",
            "writefile",
            "attach",
            "into",
            "-init",
            "-cmd",
        ]),
    ),
    (
        "psql",
        Has(&["\\!", "\\o", "\\g", "\\copy", "\\w", "\\i", "\\s", "\\e", "\\lo", "lo_export", "program", "copy "]),
    ),
    ("psql", Given("-o -L -f --file")),
    (
        "mysql mariadb",
        Has(&["\\!", "system", "\\p", "pager", "\\t", "tee", "source", "\\.", "file", "plugin", "-command"]),
    ),
    // Looking at text and files.
    ("find gfind", Given("-exec -execdir -ok -okdir -fprintf -fprint -fls -fprint0 -delete")),
    ("fd fdfind", Given("-x -X --exec-batch")),
    ("fzf", Given("--preview --bind --listen --tmux")),
    ("rg", Given("--pre --hostname-bin")),
    ("less more most", Given("+ -o -O -k --lesskey --LOG-FILE")),
    ("man apropos whatis", Given("-P -H -C --html --preprocessor")),
    ("sort gsort", Given("--compress-program -o")),
    ("split gsplit", Given("--filter")),
    ("shuf iconv tree xsltproc", Given("-o")),
    ("yq", Given("-i -s --inplace --split-exp")),
    ("uniq xxd", If(|words| words.iter().filter(|word| !word.starts_with('-')).count() > 1)),
    // Archives and copies.
    ("tar gtar bsdtar", If(tar_runs)),
    ("rsync", Given("-e -M --rsh --rsync-path --remote-option --write-batch")),
    ("scp sftp", Given("-S -o -D")),
    ("zip", Given("-TT --unzip-command")),
    ("cpio", Given("--rsh-command")),
    // Versions.
    ("git", If(git_is_led)),
    (
        "git",
        Given("--ext-diff --textconv --no-index --upload-pack --receive-pack --open-files-in-pager --contents ext::"),
    ),
    ("git", Doing("config credential daemon difftool filter-branch hook instaweb mergetool", "")),
    ("git", Doing("p4 send-email shell svn web--browse for-each-repo cvsserver cvsexportcommit quiltimport", "")),
    ("git", If(|words| first_words(words).any(|word| word.starts_with("remote-") || word.starts_with("credential-")))),
    ("git", Doing("merge-index merge-tool mailinfo am apply http-backend upload-pack receive-pack upload-archive", "")),
    ("git", Doing("bisect submodule", "run foreach")),
    ("git", Doing("worktree maintenance", "add move start register")),
    ("git", Doing("bugreport diagnose interpret-trailers", "-o --in-place")),
    ("git", Doing("rebase", "-x")),
    ("git", Doing("grep", "-O")),
    ("git", Doing("clone init", "-c -u --template")),
    ("git", Doing("archive format-patch mailsplit", "-o --remote")),
    (
        "git",
        Doing(
            "bundle checkout-index read-tree fast-export fast-import",
            "create --prefix --index-output --export-marks",
        ),
    ),
    ("gh glab", Doing("alias config extension", "")),
    ("svn", Given("--config-option --diff-cmd --diff3-cmd --editor-cmd")),
    ("jj", Given("--config-toml")),
    // Building and testing.
    ("cargo", Given("^-C ^-Z --artifact-dir --manifest-path ^--target-dir --lockfile-path --root")),
    ("rustc", Given("@ ^-Z ^-o --sysroot")),
    ("rustc", Has(&["linker"])),
    (
        "go",
        Given(
            "-exec -toolexec -vettool -overlay -modfile -pkgdir -compiler -gccgoflags ^-C ^--C ^-test. ^--test. ^-o -ldflags -gcflags -asmflags -outputdir -coverprofile -cpuprofile \
             -memprofile -blockprofile -mutexprofile -trace",
        ),
    ),
    ("go", Doing("env", "^-w ^-u ^--w ^--u")),
    // A variable can be what is run, or stand in a line for the shell.
    ("make gmake", If(|words| words.iter().any(|word| !word.starts_with('-') && word.contains('=')))),
    ("make gmake", Given(MAKE_OPTIONS)),
    ("ninja", Given("-f")),
    ("ninja", With("^-C", is_elsewhere)),
    ("just", Given("-f -d -c --command --shell --justfile --working-directory --set --chooser --edit")),
    ("cmake", Given("^-E ^-P ^-C")),
    (
        "cmake",
        Has(&[
            "compiler",
            "launcher",
            "program",
            "executable",
            "command",
            "rule",
            "toolchain",
            "linker",
            "plugin",
            "project_include",
            "module_path",
            "graphviz",
        ]),
    ),
    ("cmake", With("^-S ^-B --build --install --prefix", is_elsewhere)),
    // What follows is for make or ninja.
    (
        "cmake",
        If(|words| {
            let more = words.iter().position(|word| *word == "--").map_or(&[][..], |at| &words[at + 1..]);
            gives(more, MAKE_OPTIONS) || more.iter().any(|word| word.contains('='))
        }),
    ),
    ("ctest", Given("-S -O --script --build-and-test --output-log --output-junit")),
    (
        "gcc g++ cc c++ clang clang++",
        Given(
            "-wrapper -specs -fplugin ^-B -Xclang @ ^-o ^-MF ^-Wp, ^-fuse-ld ^-fdump ^-dump ^-save-temps --save-temps --ld-path -aux-info",
        ),
    ),
    ("gcc g++ cc c++ clang clang++ ld ld.bfd ld.gold ld.lld mold", Has(&["-plugin", "-load"])),
    ("ld ld.bfd ld.gold ld.lld mold", Given("^-o -Map -dependency-file -run @")),
    ("javac", Given("-processor -processorpath ^-J @")),
    ("mvn mvnw", Has(&["maven.ext", "jvm", "argline", "exec.", "agent", "repo.local"])),
    ("mvn mvnw", Given("^-f ^-s ^-gs ^-gt ^-t ^-l --file --settings --global-settings --toolchains")),
    (
        "gradle gradlew",
        Given(
            "^-I ^-b ^-c ^-g ^-p --init-script --build-file --settings-file --project-dir --gradle-user-home --include-build",
        ),
    ),
    (
        "dotnet msbuild",
        Given("^-p: ^/p: ^-prop ^/prop ^-l: ^/l @ ^-o --settings --test-adapter-path --diag --results-directory"),
    ),
    (
        "bazel bazelisk",
        Given("--run_under --shell_executable --bazelrc --workspace_status_command --override_repository"),
    ),
    (
        "npm pnpm yarn",
        Given(
            "-script-shell -prefix -node-options -userconfig -globalconfig -init-module -viewer -git -onload-script ^--config. \
             -browser -editor -shell -C --dir --cwd",
        ),
    ),
    ("bun", Given("^-r ^-c --preload --require --import --config --cwd ^--reporter-outfile ^--coverage-dir")),
    ("deno", Given("^-c --config --preload --import-map --import --require --junit-path")),
    (
        "pytest",
        Given(
            "-c -o --rootdir --basetemp --junitxml --junit-xml --pdbcls --override-ini --cov-config --html --report-log --confcutdir",
        ),
    ),
    ("pytest", With("^-p", |plugin| !plugin.starts_with("no:"))),
    ("mypy", Given("--python-executable --junit-xml --cache-dir --shadow-file --custom-typeshed-dir --install-types")),
    ("mypy", Has(&["-report"])),
    ("ruff", Given("^-o --cache-dir")),
    ("pip pip3", Given("--log --python")),
    ("eslint", Given("-c -o --rulesdir --parser --resolve-plugins-relative-to ^--cache-file ^--cache-location")),
    ("eslint stylelint", With("-f --format --formatter --custom-formatter", is_path)),
    ("jest vitest mocha", Given("-c -r --globalSetup --runner --testRunner --transform --resolver --setupFiles")),
    (
        "jest",
        Given(
            "--globalTeardown --setupFilesAfterEnv --reporters --testResultsProcessor --testSequencer --snapshotSerializers --preset \
             --rootDir --roots --projects --filter ^--watchP ^--watch-p --moduleNameMapper --modulePaths --dependencyExtractor \
             ^--coverageD ^--coverage-d ^--cacheD ^--cache-d --prettierPath",
        ),
    ),
    ("jest vitest mocha", With("-R --reporter --ui --testEnvironment --environment --pool --root --dir", is_path)),
    ("tsc", Given("--outDir --outFile --declarationDir --generateTrace --tsBuildInfoFile")),
    ("rake", Given("-f -r -e -E --rakefile")),
    ("rspec rubocop", Given("-r -o -O --options --out ^-I --default-path")),
    ("phpunit", Given("-c --bootstrap --configuration --printer --extension --log-junit")),
    (
        "ansible-playbook",
        Given(
            "-e -M -c --extra-vars --module-path --connection --ssh-common-args --ssh-extra-args --scp-extra-args --sftp-extra-args",
        ),
    ),
    ("terraform tofu", Given("-chdir -plugin-dir -out -state -state-out -backup")),
    ("kubectl oc helm", Given("--kubeconfig --post-renderer")),
    // The system and the network.
    ("date gdate", Given("^-s ^-us --set")),
    ("dot neato twopi circo fdp sfdp osage patchwork", Given("^-o ^-O ^-l")),
    ("apt apt-get apt-cache aptitude dnf yum", Given("-o -c --option --setopt --installroot")),
    ("rpm rpmbuild", Given("-E -D --define --pipe --rcfile --macros --load")),
    ("dpkg pacman", Given("--pre-invoke --post-invoke --hookdir --dbpath --admindir --root --instdir")),
    ("nc ncat netcat", Given("-e -c --sh-exec --lua-exec")),
    ("nmap", Given("-o --script --interactive --datadir")),
    ("tcpdump", Given("-z -w")),
    ("tshark", Given("-w -X")),
    (
        "wget",
        Given(
            "-O -o -a -P -i -e --use-askpass --output-document --append-output --directory-prefix --input-file --post-file --body-file \
             --save-cookies --warc-file",
        ),
    ),
    (
        "curl",
        Given(
            "-K -o -O -c -D -J -T --remote-name --remote-name-all --cookie-jar --dump-header --trace --trace-ascii --stderr --libcurl \
             --etag-save --hsts --alt-svc --upload-file",
        ),
    ),
    ("openssl", Given("engine -engine -provider -provider-path -out -keyout -config -writerand")),
    ("gpg", Given("-o --exec-path --photo-viewer --options --agent-program --homedir")),
    ("pandoc", Given("-F -L -o --filter --lua-filter --pdf-engine")),
    ("ip tc", If(|words| words.contains(&"exec") || words.iter().any(|word| word.starts_with("-b")))),
];

/// Programs that plainly are there to run what their arguments say: languages, and what starts programs of a project or a package.
const STARTERS: &str = "bun bunx bundle conda corepack deno direnv docker hatch just kubectl lua make mise mix nix nix-shell node \
    npm npx osascript pdm perl php pipenv pipx pixi pnpm podman poetry pypy python python2 python3 ruby rustup rye task tox ts-node \
    tsx uv uvx volta yarn";

/// Whether a program is there to run what its arguments say, so that a command behind its name counts as one.
pub(super) fn starts_others(program: &str) -> bool {
    STARTERS.split_whitespace().any(|name| name == program)
}

/// Why a command may run or write something that only its arguments name, those after the first `named` words.
pub(super) fn runs_another(words: &[Word], named: usize) -> Option<&'static str> {
    let [program, arguments @ ..] = words else { return None };
    let program = program.program();
    let arguments: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    let more = arguments.get(named.saturating_sub(1)..).unwrap_or_default();
    let lists = |names: &str| names.split_whitespace().any(|name| name == program);
    let given = |options: &str| gives(more, options);
    let told = |when: &When| match when {
        Always => true,
        Given(options) => given(options),
        With(options, so) => more.iter().enumerate().any(|(at, word)| {
            let next = more.get(at + 1).copied().unwrap_or_default();
            let value = match word.split_once('=') {
                Some((_, value)) => value,
                None if word.len() > 2 && !word.starts_with("--") => word.get(2..).unwrap_or_default(),
                None => next,
            };
            gives(&[word], options) && so(value)
        }),
        Has(texts) => more.iter().any(|word| texts.iter().any(|text| word.to_ascii_lowercase().contains(text))),
        Doing(deeds, options) => {
            first_words(&arguments).any(|word| deeds.split_whitespace().any(|deed| deed == word))
                && (options.is_empty() || given(options))
        }
        If(so) => so(&arguments),
    };
    let mut rows = TABLE.iter().filter(|(names, _)| lists(names)).map(|(_, when)| when).filter(|when| told(when));
    match rows.next() {
        Some(Always) => Some("its program runs another one"),
        Some(_) => Some("its arguments may run another program or write a file"),
        None if starts_others(&program) || lists(OTHER_NAMES) => None,
        None => given(TELLING_NAMES).then_some("an option of it may run another program or write a file"),
    }
}

/// The words that may be the subcommand: the first that is no option, and those before it that may only be values of options.
fn first_words<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut after_option = false;
    let (mut ended, is_option) = (false, |word: &str| word.starts_with('-'));
    let candidates = words.iter().copied().take_while(move |word| {
        let goes_on = !ended;
        ended |= !is_option(word) && !after_option;
        after_option = is_option(word);
        goes_on
    });
    candidates.filter(move |word| !is_option(word))
}

/// Whether words give one of these options.
fn gives(words: &[&str], options: &str) -> bool {
    words.iter().any(|word| options.split_whitespace().any(|option| is_option(word, option)))
}

/// Whether a word gives an option.
pub(super) fn is_option(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    match option.as_bytes() {
        // `--outDir`, `--out-dir` and `--outdir` are one to many programs.
        [b'-', b'-', ..] => name.len() > 2 && name.starts_with("--") && joined(option).starts_with(&joined(name)),
        [b'-', letter] => {
            !word.starts_with("--") && word.starts_with('-') && word.bytes().skip(1).any(|byte| byte == *letter)
        }
        [b'-', ..] => {
            let name = if name.starts_with("--") { &name[1..] } else { name };
            name.len() > 2 && option.starts_with(name)
        }
        [b'^', ..] => word.starts_with(&option[1..]),
        _ => word.starts_with(option),
    }
}

/// The name of an option without what joins its words.
fn joined(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether the value of an option is a path, not a name that the program knows.
fn is_path(value: &str) -> bool {
    value.starts_with('.') || value.contains('/')
}

/// Whether a folder may be outside the one that the command runs in.
fn is_elsewhere(folder: &str) -> bool {
    folder.starts_with(['/', '~']) || folder.split('/').any(|part| part == "..")
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
    gives(words, LONG) || words.iter().enumerate().any(letters)
}

/// Whether git is given settings or another repository before it is told what to do.
fn git_is_led(words: &[&str]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next().filter(|word| word.starts_with('-')) {
        if *word == "-c" || gives(&[word], "--config-env --git-dir") || word.starts_with("--exec-path=") {
            return true;
        }
        if ["-C", "--work-tree", "--namespace"].contains(word) {
            rest.next();
        }
    }
    false
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

    const RUNNING: &[&str] = &[
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
        "git log --output=x",
        "git log --outp x",
        "git diff --no-index /dev/null x",
        "git diff --textconv",
        "git show --ext-diff",
        "git --git-dir=x log",
        "git -C x --git-dir x log",
        "git -C x config a b",
        "git archive -o x HEAD",
        "git format-patch -ox",
        "git blame --contents x y",
        "git credential fill",
        "git bundle create x HEAD",
        "git fast-export --export-marks=x",
        "git checkout-index --prefix=/x/ y",
        "npm test --script-shell=x",
        "npm test -script-shell x",
        "npm test --script-sh=x",
        "npm test --prefix x",
        "pnpm test --config.script-shell=x",
        "cmake -E env id",
        "cmake -P x",
        "cmake -DCMAKE_C_COMPILER_LAUNCHER=x .",
        "make -f x",
        "make test -sfx",
        "make CC=x",
        "make test ARGS=';id'",
        "bat --pager=id x",
        "bat --pager id x",
        "ag --pager id x",
        "jobs -x id",
        "less +!id x",
        "less -ox y",
        "man -Hid x",
        "sort -o x y",
        "uniq x y",
        "curl -so x y",
        "curl --output x y",
        "wget -O x y",
        "apt-get -o a=b update",
        "rpm --eval x",
        "kubectl get pods --kubeconfig x",
        "go test -coverprofile=x",
        "go build -o x",
        "pytest --basetemp=x",
        "eslint -o x",
        "mvn test -DargLine=-javaagent:x",
        "gradle -Ix test",
        "dotnet test -p:x=y",
        "rustc -Clinker=x",
        "unknown --exec id",
        "unknown --output=x",
        "unknown --config x",
        "socat - exec:id",
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
        "git remote-ext x 'touch x'",
        "git remote-fd 0",
        "git remote-https x",
        "git -C x remote-ext x id",
        "git credential-store get",
        "git merge-index id -a",
        "git worktree add /x",
        "git am x",
        "git apply x",
        "git mailinfo x y",
        "git interpret-trailers --in-place x",
        "git maintenance start",
        "git bugreport -o x",
        "git diagnose --output-directory=x",
        "jest --config x",
        "jest --globalSetup=./x",
        "jest --global-setup ./x",
        "jest --transform x",
        "jest --runner x",
        "jest --testRunner x",
        "jest --reporters x",
        "jest --setupFilesAfterEnv x",
        "jest --coverageDirectory=x",
        "mocha --reporter ./x.js",
        "mocha -R ./x.js",
        "vitest run --reporter=./x.js",
        "deno test --config x",
        "deno test --preload x",
        "bun test --preload x",
        "bun test -r x",
        "bun test --cwd x",
        "rspec --require x",
        "rspec -I x",
        "rspec -Ox",
        "pytest -p x",
        "pytest -px",
        "eslint -f ./x.js .",
        "eslint --format=./x.js .",
        "eslint --cache-file x",
        "mypy --python-executable x",
        "mypy --junit-xml x",
        "mypy --html-report x",
        "ruff check -o x",
        "mvn -gs x test",
        "ld -plugin x",
        "ld --plugin=x",
        "gcc -fuse-ld=x y.c",
        "gcc -MF x y.c",
        "gcc -o x y.c",
        "gcc -Wl,-plugin,x y.c",
        "cmake --build . -- CC=x",
        "cmake --build . -- -f x",
        "cmake --build /x",
        "cmake -S ../x -B build",
        "ansible all -m shell -a id",
        "npm test -C x",
        "pnpm test --dir x",
        "yarn test --cwd x",
        "go test -C x",
        "go env -w CC=x",
        "cargo test --manifest-path x",
        "cargo test --target-dir=x",
        "cargo -C x test",
        "ninja -C /x",
        "ninja -C../x",
        "dot -ox y",
        "date -s x",
        "date --set=x",
        "find . -type f -delete",
        "sed -i 's|a/e|b|' x",
        "sed -ni.bak p x",
        "sed --in-place=x s/a/b/ y",
    ];

    const PLAIN: &[&str] = &[
        "printf '%s\\n' x",
        "printf '[%s]' x",
        "test -f x",
        "find . -name x",
        "find . -type f -depth",
        "sed -n 1,5p x",
        "sed -n '5p' x",
        "sed 's/a/b/g' x",
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
        "cargo test --release -p x -- --nocapture",
        "cargo build --all-targets --locked",
        "git log --oneline -n 5 -p --stat",
        "git diff --cached --output-indicator-new=x -- config hook",
        "git add config hook",
        "git show HEAD:x",
        "npm test -- --watch=false",
        "npm run build --silent",
        "pnpm --filter x test",
        "pytest -x -vv -k x --tb=short",
        "go test -run X -count=1 -v ./...",
        "go build ./...",
        "make -j4 test",
        "ninja -C build",
        "cmake --build build --parallel 4",
        "cmake -B build -DCMAKE_BUILD_TYPE=Release",
        "gradle test --tests X -Pskip=y",
        "mvn -q test -DskipITs -Dtest=X",
        "rspec -f doc -e x",
        "dotnet test --filter x",
        "kubectl get pods --output json",
        "less x",
        "ls -la --color",
        "grep -rn --include=*.rs x .",
        "curl -sSL x",
        "uniq -c x",
        "python3 -c 'print(1)'",
        "node --eval 1",
        "jest --ci x",
        "eslint --fix .",
        "tsc --noEmit",
        "git remote -v",
        "git worktree list",
        "git maintenance run --auto",
        "jest --coverage --verbose -t x",
        "vitest run --reporter=verbose src/x",
        "mocha --reporter dot test/x",
        "eslint --format=json src/",
        "eslint -f json src/",
        "pytest -p no:cacheprovider -q tests/x.py",
        "deno test --allow-read x",
        "bun test --timeout 5",
        "mypy --strict --python-version 3.12 src",
        "ruff check --fix src",
        "gcc -Wall -O2 -c x.c",
        "cargo test --release --workspace --no-fail-fast --features x x::y",
        "cargo build --target x",
        "eslint --cache src",
        "bun test --coverage --reporter=junit",
        "jest --watch --cache",
        "cargo clippy --all-targets -- -D warnings",
        "cmake --build build --target x -- -j4",
        "cmake -S . -B build -G Ninja",
        "go test -race -run=TestC ./...",
        "date -Is",
        "date -u +%s",
        "dot -Tsvg x",
        "mvn -T 4 test",
    ];

    #[test]
    fn arguments_that_are_run_are_known() {
        for line in RUNNING {
            assert!(CommandLine::parse(line).complex().is_some(), "{line}");
        }
    }

    #[test]
    fn what_runs_nothing_else_is_plain() {
        for line in PLAIN {
            assert_eq!(CommandLine::parse(line).complex(), None, "{line}");
        }
    }
}
