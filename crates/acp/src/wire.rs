//! Where the model meets the wire: encoding a value for a dialect into the shared buffer.

use tieline_schema::{Dialect, Encode, Writer};

/// Writes `value` as `dialect` wants it.
pub(crate) fn write<T: Encode + ?Sized>(value: &T, dialect: Dialect) -> impl FnOnce(&mut Vec<u8>) {
    move |out| value.encode(&mut Writer { out, dialect })
}

/// The same, as bytes of their own.
pub(crate) fn encode<T: Encode + ?Sized>(value: &T, dialect: Dialect) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write(value, dialect)(&mut out);
    out
}

/// Reads any result, as it is.
pub(crate) fn keep(json: &mut tieline_json::Reader<'_>) -> Result<tieline_schema::Raw, tieline_json::Error> {
    json.keep()
}

/// A random id with a readable prefix, unique in practice: 64 random bits per process and a counter.
pub(crate) fn new_id(prefix: &str) -> String {
    use std::fmt::Write;
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static SEED: LazyLock<String> = LazyLock::new(|| format!("{:016x}", RandomState::new().build_hasher().finish()));
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut id = String::with_capacity(prefix.len() + 32);
    for part in [prefix, "_", &SEED] {
        id.push_str(part);
    }
    let _ = write!(id, "{:x}", NEXT.fetch_add(1, Ordering::Relaxed));
    id
}
