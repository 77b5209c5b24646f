//! `tieline exec` as scripts and people meet it: the real binary with scripted agents, in every dialect and format.

#![allow(clippy::unwrap_used)]

mod ends;
mod formats;
mod habits;
mod harness;
mod kill;
mod permissions;
mod probes;
mod rules;
mod sessions;
mod signals;
mod surroundings;
mod terminal;
mod usage;
