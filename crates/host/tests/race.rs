//! Swaps a directory and a link that leads out, as fast as it goes, while others read and write through that name.
//!
//! `TIELINE_RACE_SECONDS=60` makes it long.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use rustix::fs::{RenameFlags, renameat_with};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};
use tieline_host::{
    files::{Expect, Files, Write},
    roots::{Options, Roots},
};

fn seconds() -> f64 {
    std::env::var("TIELINE_RACE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3.0)
}

/// Ends the race, also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn race(options: Options, time: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path();
    for made in ["root/a/b", "outside/b"] {
        fs::create_dir_all(top.join(made)).unwrap();
    }
    for (file, text) in [("root/a/b/file", "inside"), ("outside/b/file", "SECRET"), ("outside/file", "SECRET")] {
        fs::write(top.join(file), text).unwrap();
    }
    symlink("../outside", top.join("root/swap")).unwrap();
    symlink("../../outside/b", top.join("root/a/swap")).unwrap();
    symlink("../../../outside/file", top.join("root/a/b/swap")).unwrap();
    let roots = Roots::with(top.join("root"), [] as [&str; 0], options).unwrap();
    let files = Files::new(roots);
    let (stop, read, written, swaps) =
        (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    // By handles: a swapper that went through a swapped name would itself carry things out.
    let handle = |path: &str| fs::File::open(top.join(path)).unwrap();
    let (at_top, at_a, at_b) = (handle("root"), handle("root/a"), handle("root/a/b"));
    let swap = |dir: &fs::File, one: &str, other: &str| {
        while !stop.load(Relaxed) {
            renameat_with(dir, one, dir, other, RenameFlags::EXCHANGE).unwrap();
            // A moment in which the others may get through.
            if swaps.fetch_add(1, Relaxed) % 7 == 0 {
                thread::yield_now();
            }
        }
    };
    let reader = || {
        let _stop = Stop(&stop);
        while !stop.load(Relaxed) {
            for path in ["a/b/file", "a/../a/b/file"] {
                if let Ok(found) = files.roots().resolve(path).and_then(|place| files.read_bytes(&place)) {
                    assert_ne!(found.bytes, b"SECRET");
                    read.fetch_add(1, Relaxed);
                }
            }
            if let Ok(list) = files.roots().resolve("a").and_then(|place| files.list(&place)) {
                assert!(list.entries.iter().all(|entry| entry.name != "file"), "listed the outside");
            }
        }
    };
    let writer = |name: &str| {
        let write = Write::expecting(Expect::Any).with_parents();
        while !stop.load(Relaxed) {
            for path in [format!("a/b/{name}"), format!("a/{name}"), format!("a/b/{name}-dir/{name}")] {
                let Ok(place) = files.roots().resolve(&path) else { continue };
                if files.write(&place, name.as_bytes(), &write).is_ok() {
                    written.fetch_add(1, Relaxed);
                }
                _ = files.rename(&place, &place, Expect::Any, false);
                _ = files.delete(&place, Expect::Any);
            }
            // Would be the outside's, if a link were followed.
            if let Ok(place) = files.roots().resolve_entry("a/file") {
                _ = files.delete(&place, Expect::Any);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| swap(&at_top, "a", "swap"));
        scope.spawn(|| swap(&at_a, "b", "swap"));
        scope.spawn(|| swap(&at_b, "file", "swap"));
        scope.spawn(reader);
        scope.spawn(reader);
        scope.spawn(|| writer("one"));
        scope.spawn(|| writer("two"));
        let _stop = Stop(&stop);
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
            outside_is_untouched(top);
        }
    });
    outside_is_untouched(top);
    let counts = (swaps.into_inner(), read.into_inner(), written.into_inner());
    println!("{options:?}: {} swaps, {} reads and {} writes inside, none outside", counts.0, counts.1, counts.2);
    assert!(counts.0 > 100 && counts.1 > 0 && counts.2 > 0, "too quiet to mean anything: {counts:?}");
}

fn outside_is_untouched(top: &Path) {
    let names = |dir: &str| {
        let mut names: Vec<_> = fs::read_dir(top.join(dir)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("outside"), ["b", "file"]);
    assert_eq!(names("outside/b"), ["file"]);
    for file in ["outside/file", "outside/b/file"] {
        assert_eq!(fs::read(top.join(file)).unwrap(), b"SECRET");
    }
}

#[test]
fn swapping_links_leads_nothing_out() {
    for portable in [false, true] {
        race(Options { portable }, Duration::from_secs_f64(seconds() / 2.0));
    }
}
