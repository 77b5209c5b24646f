//! The coding agent, as the real program, driven by clients that are not ours.

#![allow(clippy::unwrap_used)]

mod acpx;
mod sdks;
mod snippets;
