//! The Python peers: a virtual environment below the target folder with the packages that `py/requirements.txt` pins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const REQUIREMENTS: &str = include_str!("../py/requirements.txt");

/// The Python of our own environment.
pub fn python() -> PathBuf {
    environment("py-peers", REQUIREMENTS)
}

/// The Python of an environment with these packages, installed on first use.
///
/// Panics with the reason when it cannot be made. Processes wait for each other, and the network is used only when the
/// requirements have changed.
pub fn environment(name: &str, requirements: &str) -> PathBuf {
    let target = tieline_npm::target_folder();
    let lock = File::create(target.join(format!("{name}.lock"))).expect("the target folder can be written");
    lock.lock().expect("the lock file can be locked");
    let folder = target.join(name);
    let python = folder.join("bin/python");
    // Written last, so its presence means a whole installation.
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == requirements) {
        return python;
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("an old installation can be removed");
    }
    let old = "import sys; sys.exit(sys.version_info < (3, 10))";
    run(
        Command::new("python3").args(["-c", old]),
        "the Python SDK needs Python 3.10 or newer as `python3` on the PATH",
    );
    run(
        Command::new("python3").args(["-m", "venv"]).arg(&folder),
        "`python3 -m venv` failed; on Debian: apt-get install python3-venv",
    );
    let list = folder.join("requirements.txt");
    fs::write(&list, requirements).expect("the target folder can be written");
    let quiet = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(quiet).arg(&list), "pip could not install the Python SDK");
    fs::write(&installed, requirements).expect("the target folder can be written");
    python
}

/// The command line of a script of ours in that Python.
pub fn script(name: &str) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("py").join(name);
    [python(), script].iter().map(|path| path.to_str().expect("a path in UTF-8").to_owned()).collect()
}

fn run(command: &mut Command, trouble: &str) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{trouble} ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("{trouble} ({error})"),
    }
}
