//! Whatever ends a command, and however, nothing of its family is left.

use crate::harness::{as_nobody, block_on, is_root, me, processes_with, soon, unique};
use crate::ways::{each, names, run, way, ways};
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tieline_host::run::{Background, Request, Status, Stopped};
use tieline_host::sandbox::probe;

const SECOND: Duration = Duration::from_secs(1);
/// What is waited for on a machine that may be busy; a family that is left alone lives for a minute.
const AT_LAST: Duration = Duration::from_secs(20);

pub const ALL: &[(&str, fn())] = &[
    ("a_family_ends_when_its_time_is_over", a_family_ends_when_its_time_is_over),
    ("a_family_ends_when_it_is_cancelled", a_family_ends_when_it_is_cancelled),
    ("a_family_ends_when_it_is_dropped", a_family_ends_when_it_is_dropped),
    ("a_family_ends_with_its_head", a_family_ends_with_its_head),
    ("a_family_ends_when_its_owner_is_killed", a_family_ends_when_its_owner_is_killed),
    ("a_family_ends_when_a_launcher_is_killed", a_family_ends_when_a_launcher_is_killed),
    ("who_can_end_well_may", who_can_end_well_may),
    ("who_ends_after_the_head_may_end_well_too", who_ends_after_the_head_may_end_well_too),
    ("in_the_background", in_the_background),
];

/// A child, one in a session of its own, a daemon that forked twice, and one that ignores what it can; all of them
/// marked, and a sign of life.
fn family(mark: &str) -> String {
    format!(
        "exec -a {mark} sleep 60 & \
         setsid bash -c 'exec -a {mark} sleep 60' & \
         (setsid bash -c '(setsid bash -c \"exec -a {mark} sleep 60\" &)' &) ; \
         (trap '' TERM INT HUP; bash -c 'trap \"\" TERM INT HUP; while :; do (exec -a {mark} sleep 1); done' {mark} &) ; \
         while [ $(grep -azl '{mark}' /proc/[0-9]*/cmdline 2>/dev/null | wc -l) -lt 5 ]; do sleep 0.01; done; \
         echo ready; sleep 60; : {mark}"
    )
}

async fn until_ready(command: &tieline_host::run::View, mark: &str) {
    let mut text = String::new();
    let mut seen = 0;
    while !text.contains("ready") {
        let news = command.more(seen).await.unwrap_or_else(|| panic!("it ended: {text}"));
        seen = news.next;
        text += &news.text;
    }
    // One of them starts anew each second, so there may be one less for a moment.
    soon(&format!("all of {mark} are there"), AT_LAST, || processes_with(mark).len() >= 5);
}

fn gone(way: &str, mark: &str, within: Duration) {
    soon(&format!("all of {mark} are gone ({way}): {:?}", processes_with(mark)), within, || {
        processes_with(mark).is_empty()
    });
}

fn a_family_ends_when_its_time_is_over() {
    each(async |way, root, policy| {
        let mark = unique();
        let request = Request::shell(family(&mark), root, &policy).timeout(2 * SECOND);
        let command = request.start().await.unwrap();
        until_ready(&command, &mark).await;
        let outcome = command.outcome().await;
        assert_eq!(outcome.stopped, Some(Stopped::TimedOut), "{way}");
        assert!(outcome.took < AT_LAST && outcome.took >= 2 * SECOND, "{way}: {outcome:?}");
        assert!(outcome.to_string().starts_with("was stopped after 2."), "{outcome}");
        gone(way, &mark, Duration::ZERO);
    });
}

fn a_family_ends_when_it_is_cancelled() {
    each(async |way, root, policy| {
        let mark = unique();
        let command = Request::shell(family(&mark), root, &policy).start().await.unwrap();
        until_ready(&command, &mark).await;
        let start = Instant::now();
        command.stop();
        let outcome = command.outcome().await;
        assert!(start.elapsed() < AT_LAST, "{way}: {:?}", start.elapsed());
        assert_eq!(outcome.stopped, Some(Stopped::Cancelled), "{way}");
        gone(way, &mark, Duration::ZERO);
        command.stop();
    });
}

fn a_family_ends_when_it_is_dropped() {
    each(async |way, root, policy| {
        let mark = unique();
        let command = Request::shell(family(&mark), root, &policy).start().await.unwrap();
        until_ready(&command, &mark).await;
        let view = command.view();
        drop(command);
        assert_eq!(view.outcome().await.stopped, Some(Stopped::Cancelled), "{way}");
        gone(way, &mark, Duration::ZERO);
    });
    // Also when there is no runtime any more.
    let folder = tempfile::tempdir().unwrap();
    for (way, policy) in ways(folder.path()) {
        let mark = unique();
        let command = block_on(async {
            let command = Request::shell(family(&mark), folder.path(), &policy).start().await.unwrap();
            until_ready(&command, &mark).await;
            command
        });
        gone(way, &mark, AT_LAST);
        drop(command);
    }
}

fn a_family_ends_with_its_head() {
    each(async |way, root, policy| {
        let mark = unique();
        let line = family(&mark).replace("sleep 60; :", "exit 7; :");
        let (outcome, _) = run(Request::shell(line, root, &policy)).await;
        assert_eq!((outcome.end, outcome.stopped), (Status::Code(7), None), "{way}");
        assert!(outcome.leftovers >= 4, "{way}: {outcome:?}");
        assert!(outcome.to_string().ends_with(" processes that it left behind were ended"), "{outcome}");
        assert!(outcome.took < AT_LAST, "{way}: {outcome:?}");
        gone(way, &mark, Duration::ZERO);
    });
}

