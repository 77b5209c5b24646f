//! What we start ourselves outside a sandbox, and where in the workspace its code may come from: agents, MCP servers, programs that
//! print a secret, and the files that flags gave us.
//!
//! One rule, and a generous one: each word of such a command, each value of its variables, and each piece of them is looked up
//! from where the program would look. What it names in the workspace is held. So no shell, option or language has to be understood;
//! the tables below are only for names that nobody says: endings, modules, and what runners look for by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tieline_rpc::sync::Lock as _;

/// No more commands are remembered, and no more pieces of one are looked at.
const MAX_COMMANDS: usize = 1000;
const MAX_PIECES: usize = 2000;
/// No more of a file is read to see what it has run.
const MAX_BYTES: u64 = 64 << 10;

/// What interpreters add to a name.
const ENDINGS: &str = "js mjs cjs ts mts cts tsx json node py pyc so sh bash rb pl php lua jar exe";

/// Lists of folders in which code is looked for. The first one holds programs.
const LISTS: [&str; 8] =
    ["PATH", "PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB", "LUA_PATH", "CLASSPATH", "LD_LIBRARY_PATH"];

/// Programs for which a folder is a program.
const INTERPRETERS: &str = "python pypy node nodejs deno bun tsx ts-node ruby perl php lua luajit java";
/// Those of them that try endings before they look into a folder.
const NODES: &str = "node nodejs bun tsx ts-node";
/// Their options that take a value, which is not the program; and those whose value is a program itself.
const VALUED: &str =
    "-r --require --import --loader --experimental-loader --env-file -C --conditions -X -W -I --config --tsconfig";
const EVALUATED: &str = "-c -e -p --eval --print -cp -classpath --class-path";
/// Programs that fetch a package and run it, words that may stand before it, and options that name it.
const FETCHERS: &str = "uvx uv pipx npx npm pnpm pnpx bunx yarn bun deno";
const BEFORE: &str = "run exec x dlx tool watch";
const FROM: &str = "--from --spec --package --with-editable";
/// What a program that is a whole folder begins with.
const BEGINS: &str =
    "package.json index.js index.mjs index.cjs index.ts __main__.py pyproject.toml setup.py setup.cfg deno.json";
/// What stands before the folder that a program is to work in.
const FOLDERS: &str = "-C -p cd --cd --chdir --cwd --dir --directory --folder --path --prefix --project --workdir";

/// What a runner looks for where it stands, and whether it is told there what to run.
const RUNNERS: &[(&str, &str, bool)] = &[
    ("npx bunx pnpx", PACKAGE, false),
    ("npm pnpm yarn bun corepack turbo nx lerna", PACKAGE, true),
    ("deno", "deno.json deno.jsonc package.json import_map.json", true),
    ("make gmake", "GNUmakefile makefile Makefile", true),
    ("just", "justfile Justfile .justfile", true),
    (
        "task go-task",
        "Taskfile.yml Taskfile.yaml taskfile.yml taskfile.yaml Taskfile.dist.yml Taskfile.dist.yaml",
        true,
    ),
    (
        "uv poetry pdm hatch rye pipenv pixi",
        "pyproject.toml uv.toml uv.lock poetry.toml poetry.lock pdm.toml hatch.toml Pipfile \
        Pipfile.lock pixi.toml .venv/bin .venv/pyvenv.cfg",
        true,
    ),
    ("tox nox", "tox.ini noxfile.py", true),
    ("rake bundle bundler", "Rakefile rakefile Gemfile Gemfile.lock", true),
    ("composer", "composer.json vendor/bin", true),
    (
        "docker docker-compose podman podman-compose",
        "docker-compose.yml docker-compose.yaml compose.yml compose.yaml \
        docker-compose.override.yml compose.override.yml compose.override.yaml",
        false,
    ),
    ("nix nix-shell", "flake.nix flake.lock shell.nix default.nix", false),
    ("mvn mvnw", "pom.xml mvnw", false),
    (
        "gradle gradlew",
        "build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties gradlew gradle",
        false,
    ),
];
const PACKAGE: &str = "package.json pnpm-workspace.yaml bunfig.toml .pnp.cjs .pnp.js .pnp.loader.mjs node_modules/.bin";

