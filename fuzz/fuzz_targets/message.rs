//! See `tieline_fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::message::target(data));
