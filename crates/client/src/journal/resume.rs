//! How a session is taken up again at its agent: resumed or loaded, or its context is lost and that is said.

use tieline::client::{AgentHandle, Session};
use tieline::schema::{AgentCapabilities, McpServer, Replay, ResumeRequest};
use tieline::{Error, Result, WireError};

/// How an agent takes up a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Without telling it again.
    Resume,
    /// By telling it again.
    Load,
}

/// A session that was asked for again.
#[derive(Debug)]
pub enum Taken {
    /// It goes on.
    Up(Session, Way),
    /// The agent does not have its context any more, and why. Nothing was started in its place.
    Lost(String),
    /// The agent has it, but another process does so just now; some agents lock their sessions.
    Held(String),
}

/// The ways an agent offers, the best first: we have the conversation in the journal and need not hear it again.
pub fn way(can: &AgentCapabilities) -> Vec<Way> {
    [(can.resume, Way::Resume), (can.load, Way::Load)]
        .into_iter()
        .filter(|(offered, _)| *offered)
        .map(|(_, way)| way)
        .collect()
}

/// Takes up a session by the agent's id. What a load tells again is dropped: it is in the journal already.
///
/// An error is about the connection or the login; the context may still be there then.
///
/// `directories` are those besides the working directory, which stays as it was.
pub async fn take_up(
    agent: &AgentHandle,
    id: Option<&str>,
    cwd: &str,
    directories: Vec<String>,
    servers: Vec<McpServer>,
) -> Result<Taken> {
    let Some(id) = id else {
        return Ok(Taken::Lost("the agent never gave this session an id".into()));
    };
    let mut why = "the agent can neither resume nor load sessions".to_owned();
    for way in way(agent.capabilities()) {
        let request = ResumeRequest {
            session_id: id.into(),
            cwd: cwd.to_owned(),
            additional_directories: directories.clone(),
            mcp_servers: Some(servers.clone()),
            replay: if way == Way::Load { Replay::Start } else { Replay::None },
            ..ResumeRequest::default()
        };
        match agent.resume_telling(request, drop).await {
            Ok(session) => return Ok(Taken::Up(session, way)),
            Err(Error::Wire(error)) if is_held(&error) => return Ok(Taken::Held(format!("the agent says: {error}"))),
            Err(Error::Wire(error)) => why = format!("the agent says: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(Taken::Lost(why))
}

/// True if the words mean that another process has the session. There is no code for it that agents share.
fn is_held(error: &WireError) -> bool {
    let words = format!("{} {}", error.message, error.data.as_ref().map(tieline::schema::Raw::get).unwrap_or_default())
        .to_lowercase();
    ["in use", "locked", "another process", "already open"].iter().any(|hint| words.contains(hint))
}
