//! Standard input and output as a transport, whatever the other process made them of.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
fn main() {
    if std::env::args().nth(1).as_deref() == Some("echo") {
        return tests::block_on(tests::echo());
    }
    tests::run_all();
}

#[cfg(unix)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use tieline_rpc::{Event, Transport};

    pub const ALL: &[(&str, fn())] = &[
        ("pipes", pipes),
        ("socket_pairs", socket_pairs),
        ("one_socket_for_both", one_socket_for_both),
        ("files", files),
        ("nothing_to_read", nothing_to_read),
        ("stderr_in_the_same_pipe", stderr_in_the_same_pipe),
        ("stderr_in_the_same_socket", stderr_in_the_same_socket),
        ("a_pipe_that_others_use_afterwards", a_pipe_that_others_use_afterwards),
        ("a_closed_pipe_is_no_disaster", a_closed_pipe_is_no_disaster),
    ];

    /// Runs tests one after the other. Arguments that are no options choose those whose name holds one of them.
    pub fn run_all() {
        let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| name.contains(&**wanted));
        let failed = ALL.iter().filter(|(name, test)| {
            chosen(name) && {
                eprintln!("test {name}");
                std::panic::catch_unwind(test).is_err()
            }
        });
        std::process::exit(i32::from(failed.count() > 0));
    }

    pub fn block_on(work: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    }

    /// The role of a peer: sends back every line. With `NOISE`, talks on standard error meanwhile.
    pub async fn echo() {
        let (mut reader, writer) = Transport::stdio().open();
        let noise = std::env::var_os("NOISE")
            .map(|_| std::thread::spawn(|| (0..2000).for_each(|_| eprintln!("# {}", "n".repeat(200)))));
        while let Event::Frame(at) | Event::Last(at) = reader.next().await {
            let frame = reader.bytes(at);
            if writer.send(|out| out.extend_from_slice(frame)).await.is_err() {
                break;
            }
        }
        writer.close().await;
        if let Some(noise) = noise {
            noise.join().unwrap();
        }
    }

    fn peer() -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("echo");
        command
    }

    fn lines(count: usize) -> String {
        (0..count).map(|n| format!("{n} {}", "x".repeat(1000))).fold(String::new(), |text, line| text + &line + "\n")
    }

    fn read(mut output: impl Read) -> String {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    }

    fn pipes() {
        let (input, to) = std::io::pipe().unwrap();
        let (from, output) = std::io::pipe().unwrap();
        let mut command = peer();
        command.stdin(input).stdout(output);
        let mut child = command.spawn().unwrap();
        drop(command);
        let sender = std::thread::spawn(move || (&to).write_all(lines(5000).as_bytes()).unwrap());
        assert!(read(from) == lines(5000));
        sender.join().unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// What Node gives its children.
    fn socket_pairs() {
        let (to, input) = UnixStream::pair().unwrap();
        let (from, output) = UnixStream::pair().unwrap();
        let mut command = peer();
        command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(output));
        let end = to.try_clone().unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        let sender = std::thread::spawn(move || (&to).write_all(lines(5000).as_bytes()).unwrap());
        let text = lines(5000);
        let mut back = vec![0; text.len()];
        (&from).read_exact(&mut back).unwrap();
        assert!(back == text.as_bytes());
        sender.join().unwrap();
        end.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(from), "");
        assert!(child.wait().unwrap().success());
    }

    fn one_socket_for_both() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = peer();
        command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs));
        let input = ours.try_clone().unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        let sender = std::thread::spawn(move || {
            (&input).write_all(lines(5000).as_bytes()).unwrap();
            input.shutdown(Shutdown::Write).unwrap();
        });
        assert!(read(ours) == lines(5000));
        sender.join().unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn files() {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(lines(5000).as_bytes()).unwrap();
        input.rewind().unwrap();
        let mut output = tempfile::tempfile().unwrap();
        let status = peer().stdin(input).stdout(output.try_clone().unwrap()).status().unwrap();
        assert!(status.success());
        output.rewind().unwrap();
        assert!(read(output) == lines(5000));
    }

    fn nothing_to_read() {
        let output = peer().stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
    }

    /// `2>&1`: the pipe is shared with code that knows nothing of us and may not be surprised.
    fn stderr_in_the_same_pipe() {
        let (from, output) = std::io::pipe().unwrap();
        noisy(from, output.try_clone().unwrap().into(), output.into());
    }

    fn stderr_in_the_same_socket() {
        let (from, output) = UnixStream::pair().unwrap();
        noisy(from, OwnedFd::from(output.try_clone().unwrap()), output.into());
    }

    fn noisy(from: impl Read, output: OwnedFd, errors: OwnedFd) {
        let mut command = peer();
        command.env("NOISE", "1").stdin(Stdio::piped()).stdout(output).stderr(errors);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut input = child.stdin.take().unwrap();
        let sender = std::thread::spawn(move || input.write_all(lines(1000).as_bytes()).unwrap());
        // The pipe is full for a while, so that a write that does not wait would fail.
        std::thread::park_timeout(Duration::from_millis(100));
        let text = read(from);
        sender.join().unwrap();
        assert!(child.wait().unwrap().success());
        // The kernel may mix them, but nothing is lost.
        assert_eq!(text.matches('n').count(), 2000 * 200);
        assert_eq!(text.matches('x').count(), 1000 * 1000);
    }

    /// `{ peer; other; } | reader`: the other one must find the pipe as it was.
    fn a_pipe_that_others_use_afterwards() {
        let script = "\"$0\" echo </dev/null; head -c 1000000 /dev/zero";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(std::env::current_exe().unwrap());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::park_timeout(Duration::from_millis(100));
        assert_eq!(read(child.stdout.take().unwrap()).len(), 1_000_000);
        assert!(child.wait().unwrap().success());
    }

    fn a_closed_pipe_is_no_disaster() {
        let mut child = peer().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // It may be gone before all is written.
        let _ = input.write_all(lines(10).as_bytes());
        drop(input);
        assert!(child.wait().unwrap().success());
    }
}