/// Runners that build what they run from all that is there, and the file by which they know that there is something.
const BUILDERS: &[(&str, &str)] = &[
    ("cargo", "Cargo.toml"),
    ("go", "go.mod"),
    ("mvn mvnw", "pom.xml"),
    ("gradle gradlew", "build.gradle"),
    ("gradle gradlew", "build.gradle.kts"),
    ("sbt", "build.sbt"),
    ("mix", "mix.exs"),
    ("swift", "Package.swift"),
    ("zig", "build.zig"),
    ("stack", "stack.yaml"),
    ("dune", "dune-project"),
];

/// Variables that only say where a program stands that is at work already.
const ABOUT: &str = "_ npm_package_json CARGO_MANIFEST_PATH";

static STARTED: Mutex<BTreeSet<Started>> = Mutex::new(BTreeSet::new());

/// A command that we start, and what it is started with.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Started {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its own variables.
    pub env: Vec<(String, String)>,
    /// Where it is started, if not where a session works.
    pub cwd: Option<PathBuf>,
}

/// Where code that is run comes from.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// Held, and if it is not there yet, nothing is: commands are asked for.
    pub(super) must: BTreeSet<PathBuf>,
    /// Held if it is there; also if it is a folder?
    may: BTreeMap<PathBuf, bool>,
}

impl Code {
    fn may(&mut self, path: PathBuf, whole: bool) {
        *self.may.entry(path).or_default() |= whole;
    }

    /// What may be there, as far as it is.
    pub(super) fn there(&self) -> impl Iterator<Item = &PathBuf> {
        self.may
            .iter()
            .filter(|(path, whole)| if **whole { path.exists() } else { path.is_file() })
            .map(|(path, _)| path)
    }

    /// Whether something at this path, there or not, would be run, or would win over what is.
    pub(super) fn covers(&self, path: &Path, root: &Path) -> bool {
        let is = |named: &Path, whole: bool| {
            let real = crate::roots::promise(named);
            [Some(named), real.as_deref()]
                .into_iter()
                .flatten()
                .any(|named| path == named || (whole && path.starts_with(named)))
        };
        let held = self.must.iter().filter(|named| *named != root);
        held.into_iter().any(|named| is(named, true)) || self.may.iter().any(|(named, whole)| is(named, *whole))
    }
}

/// Notes a command that is started outside a sandbox, now or later: an agent, an MCP server, a program that prints a secret.
pub fn starts(started: Started) {
    let mut all = STARTED.locked();
    if all.len() < MAX_COMMANDS {
        all.insert(started);
    }
}

/// Notes a file that says what is started or allowed, because a flag named it.
pub fn reads(file: &Path) {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    starts(Started { command: vec![String::new(), file.to_string_lossy().into_owned()], ..Started::default() });
}

/// All code of what we start that may come from this folder of the workspace.
pub(super) fn code(root: &Path) -> Code {
    let all = STARTED.locked().clone();
    let mut code = Code::default();
    for started in &all {
        started.look(root, &mut code);
    }
    // Whatever a variable is for: a file of the workspace that it names is read or run by somebody. What is not there yet is what
    // somebody is to make, unless the variable is known to name what is run.
    let variables = env::vars_os().filter(|(name, _)| !ABOUT.split_whitespace().any(|about| name == about));
    for value in variables.map(|(_, value)| value.to_string_lossy().into_owned()) {
        let mut pieces = BTreeSet::new();
        Started::default().pieces(&value, root, &mut pieces);
        pieces
            .into_iter()
            .filter(|piece| piece.contains('/') || *piece == value)
            .filter(|piece| root.join(piece).symlink_metadata().is_ok())
            .for_each(|piece| code.may(root.join(piece), false));
    }
    code
}

impl Started {
    /// Whether it takes any code from these folders, as they are now.
    pub fn takes_code_from(&self, roots: &[PathBuf]) -> bool {
        let real: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
        real.iter().any(|root| {
            let mut code = Code::default();
            self.look(root, &mut code);
            let within = |path: &PathBuf| {
                crate::roots::promise(path).is_some_and(|path| real.iter().any(|root| path.starts_with(root)))
            };
            code.there().chain(&code.must).any(within)
        })
    }

    fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        own.or_else(|| env::var(name).ok())
    }

    fn folders(&self, list: &str, base: &Path) -> Vec<PathBuf> {
        let value = self.variable(list).unwrap_or_default();
        env::split_paths(&value).map(|folder| base.join(folder)).collect()
    }

    /// Adds what it may run from this folder.
    fn look(&self, root: &Path, code: &mut Code) {
        let base = self.cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
        let values = self.env.iter().filter(|(name, _)| !LISTS.contains(&&**name)).map(|(_, value)| value);
        let mut pieces = BTreeSet::new();
        for text in self.command.iter().chain(values) {
            self.pieces(text, &base, &mut pieces);
        }
        if pieces.len() > MAX_PIECES {
            // Nobody can look at all of it.
            code.must.insert(base);
            return;
        }
        let tokens: Vec<&str> = self
            .command
            .iter()
            .flat_map(|word| word.split(|c: char| c.is_whitespace() || "\"'`;&|()".contains(c)))
            .collect();
        let programs: BTreeSet<&str> = tokens.iter().map(|token| program(token)).collect();
        let is = |table: &str| table.split_whitespace().any(|name| programs.contains(name));
        let mut bases = vec![base.clone()];
        bases.extend(LISTS[1..].iter().flat_map(|list| self.folders(list, &base)));
        let has_path = self.env.iter().any(|(name, _)| name == "PATH");
        let path = self.folders("PATH", &base);
        if has_path {
            code.must.extend(path.iter().cloned());
        }
        if let Some(program) = self.command.first().filter(|word| word.contains('/')) {
            code.must.insert(base.join(self.expand(program, &base)));
        }
        let place = Place { root, interprets: is(INTERPRETERS), node: is(NODES) };
        let after = |piece: &str| {
            tokens.windows(2).any(|two| two[1] == piece && FOLDERS.split_whitespace().any(|name| name == two[0]))
        };
        for piece in &pieces {
            // A bare word is often only the name of a subcommand or a task.
            let whole = piece.contains(['/', '.']) || (place.interprets && tokens.contains(&&**piece)) || after(piece);
            for base in &bases {
                place.look(piece, whole, base, code);
            }
            if !piece.contains('/') {
                for folder in &path {
                    code.may(folder.join(piece), false);
                }
            }
        }
        if is("uv poetry pdm hatch rye pipenv pixi") {
            bases.push(base.join("src"));
            // A script of a package has the package's name.
            let names: Vec<String> = pieces
                .iter()
                .filter(|piece| !piece.contains(['/', '.']))
                .map(|piece| piece.replace('-', "_"))
                .collect();
            for name in &names {
                module(name, false, root, &bases, code);
            }
        }
        for name in modules(&tokens) {
            module(name, true, root, &bases, code);
        }
        for (_, files, reads) in RUNNERS.iter().filter(|(names, ..)| is(names)) {
            for name in files.split_whitespace() {
                code.may(base.join(name), true);
                if *reads && let Some(text) = beginning(&base.join(name)) {
                    let mut named = BTreeSet::new();
                    self.pieces(&text, &base, &mut named);
                    let named = named.into_iter().filter(|piece| piece.contains(['/', '.'])).take(MAX_PIECES);
                    named.for_each(|piece| code.may(base.join(piece), false));
                }
            }
            if *files == PACKAGE {
                // No package has the name of a path.
                for piece in pieces.iter().filter(|piece| !piece.starts_with(['/', '.'])) {
                    // `@scope/name@version`
                    let name =
                        piece.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(&**piece, |(at, _)| &piece[..at]);
                    let packages = base.join("node_modules");
                    code.may(packages.join(name), true);
                    code.may(packages.join(".bin").join(name), false);
                }
            }
        }
        let words: Vec<String> = self.command.iter().map(|word| self.expand(word, &base)).collect();
        let parts: Vec<String> = tokens.iter().map(|token| self.expand(token, &base)).collect();
        if [words, parts].iter().any(|words| is_whole_root(words, &base, root)) {
            code.must.insert(root.to_owned());
            BEGINS.split_whitespace().for_each(|name| code.may(base.join(name), false));
        }
        let elsewhere = self.command.iter().any(|word| word.contains('@'));
        let builds = BUILDERS.iter().any(|(names, file)| is(names) && base.join(file).exists());
        if builds && !elsewhere && base.starts_with(root) {
            code.must.insert(root.to_owned());
        }
        let scripts: Vec<PathBuf> =
            code.there().filter(|path| path.starts_with(root) && path.is_file()).cloned().collect();
        for line in
            scripts.iter().filter_map(|path| beginning(path)?.strip_prefix("#!")?.lines().next().map(str::to_owned))
        {
            line.split_whitespace().for_each(|word| code.may(base.join(word), false));
        }
    }

    /// A text, and all that it may be made of.
    fn pieces(&self, text: &str, base: &Path, all: &mut BTreeSet<String>) {
        let text = text.replace("file://localhost/", " /").replace("file://", " ").replace("\\ ", " ");
        let expanded = self.expand(&text, base);
        for text in [&text, &expanded, &decoded(&text)] {
            let blank = |c: char| c.is_whitespace() || "\"'`".contains(c);
            let sign = |c: char| blank(c) || "=:,;|&()<>{}[]$@#!?*\\".contains(c);
            let parts = text.split(['"', '\'']).chain(text.split(blank)).chain(text.split(sign));
            let parts = parts.chain(text.split(blank).filter_map(|word| word.split_once('=').map(|(_, value)| value)));
            for part in std::iter::once(&**text).chain(parts) {
                if all.len() > MAX_PIECES {
                    return;
                }
                // `-r./x`, `-Ilib`; and the folder of a pattern.
                let letter =
                    part.strip_prefix('-').and_then(|rest| rest.get(1..)).filter(|rest| !rest.starts_with('-'));
                let folder = part.find(['*', '?', '[']).and_then(|at| part[..at].rfind('/').map(|at| &part[..at]));
                let found = [Some(part).filter(|part| !part.starts_with('-')), letter, folder];
                all.extend(
                    found
                        .into_iter()
                        .flatten()
                        .filter(|piece| !piece.is_empty() && piece.len() < 4096)
                        .map(str::to_owned),
                );
                // What follows something that only the shell knows: `$(git rev-parse --show-toplevel)/run`.
                if text.contains(['$', '`']) {
                    all.extend(Some(part.trim_start_matches('/')).filter(|piece| !piece.is_empty()).map(str::to_owned));
                }
            }
        }
    }

    /// A text with the variables in it that are known.
    fn expand(&self, text: &str, base: &Path) -> String {
        let mut out = String::new();
        let mut rest = text;
        let home = env::home_dir().unwrap_or_default();
        while let Some(at) = rest.find(['$', '~']) {
            out.push_str(&rest[..at]);
            let begins = out.chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '/');
            if rest[at..].starts_with('~') {
                out.push_str(&if begins { home.to_string_lossy() } else { "~".into() });
                rest = &rest[at + 1..];
                continue;
            }
            let after = rest[at + 1..].trim_start_matches('{');
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            let name = &after[..end];
            let value = if name == "PWD" { Some(base.to_string_lossy().into_owned()) } else { self.variable(name) };
            out.push_str(&value.unwrap_or_default());
            let braced = rest[at + 1..].starts_with('{');
            rest = if braced { after[end..].strip_prefix('}').unwrap_or(&after[end..]) } else { &after[end..] };
        }
        out + rest
    }
}

