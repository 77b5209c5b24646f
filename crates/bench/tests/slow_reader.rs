//! A client that stops reading must not make the agent grow.

#![allow(clippy::unwrap_used)]
#![cfg(all(target_os = "linux", feature = "ours"))]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn tr_stdio_16_memory_stays_flat_while_nobody_reads() {
    const CHUNKS: usize = 100_000;
    let mut agent =
        Command::new(env!("CARGO_BIN_EXE_echo-agent")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = agent.stdin.take().unwrap();
    let mut output = BufReader::new(agent.stdout.take().unwrap());
    let mut line = String::new();
    for request in [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    ] {
        writeln!(input, "{request}").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    let before = resident_kib(agent.id());
    writeln!(
        input,
        r#"{{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{{"sessionId":"sess-00000001","prompt":[{{"type":"text","text":"stream {CHUNKS} 1000"}}]}}}}"#
    )
    .unwrap();
    // Until the agent does not move any more: nobody reads, so it must wait.
    let mut last = 0;
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = resident_kib(agent.id());
        if now == last {
            break;
        }
        last = now;
    }
    let grown = resident_kib(agent.id()).saturating_sub(before);
    assert!(grown < 32 * 1024, "grew by {grown} KiB");
    // And then everything comes, in order, with the answer last.
    let mut chunks = 0;
    loop {
        line.clear();
        output.read_line(&mut line).unwrap();
        if line.contains("\"stopReason\"") {
            break;
        }
        chunks += 1;
    }
    assert_eq!(chunks, CHUNKS);
    drop(input);
    assert!(agent.wait().unwrap().success());
}
