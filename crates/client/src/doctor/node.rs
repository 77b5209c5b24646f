//! Whether a program that runs on Node.js finds one that is new enough, before it is started.

use crate::agents::find_program;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// How long `node --version` may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the Node.js that a program needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// It needs none.
    None,
    /// It is there, and new enough as far as anyone says.
    Fits(String),
    /// There is none.
    Missing,
    /// It is older than the package wants.
    TooOld {
        /// What there is.
        version: String,
        /// What is wanted.
        wants: String,
    },
}

pub(super) async fn check(program: &Path) -> Node {
    let Ok(program) = program.canonicalize() else { return Node::None };
    if !starts_with_node(&program) {
        return Node::None;
    }
    let Ok(node) = find_program(OsStr::new("node"), None) else { return Node::Missing };
    let mut command = tokio::process::Command::new(node);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let version = match tokio::time::timeout(PATIENCE, command.output()).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned(),
        _ => return Node::None,
    };
    let version = crate::sanitize::line(&version);
    match wanted(&program) {
        Some((wants, least)) if numbers(&version) < least => Node::TooOld { version, wants },
        _ => Node::Fits(version),
    }
}

/// True if the first line names Node.js.
fn starts_with_node(program: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 128];
    let read = std::fs::File::open(program).and_then(|mut file| file.read(&mut head));
    let head = String::from_utf8_lossy(&head[..read.unwrap_or(0)]).into_owned();
    let line = head.lines().next().unwrap_or_default();
    line.starts_with("#!") && line.split(['/', ' ']).any(|word| word == "node")
}

/// What the package of a program says it needs, and the least version of that.
fn wanted(program: &Path) -> Option<(String, Vec<u64>)> {
    let package =
        program.ancestors().skip(1).take(6).map(|folder| folder.join("package.json")).find(|path| path.is_file())?;
    if std::fs::metadata(&package).ok()?.len() > 1 << 20 {
        return None;
    }
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(package).ok()?).ok()?;
    let wants = json["engines"]["node"].as_str()?;
    // `^20.1 || >=22`: any of them will do, so the least of them counts.
    let least =
        wants.split("||").map(|part| numbers(part.trim().trim_start_matches(['>', '=', '^', '~', 'v', ' ']))).min()?;
    Some((crate::sanitize::line(wants), least))
}

/// The numbers of a version, as far as it has some.
fn numbers(version: &str) -> Vec<u64> {
    let numbers = version.split(['.', ' ', '-']).map_while(|part| part.parse().ok());
    numbers.take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (have, least, fits) in
            [("20.11.1", "20", true), ("20.11.1", "20.12", false), ("9.0.0", "10", false), ("22.1.0", "22.1.0", true)]
        {
            assert_eq!(numbers(have) >= numbers(least), fits, "{have} {least}");
        }
    }

    #[tokio::test]
    async fn a_package_that_wants_more_is_found_out() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent");
        std::fs::write(&program, "#!/usr/bin/env node\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("package.json"), r#"{"engines": {"node": ">=900.1"}}"#).unwrap();
        assert!(matches!(check(&program).await, Node::TooOld { wants, .. } if wants == ">=900.1"));
        std::fs::write(folder.path().join("package.json"), r#"{"engines": {"node": ">=4 || ^2"}}"#).unwrap();
        assert!(matches!(check(&program).await, Node::Fits(_)));
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        assert_eq!(check(&program).await, Node::None);
    }
}