/// Whether the code of a command is the root itself, or a folder around it: `node .`, `python3 /the/root`, `uvx --from . x`. Not if it is only
/// told to look at that.
fn is_whole_root(words: &[String], base: &Path, root: &Path) -> bool {
    let among = |table: &str, word: &str| table.split_whitespace().any(|known| known == word);
    let is_root = |word: &str| {
        let parts = word.split(':').filter(|part| !part.is_empty());
        let mut places = parts.chain([word]).filter_map(|part| base.join(part).canonicalize().ok());
        !word.is_empty() && places.any(|place| root.starts_with(place))
    };
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().any(|(at, word)| {
        let (runs, fetches) = (among(INTERPRETERS, program(word)), among(FETCHERS, program(word)));
        let mut rest = words[at + 1..].iter().take(if runs || fetches { MAX_PIECES } else { 0 });
        // Behind the program there is only what it is told.
        let mut told = false;
        while let Some(word) = rest.next() {
            let (option, value) = word.split_once('=').map_or((*word, None), |(option, value)| (option, Some(value)));
            if fetches && among(FROM, option) {
                if value.or_else(|| rest.next().copied()).is_some_and(is_root) {
                    return true;
                }
                continue;
            }
            if told || fetches && among(BEFORE, word) {
                continue;
            }
            if runs && among(EVALUATED, option) {
                let code = value.or_else(|| rest.next().copied()).unwrap_or_default();
                return code.split(|c: char| c.is_whitespace() || "\"'`;()".contains(c)).any(is_root);
            }
            if runs && among(VALUED, option) && value.is_none() {
                rest.next();
                continue;
            }
            if is_root(word) {
                return true;
            }
            told = !word.starts_with('-') || *word == "-m";
        }
        false
    })
}

