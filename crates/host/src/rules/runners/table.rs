//! The table: programs, and the arguments with which they run another program or write a file.

use super::sed::is_plain_sed;
use super::{first_words, git_is_led, gives, is_elsewhere, is_path, names_element, names_one, tar_runs};

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
    Has(&'static [&'static str]),
    /// With one of these subcommands, and one of those words if there are any.
    Doing(&'static str, &'static str),
    /// As this says of its arguments.
    If(fn(&[&str]) -> bool),
}
use When::{Always, Doing, Given, Has, If, With};

/// Options that run or write what they name in most programs that have them.
pub(super) const TELLING_NAMES: &str = "--exec --execute --eval --command --shell --script-shell --pager --editor --browser --config \
    --config-file --plugin --plugins --require --import --loader --wrapper --output --output-file --output-dir --output-directory \
    --outfile --outdir --out-dir --out-file --log-file";

/// Programs with other meanings for such names: `--output json`.
pub(super) const OTHER_NAMES: &str = "aws az doctl gcloud helm kubectl oc";

/// Options of make that name other rules, or another folder with rules.
const MAKE_OPTIONS: &str = "-f -C -I -E --eval --file --makefile --directory --include-dir";

/// Programs, and when they run or write what they are told.
pub(super) const TABLE: &[(&str, When)] = &[
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
        "ansible ansible-console ansible-pull arch at batch bwrap caffeinate capsh catchsegv chpst choom chroot chronic chrt cgexec clush cpulimit crontab daemonize dbus-run-session doas dtach \
         eatmydata entr env expect fakeroot faketime firejail flock genv gnice gosu gtimeout gxargs hyperfine i386 ifne ionice juju ld.so linux32 linux64 logsave ltrace nice nohup nsenter \
         nsjail numactl parallel pdsh perf pkexec prlimit proot rlwrap run-parts runcon runuser salt-ssh schroot screen script sem setarch setpriv \
         setsid sg socat ssh ssh-agent sshpass start-stop-daemon stdbuf strace su sudo systemd-inhibit systemd-nspawn systemd-run taskset \
         time timeout tmux torify torsocks unbuffer unshare valgrind watch watchexec x86_64 xargs xdg-open xvfb-run",
        Always,
    ),
    // Languages and editors that look like tools.
    (
        "awk gawk mawk nawk latexmk lualatex luatex sphinx-build m4 gnuplot gdb lldb ed ex vi vim view vimdiff nvim emacs nano",
        Always,
    ),
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
    ("diff3 sdiff", Given("-o --diff-program")),
    ("shuf iconv tree xsltproc", Given("-o")),
    ("exiftool", Given("-config -o -w -W")),
    ("groff troff nroff", Given("-U")),
    ("latex pdflatex xelatex tex", Given("-shell-escape -enable-write18 -output-directory -aux-directory")),
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
    ("git", Doing("index-pack pack-objects", "")),
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
    ("cargo", Doing("watch", "")),
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
    ("meson", Given("-C --native-file --cross-file --reconfigure-file")),
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
    // A goal of any plug-in, which is loaded for it.
    ("mvn mvnw", If(|words| words.iter().any(|word| !word.starts_with('-') && word.contains(':')))),
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
             -browser -editor -shell -logs-dir -cache -C --dir --cwd --globalSetup --setupFiles --testEnvironment",
        ),
    ),
    ("bun", Given("^-r ^-c --preload --require --import --config --cwd ^--reporter-outfile ^--coverage-dir")),
    ("deno", Given("^-c --config --preload --import-map --import --require --junit-path")),
    ("deno", Has(&["://", "npm:", "jsr:", "data:"])),
    (
        "nix nix-build nix-shell nix-instantiate nix-env",
        Given(
            "-f -E -I -o --file --expr --option --out-link --profile --impure --plugin-files --post-build-hook --builders --store \
             --override-input --override-flake --inputs-from --include --run --pure-eval-exec --build-hook --diff-hook --eval-store",
        ),
    ),
    (
        "docker podman nerdctl",
        Given(
            "-H --host --context --connection --url --config --iidfile --cidfile --metadata-file --output --root --runtime",
        ),
    ),
    (
        "uv uvx",
        Given(
            "--directory --project --config-file --with --with-editable --with-requirements --index --env-file --python",
        ),
    ),
    ("poetry pdm hatch rye pixi", Given("-C -P -p --directory --project --manifest-path")),
    (
        "pytest",
        Given(
            "-c -o --rootdir --basetemp --junitxml --junit-xml --pdbcls --override-ini --cov-config --html --report-log --confcutdir",
        ),
    ),
    ("pytest", Given("^--debug= ^--cov-report=html: ^--cov-report=xml: ^--cov-report=lcov: ^--cov-report=annotate:")),
    ("pylint", Given("--init-hook --load-plugins --rcfile")),
    ("coverage", Given("run --rcfile -o")),
    ("nox", Given("-f --noxfile")),
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
    // Machines of others that run what they are told, and settings and files that are written here.
    ("aws", Doing("ec2-instance-connect emr configure", "")),
    ("aws", Doing("ssm", "send-command start-session resume-session start-automation-execution create-association")),
    ("aws", Doing("ecs batch codebuild lambda", "execute-command run-task start-task submit-job start-build invoke")),
    ("aws", Doing("s3 s3api eks", "cp sync mv get-object update-kubeconfig")),
    ("gcloud", If(|words| names_one(words, "ssh scp copy-files config-ssh config submit execute get-credentials components"))),
    ("az", If(|words| names_one(words, "run-command exec ssh command tunnel get-credentials extension config rest"))),
    ("doctl", If(|words| names_one(words, "ssh console kubeconfig"))),
    ("gh", Doing("codespace cs", "ssh cp jupyter")),
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
             --etag-save --hsts --alt-svc --upload-file --unix-socket --abstract-unix-socket --engine",
        ),
    ),
    ("ssh-keygen", Given("-D -w")),
    (
        "sysctl",
        If(|words| gives(words, "-w -p --write --load --system") || words.iter().any(|word| word.contains('='))),
    ),
    ("openssl", Given("engine -engine -provider -provider-path -out -keyout -config -writerand")),
    ("gpg", Given("-o --exec-path --photo-viewer --options --agent-program --homedir")),
    ("pandoc", Given("-F -L -o --filter --lua-filter --pdf-engine")),
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
