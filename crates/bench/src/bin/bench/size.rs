//! The size of a program: its stripped binary and the crates it is built from.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

use serde_json::{Value, json};

/// What is known about one program; an error says why a number is missing.
pub struct Size {
    name: String,
    bytes: Option<Result<u64, String>>,
    crates: Option<Result<usize, String>>,
}

impl Size {
    /// Whether every number that was asked for is there.
    pub fn is_complete(&self) -> bool {
        !matches!(self.bytes, Some(Err(_))) && !matches!(self.crates, Some(Err(_)))
    }

    pub fn json(&self) -> Value {
        let bytes = self.bytes.as_ref().and_then(|bytes| bytes.as_ref().ok());
        let crates = self.crates.as_ref().and_then(|crates| crates.as_ref().ok());
        json!({"name": self.name, "stripped_bytes": bytes, "crates": crates})
    }
}

/// Measures the named binaries and packages; equal names share a row.
pub fn measure(binaries: &[(String, String)], packages: &[(String, String)]) -> Vec<Size> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in binaries.iter().chain(packages) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let find = |list: &[(String, String)], name: &str| {
        list.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    names
        .into_iter()
        .map(|name| Size {
            name: name.clone(),
            bytes: find(binaries, name).map(|binary| stripped(&binary)),
            crates: find(packages, name).map(|package| crates(&package)),
        })
        .collect()
}

/// A table, or nothing when nothing was asked for.
pub fn markdown(sizes: &[Size]) -> String {
    if sizes.is_empty() {
        return String::new();
    }
    let mut out = String::from("\n## Size\n\n| program | stripped MB | crates |\n|---|---:|---:|\n");
    for size in sizes {
        let bytes = shown(size.bytes.as_ref(), |bytes| format!("{:.2}", *bytes as f64 / 1e6));
        let crates = shown(size.crates.as_ref(), ToString::to_string);
        let _ = writeln!(out, "| {} | {bytes} | {crates} |", size.name);
    }
    out
}

fn shown<T>(value: Option<&Result<T, String>>, show: impl Fn(&T) -> String) -> String {
    match value {
        None => "-".into(),
        Some(Ok(value)) => show(value),
        Some(Err(error)) => format!("FAILED: {}", error.trim().replace('|', "/").replace('\n', " ")),
    }
}

/// Runs a tool and returns what it prints.
fn tool(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// The size of a binary without its symbols; the binary itself is left as it is.
fn stripped(binary: &str) -> Result<u64, String> {
    let copy = std::env::temp_dir().join(format!("tieline-bench-{}", std::process::id()));
    let size = tool(Command::new("strip").arg("-o").arg(&copy).arg(binary))
        .and_then(|_| std::fs::metadata(&copy).map_err(|error| error.to_string()))
        .map(|metadata| metadata.len());
    let _ = std::fs::remove_file(&copy);
    size
}

/// How many crates a package is built from, itself included.
fn crates(package: &str) -> Result<usize, String> {
    let tree = tool(
        Command::new("cargo").args(["tree", "-e", "normal", "--prefix", "none", "-p"]).args(package.split_whitespace()),
    )?;
    Ok(count(&tree))
}

fn count(tree: &str) -> usize {
    // Cargo marks a crate that it has shown before with a star.
    let names: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)").trim()).collect();
    names.iter().filter(|name| !name.is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_counts_once() {
        assert_eq!(count("a v1.0.0\nb v1.0.0\nc v2.0.0\nb v1.0.0 (*)\n\na v2.0.0\n"), 4);
    }
}
