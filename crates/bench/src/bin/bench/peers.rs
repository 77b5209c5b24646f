//! The programs under test: the built-in table and those given on the command line.

use std::path::PathBuf;

use crate::options::Options;

/// The peer that all ratios refer to.
pub const BASE: &str = "rust-sdk";

/// The peer that the targets are for.
pub const OURS: &str = "ours";

/// The peer without a library, written by hand with serde: what is left to win.
pub const FLOOR: &str = "floor";

/// Which side of the protocol a peer plays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Agent,
    Client,
}

/// Name, side and binary (next to the driver's own) of the peers that belong to this package.
const BUILT_IN: [(&str, Kind, &str); 6] = [
    (BASE, Kind::Agent, "sdk-agent"),
    (FLOOR, Kind::Agent, "floor-agent"),
    (OURS, Kind::Agent, "echo-agent"),
    (BASE, Kind::Client, "sdk-client"),
    (FLOOR, Kind::Client, "floor-client"),
    (OURS, Kind::Client, "echo-client"),
];

pub struct Peer {
    pub name: String,
    pub kind: Kind,
    pub command: Vec<String>,
}

/// Where a binary of this package is.
pub fn beside(binary: &str) -> Result<PathBuf, String> {
    let driver = std::env::current_exe().map_err(|error| format!("cannot find my own path: {error}"))?;
    Ok(driver.with_file_name(binary))
}

/// The peers that can run, and a note on each that cannot.
pub fn find(options: &Options) -> Result<(Vec<Peer>, Vec<String>), String> {
    let mut peers = Vec::new();
    let mut missing = Vec::new();
    for (name, kind, binary) in BUILT_IN {
        if options.extra.iter().any(|extra| extra.kind == kind && extra.name == name) {
            continue;
        }
        let path = beside(binary)?;
        if path.is_file() {
            peers.push(Peer { name: name.into(), kind, command: vec![path.to_string_lossy().into_owned()] });
        } else {
            missing.push(format!("{name}: not built ({binary})"));
        }
    }
    for extra in &options.extra {
        peers.push(Peer { name: extra.name.clone(), kind: extra.kind, command: extra.command.clone() });
    }
    Ok((peers, missing))
}