/// Where a piece is looked for.
struct Place<'a> {
    root: &'a Path,
    interprets: bool,
    node: bool,
}

impl Place<'_> {
    /// Adds what a piece names from a folder, with what an interpreter would try besides.
    fn look(&self, piece: &str, whole: bool, base: &Path, code: &mut Code) {
        let at = base.join(piece);
        let real = at.canonicalize().ok();
        if [Some(&at), real.as_ref()].into_iter().flatten().any(|at| self.root.starts_with(at) || base.starts_with(at))
        {
            return;
        }
        code.may(at.clone(), whole);
        if at.extension().is_some_and(|end| end == "py") {
            code.may(at.with_file_name("__pycache__"), true);
        }
        if at.is_file() || piece.ends_with('/') {
            return;
        }
        let mut guessed = self.node && whole && at.is_dir();
        for end in ENDINGS.split_whitespace() {
            let mut name = at.clone().into_os_string();
            name.push(".");
            name.push(end);
            let path = PathBuf::from(name);
            guessed |= path.is_file() && self.interprets;
            code.may(path, false);
        }
        if guessed {
            // `a` would win over `a.js`, and that over `a/index.js`.
            let first = if at.is_dir() { at.with_extension("js") } else { at.clone() };
            around(&first, self.root, code);
        }
    }
}

/// Holds the folder around a name that is not there and would win over one that is; the workspace itself can't be held.
fn around(absent: &Path, root: &Path, code: &mut Code) {
    match absent.parent().and_then(|folder| folder.canonicalize().ok()) {
        Some(folder) if folder.starts_with(root) && folder != root => code.may(folder, true),
        Some(folder) if folder == root => {
            code.must.insert(absent.to_owned());
        }
        _ => {}
    }
}

/// Adds what a module of Python is, with the package that it is in. If it is surely one, what would win over it counts as well.
fn module(name: &str, surely: bool, root: &Path, bases: &[PathBuf], code: &mut Code) {
    let top = name.split('.').next().unwrap_or_default();
    if top.is_empty() || name.contains('/') {
        return;
    }
    let mut last = None;
    for (at, base) in bases.iter().enumerate() {
        let folder = base.join(top);
        let is_there = folder.is_dir() || base.join(format!("{top}.py")).is_file();
        last = if is_there { Some(at) } else { last };
        code.may(folder, true);
        for end in ["py", "pyc", "so", "abi3.so"] {
            code.may(base.join(format!("{top}.{end}")), false);
        }
        code.may(base.join("__pycache__"), true);
    }
    // The first folder wins, and in it a package; a file is passed by its compiled twin.
    for base in bases.iter().take(last.filter(|_| surely).map_or(0, |last| last + 1)) {
        if !base.join(top).join("__init__.py").is_file() {
            around(&base.join(format!("{top}.so")), root, code);
        }
    }
}

/// The modules that options name: `-m x`, `-um x`, `-mx`.
fn modules<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut all = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(letters) = token.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else { continue };
        let Some((before, name)) = letters.split_once('m') else { continue };
        if before.chars().all(|c| c.is_ascii_alphabetic()) {
            let next = tokens[at + 1..].iter().find(|token| !token.is_empty());
            all.extend(if name.is_empty() { next.copied() } else { Some(name) });
        }
    }
    all
}

/// The name of a program, without its folder and version: `python` for `/usr/bin/python3.11`.
fn program(word: &str) -> &str {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

/// A text in which `%20` is a blank.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => out.extend([b"%", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// How a plain file begins. Never waits for somebody to write.
fn beginning(path: &Path) -> Option<String> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
