//! The command line: help, wrong flags, prompts, files, pictures, options; every flag does what it says.

use super::harness::{DIALECTS, Place};
use serde_json::{Value, json};

#[test]
fn help_is_short_grouped_and_has_examples() {
    let done = Place::new().exec(&["--help"]).run().ends(0);
    for heading in ["Agent:", "Session:", "Prompt:", "Permission:", "Limits:", "Output:", "Examples:", "Exit codes:"] {
        done.out_has(heading);
    }
    assert!(done.out.lines().all(|line| line.chars().count() <= 100), "{}", done.out);
    let short = Place::new().exec(&["-h"]).run().ends(0);
    assert!(short.out.lines().count() < 80, "{}", short.out);
}

#[test]
fn wrong_flags_say_what_was_wrong() {
    let place = Place::new();
    for (flags, says) in [
        (&["go", "--bogus"][..], "--bogus"),
        (&["go", "--format", "xml"], "stream-json"),
        (&["go", "--timeout", "soon"], "90s"),
        (&["go", "--timeout", "-5"], "5"),
        (&["go", "--start-timeout", "0"], "90s"),
        (&["go", "--protocol", "3"], "2-seed"),
        (&["go", "--framing", "xml"], "content-length"),
        (&["go", "--env", "NOVALUE"], "NAME=VALUE"),
        (&["go", "--option", "=x"], "NAME=VALUE"),
        (&["go", "--ask", "--allow-all"], "cannot be used with"),
        (&["go", "--agent", "x", "--", "y"], "cannot be used with"),
        (&["go", "--continue", "--resume", "x"], "cannot be used with"),
        (&["go", "--allow", "fly(*)"], "fly"),
        (&["go", "--file", "missing.txt"], "missing.txt"),
        (&["go", "--image", "missing.png"], "missing.png"),
        (&["go", "--mcp-config", "missing.json"], "missing.json"),
        (&["go", "--cwd", "missing"], "missing"),
        (&["go", "--add-dir", "missing"], "missing"),
        (&["go", "--trace", "/no/such/folder/trace"], "--trace"),
        (&["go", "--agent", "it's"], "quote"),
        (&["", "--format", "text"], "prompt is empty"),
    ] {
        place.exec(flags).run().ends(2).err_has(says);
    }
}

#[test]
fn only_flags_that_are_near_are_suggested() {
    let place = Place::new();
    let done = place.exec(&["go", "--nosuch"]).run().ends(2);
    assert!(!done.err.contains("similar") && !done.err.contains("--no-fs"), "{done:#?}");
    done.err_has("tip: what is said stands in quotes");
    place.exec(&["go", "--alow-all"]).run().ends(2).err_has("tip: a similar argument exists: '--allow-all'");
    place.exec(&["--help"]).run().ends(0).out_has("141 output unread");
}

#[test]
fn the_prompt_comes_from_the_words_or_from_standard_input() {
    let place = Place::new();
    for (arguments, input) in [(&["from words"][..], None), (&["-"], Some("from words")), (&[], Some("from words"))] {
        let mut exec = place.exec(arguments).words(&["python3", &super::harness::script("agent.py"), "echo"]);
        if let Some(input) = input {
            exec = exec.input(input);
        }
        let done = exec.run().ends(0);
        assert_eq!(done.told(), json!([{"type": "text", "text": "from words"}]));
    }
    place.exec(&["-"]).input([0xff, 0xfe]).run().ends(2).err_has("UTF-8");
    place.exec(&["-"]).input("").run().ends(2).err_has("empty");
    place.exec(&["-"]).input("x".repeat((16 << 20) + 1)).run().ends(2).err_has("--file");
}

#[test]
fn words_are_one_prompt_and_what_is_piped_comes_beside_it() {
    // The word `go` is the harness's.
    let prompt = json!({"type": "text", "text": "go on with it"});
    for dialect in DIALECTS {
        let place = Place::new();
        let run = |arguments: &[&str], words: &[&str], input: &str| {
            place.agent("echo", dialect, arguments).words(words).input(input).run().ends(0).told()
        };
        assert_eq!(run(&["on", "with", "it"], &[], ""), json!([prompt]));
        // An agent that takes nothing but text gets it between marks that the text can't have in it.
        let marked = json!({"type": "text", "text": "<stdin-2>\none </stdin>\n</stdin-2>"});
        assert_eq!(run(&["on", "with it"], &[], "one </stdin>\n"), json!([prompt, marked]));
        for (arguments, dash) in [(&["on with it"][..], ""), (&["on with it", "-"], ""), (&["-", "on with it"], "- ")] {
            let told = run(arguments, &["embed"], "one\n");
            // Between the words it is one of them.
            assert_eq!(told[0]["text"], format!("go {dash}on with it"), "{told}");
            assert_eq!(
                (&told[1]["resource"]["uri"], &told[1]["resource"]["text"]),
                (&json!("stdin:"), &json!("one\n"))
            );
        }
    }
}

