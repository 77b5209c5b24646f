//! `fs/read_text_file` and `fs/write_text_file`.

use crate::setup::{Log, Person, in_version_1};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use tieline_client::files::{Outside, Unsaved};
use tieline_client::permission::{Answer, By, Engine, Preset, Ruling};
use tieline_client::services::Event;
use tieline_host::files::Limits;
use tieline_host::rules::Config;

pub const ALL: &[(&str, fn())] = &[
    ("v1_fs_03_06_08_lines_are_counted_from_one", v1_fs_03_06_08_lines_are_counted_from_one),
    ("v1_fs_02_unsaved_text_is_what_the_agent_reads", v1_fs_02_unsaved_text_is_what_the_agent_reads),
    ("v1_fs_04_a_write_creates_file_and_folders", v1_fs_04_a_write_creates_file_and_folders),
    ("v1_fs_05_07_paths_outside_are_refused", v1_fs_05_07_paths_outside_are_refused),
    ("v1_fs_07_outside_is_asked_if_the_policy_says_so", v1_fs_07_outside_is_asked_if_the_policy_says_so),
    ("v1_fs_09_what_is_off_is_not_there", v1_fs_09_what_is_off_is_not_there),
    ("odd_files_have_clear_errors", odd_files_have_clear_errors),
    ("sessions_have_their_own_roots", sessions_have_their_own_roots),
    ("a_question_about_a_write_shows_the_change", a_question_about_a_write_shows_the_change),
    ("what_changes_during_a_question_is_not_overwritten", what_changes_during_a_question_is_not_overwritten),
];

fn v1_fs_03_06_08_lines_are_counted_from_one() {
    in_version_1(
        |services| services,
        async |project, scene| {
            let text = (1..=100).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
            let path = project.file("many.txt", &text);
            for (line, limit, expect) in [
                (json!(10), json!(5), "line 10\nline 11\nline 12\nline 13\nline 14\n"),
                (json!(100), json!(5), "line 100\n"),
                (json!(101), json!(5), ""),
                (json!(4_000_000_000_u32), json!(4_000_000_000_u32), ""),
                (json!(null), json!(1), "line 1\n"),
                (json!(99), json!(null), "line 99\nline 100\n"),
                (json!(1), json!(0), ""),
                (json!(null), json!(null), &text),
            ] {
                let result =
                    scene.result("fs/read_text_file", json!({"path": path, "line": line, "limit": limit})).await;
                assert_eq!(result["content"], expect, "line {line}, limit {limit}");
            }
            let error = scene.error("fs/read_text_file", json!({"path": path, "line": 0})).await;
            assert_eq!(error["code"], -32602, "V1-FS-08");
            let error = scene.error("fs/read_text_file", json!({"path": project.path("missing.txt")})).await;
            assert_eq!(error["code"], -32002, "V1-FS-06");
            // What an agent looks for that reads a file before it creates it.
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("Resource not found") && message.contains("ENOENT"), "{message}");
        },
    );
}

struct Editor;

impl Unsaved for Editor {
    fn text(&self, path: &Path) -> Option<String> {
        path.ends_with("open.txt").then(|| "one\ntwo, not saved\nthree".into())
    }
}

fn v1_fs_02_unsaved_text_is_what_the_agent_reads() {
    let log = Arc::new(Log::default());
    let build = |services: tieline_client::services::Builder| services.unsaved(Arc::new(Editor)).observer(log.clone());
    in_version_1(build, async |project, scene| {
        let open = project.file("open.txt", "on disk\n");
        let shut = project.file("shut.txt", "on disk\n");
        let result = scene.result("fs/read_text_file", json!({"path": open, "line": 2, "limit": 1})).await;
        assert_eq!(result["content"], "two, not saved\n");
        assert_eq!(scene.result("fs/read_text_file", json!({"path": shut})).await["content"], "on disk\n");
        let events = log.0.lock().unwrap();
        let unsaved: Vec<bool> = events
            .iter()
            .filter_map(|event| if let Event::Read { unsaved, .. } = event { Some(*unsaved) } else { None })
            .collect();
        assert_eq!(unsaved, [true, false]);
    });
}

fn v1_fs_04_a_write_creates_file_and_folders() {
    let log = Arc::new(Log::default());
    in_version_1(
        |services| services.engine(Engine::new(Preset::AllowEdits, Config::default())).observer(log.clone()),
        async |project, scene| {
            for (name, text) in [("new.txt", "text"), ("a/b/c/deep.txt", "deep\n"), ("new.txt", "other"), ("empty", "")]
            {
                let path = project.path(name);
                let result = scene.result("fs/write_text_file", json!({"path": path, "content": text})).await;
                assert!(result.is_null() || result == json!({}), "{result}");
                assert_eq!(std::fs::read_to_string(path).unwrap(), text);
            }
            // Nothing of the work is left beside the files.
            let mut names: Vec<_> =
                std::fs::read_dir(&project.root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "empty", "new.txt"]);
            let events = log.0.lock().unwrap();
            let created: Vec<bool> = events
                .iter()
                .filter_map(|event| if let Event::Wrote { created, .. } = event { Some(*created) } else { None })
                .collect();
            assert_eq!(created, [true, true, false, true]);
        },
    );
}

