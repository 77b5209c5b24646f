//! What tells one version of a file from another.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest as _, Sha256};
use std::{
    borrow::Cow,
    fmt,
    fs::Metadata,
    io::{self, Read},
    os::unix::fs::MetadataExt as _,
    str::FromStr,
};

/// The SHA-256 of a file's content. As text it is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of everything a reader gives, and how many bytes that is.
    pub(crate) fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let (mut state, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((Self(state.finalize().into()), size)),
                Ok(count) => {
                    state.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text: String = digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect();
        f.write_str(&text)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Hash {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "a hash is 64 lower-case hexadecimal digits";
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(wrong),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(wrong) };
        let mut hash: [u8; 32] = [0; 32];
        if pairs.len() != hash.len() {
            return Err(wrong);
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(hash))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Borrowed where that can be: there may be thousands of them.
        Cow::<str>::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// The version of a file that a read saw. Only the content decides whether a later one is another; the rest says more
/// about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Bytes in the file.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The file's number in its file system.
    pub inode: u64,
    /// The hash of its content.
    pub hash: Hash,
}

impl Version {
    pub(crate) fn new(hash: Hash, size: u64, meta: &Metadata) -> Self {
        let mtime_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Self { size, mtime_ns, inode: meta.ino(), hash }
    }

    /// Whether the other version has the same content.
    pub fn same_content(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// Whether nothing was written between two looks at one file.
pub(crate) fn same(a: &Metadata, b: &Metadata) -> bool {
    let facts = |m: &Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec());
    facts(a) == facts(b)
}
