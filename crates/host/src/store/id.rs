//! Ids of sessions: seven letters for the time, so that they sort by it, and five by chance, good as a short name.

use super::Time;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Digits and letters without those that look alike.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME_LETTERS: u32 = 7;
const CHANCE_LETTERS: u32 = 5;

/// A new id, such as `1mxk3wq-7fz4k`.
pub fn new_id() -> String {
    of(Time::now(), RandomState::new().build_hasher().finish())
}

fn of(time: Time, chance: u64) -> String {
    let seconds = time.0.max(0).cast_unsigned() / 1000;
    let letters = |number: u64, count: u32| {
        (0..count).rev().map(move |at| char::from(LETTERS[(number >> (5 * at)) as usize % LETTERS.len()]))
    };
    letters(seconds, TIME_LETTERS).chain(['-']).chain(letters(chance, CHANCE_LETTERS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let ids: Vec<String> = [0, 1000, 1_800_000_000_000, 1_800_000_001_000].map(|ms| of(Time(ms), u64::MAX)).into();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert_eq!(ids[0], "0000000-zzzzz");
        assert_ne!(new_id(), new_id());
    }
}