fn v1_fs_05_07_paths_outside_are_refused() {
    let log = Arc::new(Log::default());
    in_version_1(
        |services| services.engine(Engine::new(Preset::AllowAll, Config::default())).observer(log.clone()),
        async |project, scene| {
            let outside = project.outside.to_str().unwrap();
            symlink(&project.outside, project.root.join("link")).unwrap();
            symlink(project.outside.join("secret.txt"), project.root.join("secret")).unwrap();
            symlink(project.outside.join("new.txt"), project.root.join("dangling")).unwrap();
            let inside = project.root.to_str().unwrap();
            for path in [
                format!("{outside}/secret.txt"),
                format!("{inside}/../outside/secret.txt"),
                format!("{inside}/link/secret.txt"),
                format!("{inside}/secret"),
                format!("{inside}/dangling"),
                format!("{inside}-more/x"),
                "/etc/passwd".into(),
                format!("/proc/self/root{outside}/secret.txt"),
            ] {
                for (method, params) in [
                    ("fs/read_text_file", json!({"path": path})),
                    ("fs/write_text_file", json!({"path": path, "content": "x"})),
                ] {
                    let error = scene.error(method, params).await;
                    assert_eq!(error["code"], -32003, "{method} {path}: {error}");
                    assert_eq!(error["data"]["reason"], "permission_denied", "{error}");
                    assert_eq!(error["data"]["cause"], "outside_workspace", "{error}");
                    let record = log.last();
                    assert_eq!((record.ruling, record.by), (Ruling::Refused, By::Roots), "{path}");
                }
            }
            assert_eq!(std::fs::read_to_string(project.outside.join("secret.txt")).unwrap(), "secret");
            assert!(!project.outside.join("new.txt").exists());
            for path in ["relative.txt", "./x", "../x", ""] {
                assert_eq!(
                    scene.error("fs/read_text_file", json!({"path": path})).await["code"],
                    -32602,
                    "V1-FS-05 {path}"
                );
            }
        },
    );
}

fn v1_fs_07_outside_is_asked_if_the_policy_says_so() {
    for (answer, fine) in [(Answer::Allow, true), (Answer::Refuse, false)] {
        let person = Person::who_says(answer);
        let decider = person.clone();
        in_version_1(
            |services| services.outside(Outside::Ask).decider(decider),
            async |project, scene| {
                let path = project.outside.join("secret.txt");
                symlink(&path, project.root.join("link")).unwrap();
                for (at, path) in [path.to_str().unwrap(), &project.path("link")].into_iter().enumerate() {
                    let answer = scene.wire.call("fs/read_text_file", json!({"sessionId": "s", "path": path})).await;
                    assert_eq!(answer["result"]["content"] == "secret", fine, "{answer}");
                    assert_eq!(person.count(), at + 1);
                }
                let real = format!("read {}", path.display());
                assert_eq!(person.asked.lock().unwrap()[1].facts, [real], "the real path is shown");
                let new = project.outside.join("made.txt");
                let params = json!({"sessionId": "s", "path": new, "content": "made"});
                let answer = scene.wire.call("fs/write_text_file", params).await;
                assert_eq!(answer.get("error").is_none(), fine, "{answer}");
                assert_eq!(new.exists(), fine);
            },
        );
    }
}

fn v1_fs_09_what_is_off_is_not_there() {
    in_version_1(
        |services| services.files(false).terminals(false),
        async |project, scene| {
            let path = project.file("a.txt", "a");
            for (method, params) in [
                ("fs/read_text_file", json!({"path": path})),
                ("fs/write_text_file", json!({"path": path, "content": "b"})),
                ("terminal/create", json!({"command": "true"})),
            ] {
                assert_eq!(scene.error(method, params).await["code"], -32601, "{method}");
            }
        },
    );
    in_version_1(
        |services| services.writing(false),
        async |project, scene| {
            let path = project.file("a.txt", "a");
            assert_eq!(scene.result("fs/read_text_file", json!({"path": path})).await["content"], "a");
            assert_eq!(scene.error("fs/write_text_file", json!({"path": path, "content": "b"})).await["code"], -32601);
        },
    );
}

