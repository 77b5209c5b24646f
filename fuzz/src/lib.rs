//! The bodies of the fuzz targets: each takes any bytes and panics if a promise is broken.
//!
//! libFuzzer drives them from `fuzz_targets/`. On a stable compiler `crates/acp/tests/fuzz_targets.rs` includes this very
//! file and drives them with the seeds and with random changes to them.

pub mod framing;
pub mod json;
pub mod message;
mod round_trip;
pub mod transcript;

/// Calls and answers, written as version 1 writes them.
pub mod v1 {
    use tieline_schema::Dialect;

    /// What version 1 can say is read back as it was meant.
    pub fn target(data: &[u8]) {
        super::round_trip::check(data, Dialect::V1);
    }
}

/// Calls and answers, written as both drafts of version 2 write them.
pub mod v2 {
    use tieline_schema::Dialect;

    /// What version 2 can say is read back as it was meant.
    pub fn target(data: &[u8]) {
        super::round_trip::check(data, Dialect::V2Seed);
        super::round_trip::check(data, Dialect::V2);
    }
}
