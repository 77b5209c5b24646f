//! The rules hold for the address that is connected to, whatever the name or the way to write it.

use super::editor::{Listed, calls, text};
use super::rules::ruled_with;
use serde_json::json;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tieline_coder::http::{Http, Options};

/// Answers on both loopbacks as long as there is one, and counts who comes.
fn serve(answer: impl Fn(u16) -> String + Send + 'static) -> (u16, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer(port).as_bytes());
        }
    });
    (port, count)
}

fn page(_: u16) -> String {
    "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\ninside".into()
}

/// What one fetch brings: the result, the questions, how often the server was reached.
async fn fetch(
    url: &str,
    rules: &str,
    answer: fn(u16) -> String,
    option: &'static str,
) -> (String, Vec<String>, usize) {
    let (port, count) = serve(answer);
    let here = |text: &str| text.replace("PORT", &port.to_string());
    let model = Listed::new([calls(vec![("fetch", json!({"url": here(url)}))]), text("done")]);
    let mut editor = ruled_with(&model, "edit", &here(rules), |settings| {
        let known = ["evil.example", "two.example"].map(|name| (name.to_owned(), "127.0.0.1".parse().unwrap()));
        let far = ("far.example".to_owned(), "192.0.2.1".parse().unwrap());
        settings.http = Http::new(Options { known: known.into_iter().chain([far]).collect(), ..Options::default() });
    })
    .await;
    for _ in 0..4 {
        editor.answers.push((Box::new(|| ()), option));
    }
    editor.prompt("go").await;
    let asked = editor.asked.iter().map(ToString::to_string).collect();
    (model.results()[0].0.clone(), asked, count.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_name_does_not_hide_an_address() {
    let all = "allow = [\"fetch *:PORT\"]";
    let named = "allow = [\"fetch *.example:PORT\"]";
    let denied = "allow = [\"fetch *:PORT\"]\ndeny = [\"fetch 127.0.0.1\"]";
    for (url, rules, option, questions, reached, expect) in [
        // Who allows everything allows this.
        ("http://evil.example:PORT/", all, "reject", 0, 1, "inside"),
        // Who allows a name does not allow this machine.
        (
            "http://evil.example:PORT/",
            named,
            "reject",
            1,
            0,
            "evil.example is at 127.0.0.1, this machine or its own network",
        ),
        ("http://evil.example:PORT/", named, "allow", 1, 1, "inside"),
        ("http://127.0.0.1:PORT/", named, "reject", 1, 0, "the client said no"),
        ("http://localhost:PORT/", named, "allow", 1, 1, "inside"),
        // A rule against an address holds for each way to it.
        ("http://evil.example:PORT/", denied, "allow", 0, 0, "Not allowed (rule: fetch 127.0.0.1)"),
        ("http://localhost:PORT/", denied, "allow", 0, 0, "Not allowed (rule: fetch 127.0.0.1)"),
        ("http://127.0.0.1:PORT/", denied, "allow", 0, 0, "Not allowed (rule: fetch 127.0.0.1)"),
        ("http://[::ffff:127.0.0.1]:PORT/", denied, "allow", 0, 0, "Not allowed (rule: fetch 127.0.0.1)"),
        ("http://[::ffff:7f00:1]:PORT/", denied, "allow", 0, 0, "Not allowed (rule: fetch 127.0.0.1)"),
        ("http://2130706433:PORT/", all, "allow", 0, 0, "not a plain"),
        ("http://0x7f.1:PORT/", all, "allow", 0, 0, "not a plain"),
        ("http://127.1:PORT/", all, "allow", 0, 0, "not a plain"),
        ("http://0177.0.0.1:PORT/", all, "allow", 0, 0, "not a plain"),
    ] {
        let (said, asked, count) = fetch(url, rules, page, option).await;
        assert!(said.contains(expect), "{url} {rules}: {said}");
        assert_eq!((asked.len(), count), (questions, reached), "{url} {rules}: {asked:?}");
    }
}

#[tokio::test]
async fn a_redirection_is_judged_like_an_address() {
    let to = |port: u16| {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: http://two.example:{port}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    };
    let rules = "allow = [\"fetch http://127.0.0.1:PORT\", \"fetch http://evil.example:PORT\"]";
    let (said, asked, count) = fetch("http://evil.example:PORT/", rules, to, "reject").await;
    assert!(said.contains("leads to http://two.example"), "{said}");
    assert_eq!((asked.len(), count), (1, 1), "{asked:?}");
    let denied =
        "allow = [\"fetch http://evil.example:PORT\", \"fetch http://127.0.0.1:PORT\"]\ndeny = [\"fetch two.example\"]";
    let (said, asked, count) = fetch("http://evil.example:PORT/", denied, to, "allow").await;
    assert!(said.contains("Not allowed (rule: fetch two.example)"), "{said}");
    assert_eq!((asked.len(), count), (0, 1), "{asked:?}");
}
