//! What a look at a large folder costs. To be run by hand, on a quiet machine:
//! `cargo test --release -p tieline-host --test looks -- --ignored --nocapture`.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::time::{Duration, Instant, SystemTime};
use tieline_host::snapshot::{Base, Limits};

#[test]
#[ignore = "measures"]
fn fifty_thousand_files() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let (root, state) = (top.join("root"), top.join("state"));
    for folder in 0..500 {
        let folder = root.join(format!("part{}/module{folder}/src", folder % 20));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("file_{file}.rs")), format!("// {file}\n").repeat(100)).unwrap();
        }
    }
    fs::write(root.join(".gitignore"), "target\n*.o\n/build/\nnode_modules/\n").unwrap();
    // As long as a file is so young that the next change may not show, it is read each time.
    std::thread::sleep(Duration::from_millis(200));
    for (name, limits) in [
        ("by default", Limits::default()),
        ("all", Limits { files: 100_000, total: 1 << 30, time: Duration::from_mins(10), ..Limits::default() }),
    ] {
        let state = state.join(name);
        let mut last = None;
        for look in ["first", "second", "third"] {
            let start = Instant::now();
            let base = Base::take(Some(&state), &root, Vec::new(), limits, SystemTime::now()).unwrap();
            let took = start.elapsed();
            let start = Instant::now();
            let found = base.differences().0.len();
            println!("{name}, {look} look: {took:?} before, {:?} after, {found} changes", start.elapsed());
            last = Some(base);
        }
        drop(last);
    }
}
