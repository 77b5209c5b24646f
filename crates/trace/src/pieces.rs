//! Where frames end in a stream that is passed on as it comes: nothing is held back, nothing grows. No I/O.

/// A header line is shorter than this; of a longer line only the start is looked at.
const MAX_HEADER_LINE: usize = 256;

/// Follows one direction of a stream in either framing.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// The start of the line that is being read.
    line: Vec<u8>,
    /// The `Content-Length` of the header block that is being read.
    length: Option<usize>,
    in_headers: bool,
    /// So many bytes of a body are still to come.
    body: usize,
}

impl Pieces {
    /// How many of these bytes belong to the current frame, and whether it ends with them.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> (usize, bool) {
        if self.body > 0 {
            let here = self.body.min(bytes.len());
            self.body -= here;
            return (here, self.body == 0);
        }
        let end = memchr::memchr(b'\n', bytes);
        let here = end.map_or(bytes.len(), |end| end + 1);
        let room = MAX_HEADER_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..here.min(room)]);
        (here, end.is_some() && self.line_ended())
    }

    /// Whether the frame ends with this line.
    fn line_ended(&mut self) -> bool {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim().to_ascii_lowercase();
        match line.split_once(':').map(|(name, value)| (name.trim_end(), value)) {
            Some(("content-length", value)) => (self.in_headers, self.length) = (true, value.trim().parse().ok()),
            Some(("content-type", _)) => self.in_headers = true,
            // Some other header.
            _ if self.in_headers && !line.is_empty() && !line.starts_with(['{', '[']) => {}
            _ => {
                self.body = self.length.take().filter(|_| self.in_headers && line.is_empty()).unwrap_or(0);
                self.in_headers = false;
                return self.body == 0;
            }
        }
        false
    }
}

/// A frame that is not whole yet.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Its start.
    pub(crate) bytes: Vec<u8>,
    /// How long it is by now.
    pub(crate) size: u64,
}

impl Gathered {
    /// The next part; no more than `most` bytes are kept.
    pub(crate) fn add(&mut self, part: &[u8], most: usize) {
        let room = most.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&part[..part.len().min(room)]);
        self.size += part.len() as u64;
    }
}

/// What stands in a frame, without its line end or headers; and whether it has headers.
pub(crate) fn body(frame: &[u8]) -> (&[u8], bool) {
    let starts = |name: &[u8]| frame.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let behind = |gap: &[u8]| memchr::memmem::find(frame, gap).map(|at| at + gap.len());
    match behind(b"\r\n\r\n").or_else(|| behind(b"\n\n")) {
        Some(at) if starts(b"content-length") || starts(b"content-type") => (&frame[at..], true),
        _ => (frame.trim_ascii(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(bytes: &[u8], chunk: usize) -> Vec<(Vec<u8>, bool)> {
        let (mut pieces, mut found) = (Pieces::default(), Vec::new());
        for mut chunk in bytes.chunks(chunk) {
            while !chunk.is_empty() {
                let (here, end) = pieces.next(chunk);
                found.push((chunk[..here].to_vec(), end));
                chunk = &chunk[here..];
            }
        }
        found
    }

    /// The frames, joined from their pieces.
    fn frames(bytes: &[u8], chunk: usize) -> Vec<Vec<u8>> {
        let (mut found, mut open) = (Vec::new(), Vec::new());
        for (piece, end) in split(bytes, chunk) {
            open.extend(piece);
            if end {
                found.push(std::mem::take(&mut open));
            }
        }
        found.extend((!open.is_empty()).then_some(open));
        found
    }

    fn check(bytes: &str, expect: &[&str]) {
        for chunk in [1, 2, 3, 7, 64, 4096] {
            let found = frames(bytes.as_bytes(), chunk);
            let found: Vec<_> = found.iter().map(|frame| String::from_utf8_lossy(frame)).collect();
            assert_eq!(found, expect, "in chunks of {chunk}");
        }
    }

    #[test]
    fn frames_end_where_they_end_in_both_framings_and_between() {
        check("{\"a\":1}\n{}\r\n", &["{\"a\":1}\n", "{}\r\n"]);
        check(
            "Content-Length: 3\r\n\r\n{ }content-length:2\n\n{}",
            &["Content-Length: 3\r\n\r\n{ }", "content-length:2\n\n{}"],
        );
        check(
            "Content-Type: x\r\nContent-Length: 4\r\nX: y\r\n\r\n{\n }{\"stray\":1}\nContent-Length: 2\r\n\r\n{}",
            &[
                "Content-Type: x\r\nContent-Length: 4\r\nX: y\r\n\r\n{\n }",
                "{\"stray\":1}\n",
                "Content-Length: 2\r\n\r\n{}",
            ],
        );
        check("no message\n{}\nhalf", &["no message\n", "{}\n", "half"]);
        check("Content-Length: 0\r\n\r\n{}\n", &["Content-Length: 0\r\n\r\n", "{}\n"]);
        check("Content-Length: ten\r\n\r\n{}\n", &["Content-Length: ten\r\n\r\n", "{}\n"]);
        let long = format!("{}\n{{}}\n", "x".repeat(9000));
        check(&long, &[&long[..9001], "{}\n"]);
    }

    #[test]
    fn the_body_of_a_frame() {
        for (frame, expect) in
            [("{}\r\n", "{}"), ("Content-Length: 2\r\n\r\n{}", "{}"), ("content-length: 2\n\n{}", "{}"), (" x \n", "x")]
        {
            assert_eq!(body(frame.as_bytes()).0, expect.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_whatever_comes(bytes in proptest::collection::vec(any::<u8>(), 0..600), chunk in 1_usize..50) {
            prop_assert_eq!(split(&bytes, chunk).concat_pieces(), bytes);
        }
    }

    trait Concat {
        fn concat_pieces(self) -> Vec<u8>;
    }

    impl Concat for Vec<(Vec<u8>, bool)> {
        fn concat_pieces(self) -> Vec<u8> {
            self.into_iter().flat_map(|(piece, _)| piece).collect()
        }
    }
}
