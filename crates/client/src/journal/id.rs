//! Our own ids of sessions: seven letters for the time, so that they sort by it, and five by chance, good as a short name.

use super::{Error, Result};
use tieline_host::store::Time;

/// Digits and letters without those that look alike.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TIME: u32 = 7;
const CHANCE: usize = 5;

/// A new id, such as `1mxk3wq-7fz4k`.
pub(super) fn new() -> Result<String> {
    let mut chance = [0; CHANCE];
    getrandom::fill(&mut chance).map_err(|error| Error::Chance(error.to_string()))?;
    Ok(of(Time::now(), chance))
}

fn of(time: Time, chance: [u8; CHANCE]) -> String {
    let seconds = time.0.max(0).cast_unsigned() / 1000;
    let letter = |number: u64| char::from(LETTERS[(number % 32) as usize]);
    let time = (0..TIME).rev().map(|at| letter(seconds >> (5 * at)));
    time.chain(['-']).chain(chance.into_iter().map(|byte| letter(byte.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let ids: Vec<String> = [0, 1000, 1_800_000_000_000, 1_800_000_001_000].map(|ms| of(Time(ms), [31; 5])).into();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert_eq!(ids[0], "0000000-zzzzz");
        assert_ne!(new().unwrap(), new().unwrap());
    }
}
