//! The README tells the truth: its code is code that compiles, its table is the method table.
//!
//! `TIELINE_BLESS=1 cargo test -p tieline --test readme` writes the table anew.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tieline::schema::{Dialect, Direction, METHODS, Method, MethodKind};

/// The client of the README.
#[allow(dead_code, clippy::print_stdout, reason = "it is there to be compiled")]
mod client_of_the_readme {
    // client begins
    use tieline::{Result, client};

    #[tokio::main(flavor = "current_thread")]
    async fn main() -> Result<()> {
        let agent = client::spawn(["my-agent", "--acp"]).await?;
        let session = agent.open("/home/me/project").await?;
        let (said, stop) = session.prompt("Why does the build fail?").await?.text().await?;
        println!("{said} ({stop})");
        Ok(())
    }
    // client ends
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no `{start}`"));
    rest.split_once(end).unwrap_or_else(|| panic!("no `{end}` after `{start}`")).0
}

/// The code block behind a marker.
fn block(marker: &str) -> String {
    let readme = read("README.md");
    let block = between(&readme, marker, "\n```\n");
    block.split_once("```rust\n").unwrap_or_else(|| panic!("no code behind {marker}")).1.trim().to_owned()
}

#[test]
fn the_agent_is_the_echo_example() {
    let example = read("crates/acp/examples/echo.rs");
    let code = example.split_once("\n\n").unwrap().1;
    assert_eq!(block("<!-- agent: crates/acp/examples/echo.rs -->"), code.trim());
    assert!(code.trim().lines().count() <= 15, "the README promises a short agent");
}

#[test]
fn the_client_compiles() {
    let source = include_str!("readme.rs");
    let code: Vec<&str> = between(source, "// client begins\n", "    // client ends\n")
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .collect();
    assert_eq!(block("<!-- client: crates/acp/tests/readme.rs -->"), code.join("\n").trim());
    assert!(code.len() <= 12, "the README promises a short client");
}

/// The support matrix as a Markdown table: methods down, dialects across.
fn support_matrix() -> String {
    let mut table = String::from("| method | from | kind | 1 | 2-seed | 2 | needs |\n|---|---|---|---|---|---|---|\n");
    for method in METHODS {
        let from = match method.direction {
            Direction::ToAgent => "client",
            Direction::ToClient => "agent",
            Direction::Both => "both",
        };
        let kind = match method.kind {
            MethodKind::Request => "request",
            MethodKind::Notification => "notification",
        };
        let [v1, seed, v2] = Dialect::ALL.map(|dialect| if method.dialects.has(dialect) { "✓" } else { "–" });
        let Method { name, gate, .. } = method;
        // Writing into a String cannot fail.
        let _ = writeln!(table, "| `{name}` | {from} | {kind} | {v1} | {seed} | {v2} | {gate} |");
    }
    table
}

#[test]
fn the_support_matrix_is_the_method_table() {
    const GUIDE: &str = "crates/acp/src/guide/methods.md";
    const START: &str = "<!-- matrix -->\n";
    const END: &str = "<!-- end of matrix -->";
    let readme = read("README.md");
    let shown = between(&readme, START, END);
    let table = support_matrix();
    if std::env::var_os("TIELINE_BLESS").is_some() {
        let fresh = readme.replace(&format!("{START}{shown}{END}"), &format!("{START}{table}{END}"));
        std::fs::write(root().join("README.md"), fresh).unwrap();
        std::fs::write(root().join(GUIDE), table).unwrap();
        return;
    }
    assert_eq!(read(GUIDE), table, "set TIELINE_BLESS=1 to write the table anew");
    assert_eq!(shown, table, "set TIELINE_BLESS=1 to write the table anew");
}

#[test]
fn links_and_commands_exist() {
    for file in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/tracing.md"] {
        let text = read(file);
        let folder = root().join(file).parent().unwrap().to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target) {
            if !target.starts_with("http") {
                assert!(folder.join(target).exists(), "{file} links to {target}");
            }
        }
        // Paths in backticks that look like files of ours.
        for path in
            text.split('`').skip(1).step_by(2).filter(|path| path.starts_with("crates/") && !path.contains(['*', ' ']))
        {
            assert!(root().join(path).exists(), "{file} names {path}");
        }
    }
    assert!(root().join("scripts/test").exists() && root().join("crates/acp/examples/conversation.rs").exists());
}

/// In the rows of "Where is …", a name behind a file is found in that file.
#[test]
fn where_is_leads_somewhere() {
    let text = read("ARCHITECTURE.md");
    for line in between(&text, "## Where is", "\n## ").lines().filter(|line| line.starts_with("| ")) {
        let mut source = None;
        for word in line.split('`').skip(1).step_by(2) {
            if word.starts_with("crates/") {
                source = Some(read(word));
                continue;
            }
            let name = word.rsplit([' ', ':']).next().unwrap();
            assert!(source.as_ref().is_none_or(|source| source.contains(name)), "`{word}` is not there: {line}");
        }
    }
}

/// The oldest compilers, of the libraries and of the rest, are those that the README and the notes for contributors name.
#[test]
fn the_oldest_compilers_are_the_stated_ones() {
    let rest = read("Cargo.toml");
    let rest = between(&rest, "rust-version = \"", "\"");
    let libraries = env!("CARGO_PKG_RUST_VERSION");
    for library in ["json", "rpc", "schema"] {
        let manifest = read(&format!("crates/{library}/Cargo.toml"));
        assert_eq!(between(&manifest, "rust-version = \"", "\""), libraries, "{library}");
    }
    assert!(read("README.md").contains(&format!("Rust {rest}")), "README.md does not name Rust {rest}");
    let notes = read("CONTRIBUTING.md");
    assert!(notes.contains(&format!("Rust {libraries}, the rest with {rest}")), "CONTRIBUTING.md: {libraries}, {rest}");
}

/// Every event in the source is on the page, and every message on the page is in the source.
#[test]
fn the_tracing_page_lists_every_event() {
    let page = read("docs/tracing.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| {
            ["| error ", "| warn ", "| info ", "| debug ", "| trace "].iter().any(|level| line.starts_with(level))
        })
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let mut seen = vec![false; rows.len()];
    let libraries = ["acp", "host", "process", "rpc", "schema", "json"];
    let mut folders = libraries.map(|name| root().join("crates").join(name).join("src")).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for event in source.split("tracing::").skip(1) {
                let Some((kind, rest)) = event.split_once("!(") else { continue };
                if let Some(level) = kind.strip_suffix("_span") {
                    let row = format!("| `{}` | {level} |", between(rest, "\"", "\""));
                    assert!(page.contains(&row), "{}: no span {row} on the page", path.display());
                } else if ["error", "warn", "info", "debug", "trace"].contains(&kind) {
                    let message = between(rest, "\"", "\")");
                    let found = rows.iter().position(|row| row[1] == kind && row[3] == message);
                    let missing = || panic!("{}: `{kind}: {message}` is not on the page", path.display());
                    seen[found.unwrap_or_else(missing)] = true;
                }
            }
        }
    }
    let gone: Vec<&str> = rows.iter().zip(seen).filter(|(_, seen)| !seen).map(|(row, _)| row[3]).collect();
    assert!(gone.is_empty(), "no longer logged: {gone:?}");
}
