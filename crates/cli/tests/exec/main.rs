//! `tieline exec` as scripts and people meet it: the real binary with scripted agents, in every dialect and format.

#![allow(clippy::unwrap_used)]

mod answers;
mod codes;
mod dropped;
mod ends;
mod floods;
mod formats;
mod habits;
mod handover;
mod harness;
mod homes;
mod kill;
mod limits;
mod permission_table;
mod permissions;
mod probes;
mod questions;
mod rules;
mod schemas;
mod sessions;
mod signals;
mod surroundings;
mod terminal;
mod usage;
