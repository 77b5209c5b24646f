//! Installs the packages of a real agent, once for each version, under the target folder.

use super::agents::Agent;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Node.js that the agents run on; some need a newer one than ours.
const NODE: (&str, &str) = ("node", "24.21.0");

/// An installed agent.
pub struct Installed {
    /// The folder with its `node_modules`.
    pub folder: PathBuf,
    /// The folder with the `node` program.
    pub node: PathBuf,
}

/// Installs an agent and its Node.js; does nothing if they are there. The error says why it cannot be had.
pub fn install(agent: &Agent, target: &Path) -> Result<Installed, String> {
    let root = target.join("real-agents");
    fs::create_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))?;
    // Two runs at once would tread on each other.
    let lock = File::create(root.join("lock")).and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|e| format!("{}: {e}", root.display()))?;
    let node = packages(&root, "node", NODE.0, NODE.1)?;
    let folder = packages(&root, agent.name, agent.package, agent.version)?;
    Ok(Installed { folder, node: node.join("node_modules/node/bin") })
}

fn packages(root: &Path, name: &str, package: &str, version: &str) -> Result<PathBuf, String> {
    let folder = root.join(format!("{name}-{version}"));
    // Written last, so its presence means a whole installation.
    let done = folder.join("installed");
    if done.is_file() {
        return Ok(folder);
    }
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    fs::write(folder.join("package.json"), "{\"private\": true}\n").map_err(wrong)?;
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error", &format!("{package}@{version}")])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("npm cannot be started ({e}); it comes with Node.js"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first: Vec<_> = errors.lines().take(3).collect();
        return Err(format!("npm cannot install {package}@{version}: {}", first.join(" | ")));
    }
    fs::write(&done, "").map_err(wrong)?;
    Ok(folder)
}
