//! npm packages that tests talk to: installed on first use below the target folder, with the versions that a
//! `package.json` pins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of an installation: its name and its text.
pub type Text<'a> = (&'a str, &'a str);

/// The folder `name` below the target folder with these files and the packages that the first of them, `package.json`,
/// names.
///
/// Panics with npm's output when the packages cannot be installed. Processes wait for each other, and the network is
/// used only when `package.json` has changed.
pub fn install(name: &str, files: &[Text<'_>]) -> PathBuf {
    let [("package.json", wanted), ..] = files else { panic!("the first file is package.json") };
    need_node();
    let target = target_folder();
    let lock = File::create(target.join(format!("{name}.lock"))).expect("the target folder can be written");
    lock.lock().expect("the lock file can be locked");
    let folder = target.join(name);
    // The installed description is written last, so its presence means a whole installation.
    let installed = folder.join("node_modules/.installed.json");
    if fs::read_to_string(&installed).is_ok_and(|text| text == *wanted) {
        for (name, text) in files {
            put(&folder.join(name), text);
        }
        return folder;
    }
    let fresh = target.join(format!("{name}.{}", std::process::id()));
    for old in [&fresh, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).expect("an old installation can be removed");
        }
    }
    fs::create_dir_all(&fresh).expect("the target folder can be written");
    for (name, text) in files {
        put(&fresh.join(name), text);
    }
    let output = Command::new("npm")
        .args(["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&fresh)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("npm cannot be started ({e}); it comes with Node.js 20"));
    assert!(
        output.status.success(),
        "npm install failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    put(&fresh.join("node_modules/.installed.json"), wanted);
    fs::rename(&fresh, &folder).expect("the installation can be put in place");
    folder
}

fn need_node() {
    let output = Command::new("node").arg("--version").output();
    let version = output.as_ref().map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|n| n.parse::<u32>().ok());
    assert!(
        major.is_some_and(|n| n >= 20),
        "these tests need Node.js 20 or newer on the PATH; `node --version` gave {version:?}"
    );
}

/// Writes a file in one step, and only when it differs, because another process may be reading it.
fn put(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    let part = path.with_extension(format!("part{}", std::process::id()));
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).expect("the target folder can be written");
}

/// The target folder. Cargo marks it; a build for another platform lies one level deeper.
pub fn target_folder() -> PathBuf {
    let here = std::env::current_exe().expect("the running program has a path");
    match here.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()) {
        Some(folder) => folder.to_owned(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
