//! The table: programs, and the arguments with which they run another program or write a file. Most of it is `table.txt`.

use super::sed::is_plain_sed;
use super::{first_words, git_is_led, gives, is_elsewhere, is_path, names_element, names_one, tar_runs};
use std::sync::LazyLock;

/// When a program runs, or writes to, what it is told.
pub(super) enum When {
    /// Whatever its arguments are.
    Always,
    /// With one of these words: `--option` also shortened and with `=value`, `-x` also among other letters, `-word` with one or two
    /// dashes, `^start` and others as the start of a word.
    Given(&'static str),
    /// With one of these options, if this is so of its value.
    With(&'static str, fn(&str) -> bool),
    /// With a word that has one of these texts in it, in any case of letters.
    Has(&'static str),
    /// With one of these subcommands, and one of those words if there are any.
    Doing(&'static str, &'static str),
    /// As this says of its arguments.
    If(fn(&[&str]) -> bool),
}
use When::{Always, Doing, Given, Has, If, With};

/// Programs, and when they run or write what they are told.
pub(super) fn rows() -> impl Iterator<Item = (&'static str, &'static When)> {
    static PLAIN: LazyLock<Vec<(&str, When)>> = LazyLock::new(|| {
        let lines = include_str!("table.txt").lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(row).collect()
    });
    PLAIN.iter().chain(TABLE).map(|(names, when)| (*names, when))
}

fn row(line: &'static str) -> Option<(&'static str, When)> {
    if let Some((names, texts)) = line.split_once(" ~ ") {
        return Some((names, Has(texts)));
    }
    let (names, words) = line.split_once(':')?;
    let (names, deeds) = names.split_once(" [").map_or((names, None), |(names, deeds)| (names, Some(deeds)));
    let when = match (deeds, words.trim()) {
        (Some(deeds), words) => Doing(deeds.trim_end_matches(']'), words),
        (None, "*") => Always,
        (None, words) => Given(words),
    };
    Some((names, when))
}

/// Options that run or write what they name in most programs that have them.
pub(super) const TELLING_NAMES: &str = "--exec --execute --eval --command --shell --script-shell --pager --editor --browser --config \
    --config-file --plugin --plugins --require --import --loader --wrapper --output --output-file --output-dir --output-directory \
    --outfile --outdir --out-dir --out-file --log-file";

/// Programs with other meanings for such names: `--output json`.
pub(super) const OTHER_NAMES: &str = "aws az doctl gcloud helm kubectl oc";

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
    ("uniq xxd", If(|words| words.iter().filter(|word| !word.starts_with('-')).count() > 1)),
    ("tar gtar bsdtar", If(tar_runs)),
    ("git", If(git_is_led)),
    ("git", If(|words| first_words(words).any(|word| word.starts_with("remote-") || word.starts_with("credential-")))),
    // A variable can be what is run, or stand in a line for the shell.
    ("make gmake", If(|words| words.iter().any(|word| !word.starts_with('-') && word.contains('=')))),
    ("make gmake", Given(MAKE_OPTIONS)),
    ("ninja", With("^-C", is_elsewhere)),
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
    ("pytest", With("^-p", |plugin| !plugin.starts_with("no:"))),
    ("eslint stylelint", With("-f --format --formatter --custom-formatter", is_path)),
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
    aws az bolt cf doctl eb gcloud knife oci railway tailscale";