/// The owner in `a_family_ends_when_its_owner_is_killed`.
pub fn own(name: &str, mark: &str) {
    let folder = tempfile::tempdir().unwrap();
    let policy = way(name, folder.path());
    block_on(async {
        let command = Request::shell(family(mark), folder.path(), &policy).start().await.unwrap();
        until_ready(&command, mark).await;
        println!("ready");
        command.outcome().await;
    });
}

fn a_family_ends_when_its_owner_is_killed() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for _ in 0..rounds {
        for way in names() {
            let mut users: Vec<Command> = vec![Command::new(me())];
            if is_root() {
                users.push(as_nobody(&me()));
            }
            for mut command in users {
                let mark = unique();
                let mut owner = command.args(["own", way, &mark]).stdout(Stdio::piped()).spawn().unwrap();
                let mut line = String::new();
                std::io::BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
                assert_eq!(line, "ready\n", "{way}");
                owner.kill().unwrap();
                owner.wait().unwrap();
                gone(way, &mark, AT_LAST);
            }
        }
    }
}

fn a_family_ends_when_a_launcher_is_killed() {
    each(async |way, root, policy| {
        let stages = if way == "namespaces" && probe().namespaces.is_ok() { 2 } else { 1 };
        for which in 0..stages {
            let mark = unique();
            // Without a namespace, a daemon that forked twice would be lost: nobody is above it any more.
            let line = format!(
                "exec -a {mark} sleep 60 & setsid bash -c 'exec -a {mark} sleep 60' & echo ready; exec -a {mark} sleep 60"
            );
            let command = Request::shell(line, root, &policy).start().await.unwrap();
            command.more(0).await.unwrap();
            soon(&format!("all of {mark} are there"), AT_LAST, || processes_with(&mark).len() >= 3);
            let mut launchers = processes_with("--child-supervisor=");
            launchers.retain(|pid| is_below_me(*pid));
            launchers.sort_unstable();
            let pid = rustix::process::Pid::from_raw(launchers[which].cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            let outcome = command.outcome().await;
            assert_eq!(outcome.end, Status::Unknown, "{way}");
            gone(way, &mark, AT_LAST);
        }
    });
}

fn is_below_me(pid: u32) -> bool {
    let parent = |pid: u32| -> Option<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let mut at = pid;
    while let Some(above) = parent(at) {
        if above == std::process::id() {
            return true;
        }
        at = above;
    }
    false
}

fn who_can_end_well_may() {
    each(async |way, root, policy| {
        let line = "trap 'echo tidy; exit 4' TERM; echo ready; while :; do sleep 0.01; done";
        let command = Request::shell(line, root, &policy).grace(AT_LAST).start().await.unwrap();
        command.more(0).await.unwrap();
        command.stop();
        let outcome = command.outcome().await;
        assert_eq!(outcome.end, Status::Code(4), "{way}");
        assert!(command.output(0).text.ends_with("tidy\n"), "{way}: {}", command.output(0).text);
        assert!(outcome.took < AT_LAST, "{way}: {outcome:?}");
    });
}

fn who_ends_after_the_head_may_end_well_too() {
    each(async |way, root, policy| {
        let line =
            "bash -c 'trap \"sleep 0.2; echo tidy; exit\" TERM; echo ready; while :; do sleep 0.01; done' & wait";
        let command = Request::shell(line, root, &policy).grace(AT_LAST).start().await.unwrap();
        command.more(0).await.unwrap();
        command.stop();
        let outcome = command.outcome().await;
        assert!(command.output(0).text.ends_with("tidy\n"), "{way}: {}", command.output(0).text);
        assert!(outcome.took < AT_LAST, "{way}: {outcome:?}");
    });
}

fn in_the_background() {
    each(async |way, root, policy| {
        let mark = unique();
        let background = Background::new();
        let server = background.start(Request::shell(family(&mark), root, &policy)).await.unwrap();
        let short = background.start(Request::shell("echo done", root, &policy)).await.unwrap();
        until_ready(&background.get(server).unwrap(), &mark).await;
        background.get(short).unwrap().outcome().await;
        let list = background.list();
        assert_eq!(list.iter().map(|entry| entry.id).collect::<Vec<_>>(), [server, short]);
        assert_eq!(list[1].line, "echo done");
        assert!(list[0].outcome.is_none() && list[1].outcome.unwrap().is_success(), "{way}");
        let (output, outcome) = background.poll(short, 2).unwrap();
        assert_eq!((&*output.text, output.next, outcome.is_some()), ("ne\n", 5, true));
        assert_eq!(background.stop(server).await.unwrap().stopped, Some(Stopped::Cancelled), "{way}");
        gone(way, &mark, Duration::ZERO);
        assert!(background.remove(short) && !background.remove(short));
        assert!(background.poll(99, 0).is_none() && background.stop(99).await.is_none());
        let mark = unique();
        let other = background.start(Request::shell(family(&mark), root, &policy)).await.unwrap();
        until_ready(&background.get(other).unwrap(), &mark).await;
        drop(background);
        gone(way, &mark, AT_LAST);
    });
}
