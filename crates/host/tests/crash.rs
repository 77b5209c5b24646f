//! Kills writers at random moments and looks at what they leave behind: the file is whole, the undo works, no litter stays.
//!
//! `TIELINE_CRASH_RUNS=200` makes it long. Starts itself again as the process that gets killed.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(unix)]
mod unix {
    use std::{
        env, fs,
        io::Read as _,
        path::Path,
        process::{Command, Stdio},
        thread,
        time::{Duration, SystemTime},
    };
    use tieline_host::{
        files::{Expect, Files, Hash, Write},
        roots::Roots,
        snapshot::Snapshots,
    };

    /// The first line is the hash of the rest.
    fn content(number: usize) -> Vec<u8> {
        let body = format!("{number}\n").repeat(1 + number % 50_000);
        format!("{}\n{body}", Hash::of(body.as_bytes())).into_bytes()
    }

    fn is_whole(bytes: &[u8]) -> bool {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        text.split_once('\n').is_some_and(|(hash, body)| Hash::of(body.as_bytes()).to_string() == hash)
    }

    fn child(top: &Path) {
        let snapshots = Snapshots::open(top.join("snapshots"), 64 << 20).unwrap();
        let files = Files::new(Roots::new(top.join("root"), [] as [&str; 0]).unwrap());
        let files = files.with_journal(snapshots.begin("turn"));
        let place = files.roots().resolve("dir/file").unwrap();
        println!("ready");
        for number in 0.. {
            let now = files.version(&place).unwrap().map_or(Expect::New, Expect::Version);
            files.write(&place, &content(number * 7919), &Write::expecting(now).with_parents()).unwrap();
        }
    }

    fn run(number: u64) -> (usize, bool) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("root/dir")).unwrap();
        let first = content(3);
        let target = top.join("root/dir/file");
        fs::write(&target, &first).unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .env("TIELINE_CRASH_CHILD", top)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
        let noise = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
        thread::sleep(Duration::from_micros(u64::from(noise) * 31 % 60_000 + number % 7));
        child.kill().unwrap();
        child.wait().unwrap();

        let found = fs::read(&target).unwrap();
        assert!(is_whole(&found), "half a file: {} bytes", found.len());
        let litter = || fs::read_dir(top.join("root/dir")).unwrap().count() - 1;
        let left = litter();
        let snapshots = Snapshots::open(top.join("snapshots"), 64 << 20).unwrap();
        assert_eq!(snapshots.damage(), None);
        let files = Files::new(Roots::new(top.join("root"), [] as [&str; 0]).unwrap());
        let undone = snapshots.undo(&files, "turn", None, false);
        assert!(undone.refused.is_empty(), "{:?}", undone.refused);
        assert!(fs::read(&target).unwrap() == first, "not the first content");
        files.write(&files.roots().resolve("dir/other").unwrap(), b"x", &Write::expecting(Expect::New)).unwrap();
        assert_eq!(litter(), 1, "leftovers stay");
        (left, found != first)
    }

    pub fn main() {
        if let Some(top) = env::var_os("TIELINE_CRASH_CHILD") {
            return child(Path::new(&top));
        }
        let runs = env::var("TIELINE_CRASH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(25);
        let (mut left, mut changed) = (0, 0);
        for number in 0..runs {
            let (litter, change) = run(number);
            left += litter;
            changed += usize::from(change);
        }
        println!("{runs} kills: every file whole, {changed} of them new; {left} leftovers, all swept");
    }
}
