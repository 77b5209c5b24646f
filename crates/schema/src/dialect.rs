//! The three dialects of ACP, and sets of them.

use std::fmt;
use std::str::FromStr;

/// Which ACP is spoken on a connection. Picked once at `initialize`; decides what we *send*. We *accept* all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// Protocol version 1.
    V1,
    /// Protocol version 2 as drafted in June 2026: a prompt is answered at the end of its turn.
    V2Seed,
    /// Protocol version 2 as drafted today: a prompt is answered when it is accepted, the rest is told by state updates.
    V2,
}

impl Dialect {
    /// All dialects, oldest first.
    pub const ALL: [Dialect; 3] = [Dialect::V1, Dialect::V2Seed, Dialect::V2];

    /// The number in `protocolVersion`.
    pub const fn version(self) -> u16 {
        match self {
            Dialect::V1 => 1,
            Dialect::V2Seed | Dialect::V2 => 2,
        }
    }

    /// The name on the command line: `1`, `2-seed`, `2`.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::V1 => "1",
            Dialect::V2Seed => "2-seed",
            Dialect::V2 => "2",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name() == text)
            .ok_or_else(|| format!("unknown protocol `{text}`: use 1, 2 or 2-seed"))
    }
}

/// A set of dialects: where a method, field or value exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialects(u8);

impl Dialects {
    /// Every dialect.
    pub const ALL: Dialects = Dialects(0b111);
    /// Only version 1.
    pub const V1: Dialects = Dialects(0b001);
    /// Only seed-era version 2.
    pub const SEED: Dialects = Dialects(0b010);
    /// Only current version 2.
    pub const V2: Dialects = Dialects(0b100);
    /// Version 1 and seed-era version 2.
    pub const OLD: Dialects = Dialects(0b011);
    /// Version 1 and current version 2.
    pub const NOT_SEED: Dialects = Dialects(0b101);
    /// Both drafts of version 2.
    pub const BOTH_V2: Dialects = Dialects(0b110);

    /// True if `dialect` is in the set.
    pub const fn has(self, dialect: Dialect) -> bool {
        self.0 & (1 << dialect as u8) != 0
    }
}
