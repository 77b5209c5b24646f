//! A guide, chapter by chapter. Every example compiles, and those that can run do so with the tests.
//!
//! | chapter | |
//! |---|---|
//! | [`an_agent`] | a whole agent: sessions, turns, options |
//! | [`a_client`] | a whole client: sessions, turns, what an agent may ask |
//! | [`tools_and_permission`] | tool calls, questions, files, terminals |
//! | [`sessions_and_storage`] | sessions that outlive the program |
//! | [`dialects`] | one program, three versions of the protocol: what can be counted on where |
//! | [`transports`] | pipes, sockets, whole messages, recorders |
//! | [`proxies`] | something between a client and an agent |
//! | [`testing`] | both sides in one test, without a process |
//! | [`errors_and_limits`] | what can go wrong, how long things may take, how big they may be |
//! | [`from_the_official_sdk`] | for those who know it |

#[doc = include_str!("agent.md")]
pub mod an_agent {}
#[doc = include_str!("client.md")]
pub mod a_client {}
#[doc = include_str!("tools.md")]
pub mod tools_and_permission {}
#[doc = include_str!("sessions.md")]
pub mod sessions_and_storage {}
#[doc = include_str!("dialects.md")]
#[doc = include_str!("methods.md")]
pub mod dialects {}
#[doc = include_str!("transports.md")]
pub mod transports {}
#[doc = include_str!("proxies.md")]
pub mod proxies {}
#[doc = include_str!("testing.md")]
pub mod testing {}
#[doc = include_str!("errors.md")]
pub mod errors_and_limits {}
#[doc = include_str!("official.md")]
pub mod from_the_official_sdk {}
