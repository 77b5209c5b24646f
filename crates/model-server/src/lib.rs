//! A scripted local server that speaks the wire formats of the model providers.
//!
//! Tests of a provider use it as the other side, and real agents run offline on it: they are given its address in place of the
//! provider's. It listens on 127.0.0.1 only.
//!
//! ```
//! use tieline_model_server::{Answer, Call, ModelServer, Script};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let script = Script::new(vec![
//!     Answer::new().think("I need a file.").and(Call::write("notes.txt", "hello")),
//!     Answer::text("Done: {result}"),
//! ]);
//! let server = ModelServer::start(script).await?;
//! println!("OPENAI_BASE_URL={}/v1", server.url());
//! assert!(server.requests().is_empty());
//! # Ok(())
//! # }
//! ```

mod body;
mod builtin;
mod call;
mod choose;
mod play;
mod profile;
mod refuse;
mod sample;
mod server;
mod service;
mod talk;
mod wire;

pub use builtin::{builtin, builtins};
pub use choose::script;
pub use profile::{PROFILES, Profile, Variables};
pub use server::{ModelServer, Recorded};
pub use talk::Format;
pub use tieline_script::{Answer, Call, Fault, Finish, Late, Marks, Script, ScriptError, Usage};