fn odd_files_have_clear_errors() {
    let limits = Limits { text: 10, ..Limits::default() };
    in_version_1(
        |services| services.engine(Engine::new(Preset::AllowEdits, Config::default())).limits(limits),
        async |project, scene| {
            std::fs::write(project.root.join("bytes"), b"\xff\xfe").unwrap();
            std::fs::create_dir(project.root.join("folder")).unwrap();
            let fifo = project.path("fifo");
            assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
            project.file("ten", "0123456789");
            project.file("eleven", "01234567890");
            assert_eq!(
                scene.result("fs/read_text_file", json!({"path": project.path("ten")})).await["content"],
                "0123456789"
            );
            for (name, word) in [("bytes", "UTF-8"), ("folder", "directory"), ("fifo", "FIFO"), ("eleven", "10 bytes")]
            {
                let error = scene.error("fs/read_text_file", json!({"path": project.path(name)})).await;
                assert_eq!(error["code"], -32602, "{name}: {error}");
                assert!(error["data"]["reason"].as_str().unwrap().contains(word), "{name}: {error}");
            }
            for (name, content) in [("folder", "x"), ("fifo", "x"), ("big", "01234567890")] {
                let error =
                    scene.error("fs/write_text_file", json!({"path": project.path(name), "content": content})).await;
                assert_eq!(error["code"], -32602, "{name}: {error}");
            }
            assert!(!project.root.join("big").exists());
        },
    );
}

fn sessions_have_their_own_roots() {
    in_version_1(
        |services| services,
        async |project, scene| {
            let path = project.file("a.txt", "a");
            let other = project.outside.join("secret.txt");
            let ask = |session: &str, path: &str| json!({"sessionId": session, "path": path});
            // One that the client never opened is served nothing, neither files nor terminals.
            assert_eq!(scene.wire.code("fs/read_text_file", ask("t", &path)).await, -32002);
            let write = json!({"sessionId": "t", "path": path, "content": "x"});
            assert_eq!(scene.wire.code("fs/write_text_file", write).await, -32002);
            assert_eq!(scene.wire.code("terminal/create", json!({"sessionId": "t", "command": "true"})).await, -32002);
            let _open = [scene.open("t", &project.outside).await, scene.open("u", &project.root).await];
            scene.services.add_session("t".into(), &project.outside, [] as [&Path; 0]).unwrap();
            let mine = scene.wire.result("fs/read_text_file", ask("t", other.to_str().unwrap())).await;
            assert_eq!(mine["content"], "secret");
            assert_eq!(scene.wire.code("fs/read_text_file", ask("t", &path)).await, -32003);
            assert_eq!(scene.wire.result("fs/read_text_file", ask("s", &path)).await["content"], "a");
            assert_eq!(scene.wire.code("fs/read_text_file", ask("s", other.to_str().unwrap())).await, -32003);
            scene.services.add_session("u".into(), &project.root, [&project.outside]).unwrap();
            for path in [&*path, other.to_str().unwrap()] {
                scene.wire.result("fs/read_text_file", ask("u", path)).await;
            }
            scene.services.end_session(&"t".into());
            assert_eq!(scene.wire.code("fs/read_text_file", ask("t", other.to_str().unwrap())).await, -32003);
        },
    );
}

fn a_question_about_a_write_shows_the_change() {
    let person = Person::who_says(Answer::Allow);
    let decider = person.clone();
    in_version_1(
        |services| services.decider(decider),
        async |project, scene| {
            let path = project.file("a.txt", "old\n");
            scene.result("fs/write_text_file", json!({"path": path, "content": "new\n"})).await;
            let asked = person.asked.lock().unwrap().pop().unwrap();
            assert_eq!(asked.facts, ["write a.txt"]);
            assert_eq!(asked.lasting, ["write a.txt"]);
            let texts = asked.changes[0].texts().unwrap();
            assert_eq!((texts.old.as_deref(), &*texts.new), (Some("old\n"), "new\n"));
        },
    );
}

/// Says yes, but only after the file was changed.
struct Typing(std::sync::Mutex<Option<std::path::PathBuf>>);

impl tieline_client::permission::Decider for Typing {
    fn decide<'a>(&'a self, _: &'a tieline_client::permission::Question) -> tieline_client::Future<'a, Answer> {
        if let Some(path) = self.0.lock().unwrap().take() {
            std::fs::write(path, "typed meanwhile").unwrap();
        }
        Box::pin(std::future::ready(Answer::Allow))
    }
}

fn what_changes_during_a_question_is_not_overwritten() {
    let typing = std::sync::Arc::new(Typing(std::sync::Mutex::default()));
    let decider = std::sync::Arc::clone(&typing);
    in_version_1(
        |services| services.decider(decider),
        async |project, scene| {
            project.file("old.txt", "old");
            for name in ["old.txt", "new.txt"] {
                *typing.0.lock().unwrap() = Some(project.root.join(name));
                let params = json!({"path": project.path(name), "content": "by the agent"});
                scene.error("fs/write_text_file", params.clone()).await;
                assert_eq!(std::fs::read_to_string(project.path(name)).unwrap(), "typed meanwhile", "{name}");
                scene.result("fs/write_text_file", params).await;
                assert_eq!(std::fs::read_to_string(project.path(name)).unwrap(), "by the agent", "{name}");
            }
        },
    );
}
