//! The table: programs, and the arguments with which they run another program or write a file. Most of it is `table.txt`.

use super::sed::is_plain_sed;
use super::{
    begins_with, does_short, first_words, git_is_led, gives, imports_category, is_elsewhere, is_listed, is_path,
    leads_elsewhere, names_element, names_one, sqlite_runs, tar_runs,
};
use std::collections::HashMap;
use std::sync::LazyLock;

/// When a program runs, or writes to, what it is told.
pub(super) enum When {
    /// Whatever its arguments are.
    Always,
    /// With one of these words: `--option` also shortened and with `=value`, `-x` also among other letters, `-word` with one or two
    /// dashes, `^start` and others as the start of a word.
    Given(&'static str),
    /// The same, but only where a rule names more than the program: who allows `node *` allows all, who allows `node --check *` does not.
    /// With one of these subcommands, if there are any.
    Named(&'static str, &'static str),
    /// With another goal than those that a rule names. These options have a value, which is none.
    Goals(&'static str),
    /// With one of these subcommands, or the beginning of one, where a rule names only the program.
    Alone(&'static str),
    /// With a word, beyond those of the rule, of which this is so.
    More(fn(&str) -> bool),
    /// With one of these options, if this is so of its value.
    With(&'static str, fn(&str) -> bool),
    /// With a word that has one of these texts in it, in any case of letters.
    Has(&'static str),
    /// With one of these subcommands, and one of those words if there are any.
    Doing(&'static str, &'static str),
    /// As this says of its arguments.
    If(fn(&[&str]) -> bool),
}
use When::{Alone, Always, Doing, Given, Goals, Has, If, More, Named, With};

/// When a program of this name runs or writes what it is told, and its place in the table.
pub(super) fn rows(program: &str) -> impl Iterator<Item = (usize, &'static When)> {
    static PLAIN: LazyLock<Vec<(&str, When)>> = LazyLock::new(|| {
        let lines = include_str!("table.txt").lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(row).collect()
    });
    // By name, because a line may have thousands of commands.
    static ROWS: LazyLock<HashMap<&str, Vec<(usize, &When)>>> = LazyLock::new(|| {
        let mut rows: HashMap<&str, Vec<(usize, &When)>> = HashMap::new();
        for (at, (names, when)) in PLAIN.iter().chain(TABLE).enumerate() {
            for name in names.split_whitespace() {
                rows.entry(name).or_default().push((at, when));
            }
        }
        rows
    });
    ROWS.get(program).into_iter().flatten().copied()
}

/// Names of programs, and their subcommands if there are any.
fn with_deeds(names: &'static str) -> (&'static str, Option<&'static str>) {
    names.split_once(" [").map_or((names, None), |(names, deeds)| (names, Some(deeds.trim_end_matches(']'))))
}

fn row(line: &'static str) -> Option<(&'static str, When)> {
    if let Some((names, texts)) = line.split_once(" ~ ") {
        return Some((names, Has(texts)));
    }
    if let Some((names, deeds)) = line.strip_suffix('>').and_then(|line| line.split_once(" <")) {
        return Some((names, Alone(deeds)));
    }
    if let Some((names, options)) = line.split_once(" +: ") {
        let (names, deeds) = with_deeds(names);
        return Some((names, Named(deeds.unwrap_or_default(), options)));
    }
    let (names, words) = line.split_once(':')?;
    let (names, deeds) = with_deeds(names);
    let when = match (deeds, words.trim()) {
        (Some(deeds), words) => Doing(deeds, words),
        (None, "*") => Always,
        (None, words) => Given(words),
    };
    Some((names, when))
}

/// Options that run or write what they name in most programs that have them.
pub(super) const TELLING_NAMES: &str = "--exec --execute --eval --command --shell --script-shell --pager --editor --browser --config \
    --config-file --plugin --plugins --require --import --loader --wrapper --output --output-file --output-dir --output-directory \
    --outfile --outdir --out-dir --out-file --log-file --cwd --stack-yaml --taskfile";

/// Programs that run what a project has in it: to build, test or check it.
pub(super) const BUILDERS: &str = "\
    ant ava bazel bazelisk buck2 bun bundle cabal cargo cmake ctest cypress dart deno dotnet dune eslint fastlane flutter go golangci-lint gradle \
    gradlew grunt gulp invoke jest just karma lein make meson mix mocha mvn mvnw mypy ninja node nox npm npx nx phpunit playwright pnpm poetry \
    pre-commit prettier pytest rake rollup rspec rush sbt scons stack stylelint swift task tox tsc turbo unittest vite vitest webpack xcodebuild \
    yarn zig";

/// Programs with other meanings for such names: `--output json`.
pub(super) const OTHER_NAMES: &str = "aws az doctl gcloud helm kubectl oc";

/// Letters that name a file to write, or a folder to go to, in most programs of which nothing is known.
pub(super) const TELLING_LETTERS: &str = "-o -C";

/// Parts of the names of properties (`-Dx.y=`) that name programs, or arguments of them.
pub(super) const TELLING_PROPERTIES: &str =
    "exec jvmarg argline java.home java.installations agent compiler launcher program command script shell linker";

/// Programs that only tell, or do what their names say, whatever these letters mean to them.
pub(super) const PLAIN: &str = "\
    ls ll ps grep egrep fgrep zgrep ag ack lsblk lscpu lsof lsusb lspci df du free top htop findmnt id who w uptime uname cat tac head tail \
    wc cut tr paste join comm column fold fmt nl od hexdump strings expand unexpand diff cmp colordiff md5sum sha1sum sha256sum \
    sha512sum b2sum cksum stat readlink realpath basename dirname pwd echo true false seq sleep cal printenv locale getent netstat \
    ss ping dig host nslookup traceroute rm mv cp mkdir rmdir touch chmod chown chgrp ln cd popd jq bat eza exa lsd tput kill pkill \
    pgrep pidof pstree dmesg last groups tty nproc hostname which type whereis set shopt umask ulimit objdump nm readelf addr2line size ldd tokei cloc scc";

/// Programs that run code which they are given as text.
pub(super) const CODE: &str = "\
    python python2 python3 pypy pypy3 ipython perl ruby irb node nodejs deno bun tsx ts-node php lua luajit tclsh wish expect osascript awk \
    gawk mawk nawk r rscript julia elixir iex erl ghc runghc groovy scala kotlin jshell guile racket sbcl clisp clj clojure bb emacs \
    vim vi nvim ex gdb lldb psql mysql mariadb sqlite3 powershell pwsh xonsh nu octave gnuplot raku crystal dart swift nix";

/// Options of make that name other rules, or another folder with rules.
const MAKE_OPTIONS: &str = "-f -C -I -E --eval --file --makefile --directory --include-dir";

/// Those that need a closer look.
const TABLE: &[(&str, When)] = &[
    ("printf", If(|words| words.iter().any(|word| word.starts_with("-v") || names_element(word)))),
    (
        "test [",
        If(|words| words.iter().any(|word| matches!(*word, "-v" | "-R") || (*word != "[" && word.contains('[')))),
    ),
    ("sed gsed", If(|words| !is_plain_sed(words))),
    ("sqlite3", If(sqlite_runs)),
    ("uniq xxd", If(|words| words.iter().filter(|word| !word.starts_with('-') || **word == "-").count() > 1)),
    ("zip", If(|words| words.iter().any(|word| word.starts_with('-') && word.contains("TT")))),
    // What follows is for git.
    ("gh glab", More(|word| word == "--")),
    ("hg chg", If(|words| does_short(words, "extdiff debugshell debugpython debugcommands serve convert email"))),
    ("hg chg", If(|words| does_short(words, "bisect") && gives(words, "-c --command"))),
    ("hg chg", If(|words| does_short(words, "archive bundle clone") && gives(words, "-e -p --ssh --remotecmd"))),
    ("clang-tidy clang-check", With("^-p", is_elsewhere)),
    ("dotnet", With("^-l --logger", |name| !is_listed("console trx html", name.split(';').next().unwrap_or(name)))),
    ("dotnet", More(leads_elsewhere)),
    ("npm", If(|words| matches!(words.first(), Some(&("x" | "c"))))),
    ("node", With("^--test-reporter", |name| !is_listed("spec tap dot junit lcov", name))),
    ("pytest py.test jest vitest mocha phpunit rspec ava tap tox unittest", More(leads_elsewhere)),
    ("tar gtar bsdtar", If(tar_runs)),
    ("git", If(git_is_led)),
    ("git", If(|words| first_words(words).any(|word| word.starts_with("remote-") || word.starts_with("credential-")))),
    // A variable can be what is run, or stand in a line for the shell.
    ("make gmake", If(|words| words.iter().any(|word| !word.starts_with('-') && word.contains('=')))),
    ("make gmake", Given(MAKE_OPTIONS)),
    ("ninja", With("^-C", is_elsewhere)),
    ("cargo", With("--target", |name| is_path(name) || name.contains('.'))),
    ("cmake", With("^-S ^-B --build --install --prefix", is_elsewhere)),
    // What follows is for make or ninja.
    (
        "cmake",
        If(|words| {
            let more = words.iter().position(|word| *word == "--").map_or(&[][..], |at| &words[at + 1..]);
            gives(more, MAKE_OPTIONS) || more.iter().any(|word| word.contains('='))
        }),
    ),
    // A goal of any plug-in, which is loaded for it.
    ("mvn mvnw", If(|words| words.iter().any(|word| !word.starts_with('-') && word.contains(':')))),
    // Each is something else that is done: `mvn test deploy`.
    (
        "mvn mvnw",
        Goals(
            "-f -s -gs -t -gt -l -pl -P -T -rf -D -b --projects --activate-profiles --threads --resume-from --define --builder --color",
        ),
    ),
    (
        "gradle gradlew",
        Goals(
            "-b -c -g -I -p --tests -x -P -D --exclude-task --console --max-workers --warning-mode --project-prop --system-prop --priority",
        ),
    ),
    ("make gmake ninja ant rake", Goals("-C -f -I -j -l -k -W -o --jobs --load-average")),
    ("go", More(|word| matches!(word, "-c" | "--c" | "-c=true" | "--c=true"))),
    ("pytest py.test", More(imports_category)),
    ("pytest", With("^-p", |plugin| !plugin.starts_with("no:"))),
    (
        "eslint stylelint",
        With("-f --format --formatter --custom-formatter", |name| {
            !is_listed(
                "stylish json json-with-metadata html unix compact junit checkstyle tap visualstudio jslint-xml string verbose github",
                name,
            )
        }),
    ),
    (
        "jest vitest",
        With("--testEnvironment --environment --env", |name| !is_listed("node jsdom happy-dom edge-runtime", name)),
    ),
    ("mocha", With("-u --ui", |name| !is_listed("bdd tdd qunit exports", name))),
    (
        "mocha",
        With("-R --reporter", |name| {
            !is_listed("spec dot nyan tap landing list progress json json-stream min doc markdown xunit", name)
        }),
    ),
    ("pandoc", With("-t -f -r -w --to --from --read --write", |name| is_path(name) || name.contains('.'))),
    ("jest vitest mocha", With("-R --reporter --ui --testEnvironment --environment --pool --root --dir", is_path)),
    // Machines of others that run what they are told, and settings and files that are written here.
    (
        "gcloud",
        If(|words| names_one(words, "ssh scp copy-files config-ssh config submit execute get-credentials components")),
    ),
    ("az", If(|words| names_one(words, "run-command exec ssh command tunnel get-credentials extension config rest"))),
    ("doctl", If(|words| names_one(words, "ssh console kubeconfig"))),
    (
        "sysctl",
        If(|words| gives(words, "-w -p --write --load --system") || words.iter().any(|word| word.contains('='))),
    ),
    ("ip", If(|words| begins_with(words, "netns", "exec") || begins_with(words, "vrf", "exec"))),
    ("ip tc", If(|words| words.contains(&"exec") || words.iter().any(|word| word.starts_with("-b")))),
];

/// Programs that plainly are there to run what their arguments say: languages, and what starts programs of a project or a package.
pub(super) const STARTERS: &str = "\
    bun bunx bundle conda corepack deno direnv docker hatch just kubectl lua make mamba micromamba mise mix nix nix-shell node npm npx \
    osascript pdm perl php pipenv pipx pixi pnpm pnpx podman poetry pypy python python2 python3 ruby rustup rye task tox ts-node tsx uv \
    uvx volta yarn yarnpkg asdf bb cabal clj concurrently cross-env dart devbox dotenv dotenvx dotnet dune elixir erl fnm foreman \
    groovy guix honcho jbang julia lein lerna n nodemon nodenv npm-run-all nvm nx opam proto pyenv racket rbenv rscript runghc rush \
    sbcl scala stack swift tclsh turbo wasmer wasmtime \
    aws-vault chamber distrobox doppler envchain flatpak flatpak-spawn fly flyctl heroku incus infisical kitty lxc machinectl mosh \
    nerdctl oc op pssh rsh run0 salt snap sops teleport toolbox tsh vagrant wine wsl xterm zellij \
    apptainer bazel bazelisk bear buck2 buildah catatonit ccache ch-run colima consul-template crictl ctr distcc dumb-init envconsul envdir \
    icecc intercept-build java kcov lima limactl lockf multipass nomad pants pee rr s6-setuidgid sccache scan-build setlock singularity \
    softlimit su-exec summon teller tini ts tsp uftrace vault zrun \
    adb aria2c aws az bolt cf doctl eb gcloud knife oci railway tailscale";