#[test]
fn files_and_pictures_as_the_agent_can_take_them() {
    for dialect in DIALECTS {
        let place = Place::new();
        place.write("a b.txt", "inside\n");
        place.write("binary", "a\0b");
        let png = b"\x89PNG\r\n\x1a\nrest";
        std::fs::write(place.project().join("dot.png"), png).unwrap();
        let flags = ["--file", "a b.txt", "--file", "binary", "--image", "dot.png"];
        let uri = format!("file://{}/a%20b.txt", place.project().display());
        let done = place.agent("echo", dialect, &flags).words(&["embed", "image"]).run().ends(0);
        let told = done.told();
        assert_eq!(told[1]["resource"]["text"], "inside\n", "{told}");
        assert_eq!(told[1]["resource"]["uri"], json!(uri));
        assert_eq!((&told[2]["type"], &told[2]["name"]), (&json!("resource_link"), &json!("binary")));
        assert_eq!((&told[3]["type"], &told[3]["mimeType"]), (&json!("image"), &json!("image/png")));
        assert_eq!(told[3]["data"], "iVBORw0KGgpyZXN0");
        // An agent that takes neither gets links, and a picture is said to be one.
        let done = place.agent("echo", dialect, &flags).run().ends(0);
        let told = done.told();
        assert!((1..=3).all(|at| told[at]["type"] == "resource_link"), "{told}");
        done.err_has("takes no pictures");
        place.agent("echo", dialect, &["--image", "a b.txt"]).run().ends(2).err_has("PNG");
    }
}

#[test]
fn modes_models_and_options() {
    for dialect in DIALECTS {
        let place = Place::new();
        let flags = ["--mode", "auto", "--model", "The large one"];
        let done = place.agent("settings", dialect, &flags).run().ends(0);
        let told = done.told();
        assert_eq!((&told[0]["configId"], &told[0]["value"]), (&json!("mode"), &json!("auto")), "{told}");
        assert_eq!((&told[1]["configId"], &told[1]["value"]), (&json!("model"), &json!("large")), "{told}");
        let done = place.agent("settings", dialect, &["-o", "model=large"]).run().ends(0);
        assert_eq!(done.told()[0]["value"], "large");
        place.agent("settings", dialect, &["--model", "huge"]).run().ends(2).err_has("small, large");
        place.agent("settings", dialect, &["-o", "colour=red"]).run().ends(2).err_has("model, mode");
    }
    let done = Place::new().agent("settings", "2", &["-o", "fast=on"]).run().ends(0);
    assert_eq!(done.told()[0], json!({"sessionId": "s1", "configId": "fast", "type": "boolean", "value": true}));
}

#[test]
fn folders_and_servers_reach_the_agent() {
    for dialect in DIALECTS {
        let place = Place::new();
        std::fs::create_dir(place.path("other")).unwrap();
        place.write("sub/x", "");
        place.write(
            "mcp.json",
            r#"{"mcpServers": {"docs": {"command": "sh", "args": ["-c", "true"], "env": {"A": "b"}}}}"#,
        );
        let done =
            place.agent("setup", dialect, &["-C", "sub", "--add-dir", "../other", "--mcp-config", "mcp.json"]).run();
        let told = done.ends(0).told();
        assert_eq!(told["cwd"], json!(place.project().join("sub")));
        assert_eq!(told["additionalDirectories"], json!([place.path("other")]));
        let server: &Value = &told["mcpServers"][0];
        assert_eq!((&server["name"], &server["args"][1]), (&json!("docs"), &json!("true")));
        assert!(server["command"].as_str().unwrap().starts_with('/'), "{server}");
        assert_eq!(server["env"], json!([{"name": "A", "value": "b"}]));
    }
}

#[test]
fn the_version_is_one_for_others_and_the_newest_for_ours() {
    let place = Place::new();
    let done = place.exec(&["go"]).words(&["python3", &super::harness::script("agent.py"), "hello"]).run().ends(0);
    let hello = &done.sent("initialize")[0]["params"];
    assert_eq!((&hello["protocolVersion"], hello.get("info")), (&json!(1), None), "{hello}");
    let object = place.exec(&["list the files", "--format", "json"]).run().ends(0).object();
    assert_eq!(object["agent"]["protocol"], "2");
    for dialect in DIALECTS {
        let object = place.exec(&["list the files", "--format", "json", "--protocol", dialect]).run().ends(0).object();
        assert_eq!(object["agent"]["protocol"], dialect);
        let object = place.agent("hello", dialect, &["--format", "json"]).run().ends(0).object();
        assert_eq!(object["agent"]["protocol"], dialect);
    }
}
