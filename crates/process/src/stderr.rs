//! A child's standard error: always drained, its end kept, its lines forwarded to whoever wants them.

use crate::locked;
use crate::output::{Ring, unfinished};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt};

/// This much of the end is kept. A longer line is forwarded in pieces of this size.
pub(crate) const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Takes lines of standard error, without their line ends.
pub(crate) type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads until the end, whatever happens to those who look on.
pub(crate) async fn drain(mut input: impl AsyncRead + Unpin, tail: &Mutex<Ring>, on_line: Option<OnLine>) {
    let mut lines = on_line.map(|on_line| Lines { on_line, line: Vec::new(), broken: false });
    let mut chunk = vec![0; 16 * 1024];
    loop {
        match input.read(&mut chunk).await {
            Ok(0) => break,
            Ok(size) => {
                locked(tail).push(&chunk[..size]);
                if let Some(lines) = &mut lines {
                    lines.push(&chunk[..size]);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    locked(tail).close();
    if let Some(lines) = &mut lines
        && !lines.line.is_empty()
    {
        lines.end_line();
    }
}

struct Lines {
    on_line: OnLine,
    line: Vec<u8>,
    /// It panicked; it is not called again.
    broken: bool,
}

impl Lines {
    fn push(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
                self.line.pop_if(|byte| *byte == b'\r');
                self.end_line();
            } else if self.line.len() > MAX_KEPT_BYTES {
                // The last character may not be whole yet; it goes with the next piece.
                let rest = self.line.split_off(self.line.len() - unfinished(&self.line));
                self.end_line();
                self.line = rest;
            }
        }
    }

    fn end_line(&mut self) {
        if !self.broken {
            let text = String::from_utf8_lossy(&self.line);
            self.broken = catch_unwind(AssertUnwindSafe(|| (self.on_line)(&text))).is_err();
        }
        self.line.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(chunks: &[&[u8]], expect: &[&str]) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let on_line: OnLine = Arc::new(move |line| sink.lock().unwrap().push(line.to_owned()));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tail = Mutex::new(Ring::new(MAX_KEPT_BYTES));
        runtime.block_on(drain(&*chunks.concat(), &tail, Some(on_line)));
        assert_eq!(*seen.lock().unwrap(), expect);
        assert_eq!(tail.lock().unwrap().read(0).text, String::from_utf8_lossy(&chunks.concat()));
    }

    #[test]
    fn lines_are_forwarded_without_their_ends() {
        check(&[b"one\ntw", b"o\r\n\nlast"], &["one", "two", "", "last"]);
        check(&[], &[]);
        check(&[b"bad \xff byte\n"], &["bad \u{fffd} byte"]);
    }

    #[test]
    fn a_line_without_end_comes_in_pieces_of_whole_characters() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let mut lines = Lines {
            on_line: Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned())),
            line: Vec::new(),
            broken: false,
        };
        let text = "😀".repeat(MAX_KEPT_BYTES);
        text.as_bytes().chunks(1001).for_each(|chunk| lines.push(chunk));
        lines.end_line();
        let seen = seen.lock().unwrap();
        assert!(seen.len() > 3 && seen.concat() == text);
    }

    #[test]
    fn a_listener_that_panics_is_left_alone() {
        let mut lines = Lines { on_line: Arc::new(|_| panic!("on purpose")), line: Vec::new(), broken: false };
        lines.push(b"one\ntwo\n");
        assert!(lines.broken && lines.line.is_empty());
    }
}
