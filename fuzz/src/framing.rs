//! Bytes to frames: however the bytes are cut, the same frames come out.

use tieline_rpc::framing::{Decoder, Framing, Step};

/// Small, so that the fuzzer gets beyond it.
const LIMIT: usize = 48;

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Frame(Vec<u8>),
    TooLong,
    Broken,
    Last(Vec<u8>),
}

/// The first byte says how the rest is cut.
pub fn target(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else { return };
    let cut = usize::from(*cut % 16) + 1;
    for framing in [None, Some(Framing::Lines), Some(Framing::Headers)] {
        let whole = frames(framing, [stream]);
        assert_eq!(whole, frames(framing, stream.chunks(cut)), "{framing:?} in pieces of {cut}");
        assert_eq!(whole, frames(framing, stream.chunks(1)), "{framing:?} byte by byte");
    }
    both_ways(stream);
}

fn frames<'d>(framing: Option<Framing>, pieces: impl IntoIterator<Item = &'d [u8]>) -> Vec<Found> {
    let mut decoder = Decoder::new(framing, LIMIT);
    let mut found = Vec::new();
    for piece in pieces {
        decoder.space().extend_from_slice(piece);
        loop {
            match decoder.step() {
                Step::Need => break,
                Step::Frame(at) => {
                    let frame = &decoder.bytes()[at];
                    assert!(frame.len() <= LIMIT, "a frame over the limit");
                    found.push(Found::Frame(frame.to_vec()));
                }
                Step::TooLong(at) => {
                    // How much of it is there to see depends on the cut; that it can be looked at does not.
                    let _ = &decoder.bytes()[at];
                    found.push(Found::TooLong);
                }
                Step::Broken(_) => {
                    found.push(Found::Broken);
                    return found;
                }
            }
        }
    }
    if let Some(at) = decoder.rest() {
        found.push(Found::Last(decoder.bytes()[at].to_vec()));
    }
    found
}

/// What we write is read back, in either framing, told or detected.
fn both_ways(body: &[u8]) {
    // A message is one line of JSON: it has no raw line break, and does not look like a header.
    let body: Vec<u8> = body.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).take(LIMIT - 2).collect();
    let body = [b"[", &body[..], b"]"].concat();
    for framing in [Framing::Lines, Framing::Headers] {
        let mut bytes = Vec::new();
        for _ in 0..2 {
            framing.write(&mut bytes, |out| out.extend_from_slice(&body));
        }
        let expect = [Found::Frame(body.clone()), Found::Frame(body.clone())];
        assert_eq!(frames(Some(framing), [&bytes[..]]), expect);
        assert_eq!(frames(None, bytes.chunks(3)), expect);
    }
}
