//! A session opened at the agent, or taken up there again, and set up as the user wants it.

use super::{Ending, Failure, OnLost, Opening, Phase};
use crate::agents::join_line;
use crate::journal::{Taken, take_up};
use tieline::client::{AgentHandle, Session};
use tieline::schema::{ConfigCategory, ConfigKind, ConfigOption, ConfigValue, NewSessionRequest};

/// A session that is open.
pub(super) struct Opened {
    pub(super) session: Session,
    /// It was there before.
    pub(super) resumed: bool,
    /// It stands in the place of one that the agent has lost, and why.
    pub(super) lost: Option<String>,
}

/// Opens the session, or takes up the one that was there before, by the agent's id. The inner error is for the user, the outer
/// one from the agent.
pub(super) async fn open(
    opening: &Opening,
    agent: &AgentHandle,
    known: Option<&Known>,
) -> tieline::Result<Result<Opened, Box<Failure>>> {
    let mut lost = None;
    if let Some(Known { id, agent_id, cwd }) = known {
        let (roots, servers) = (roots(opening, agent), opening.mcp.clone());
        match take_up(agent, agent_id.as_deref(), cwd, roots, servers).await? {
            Taken::Up(session, _) => return Ok(Ok(Opened { session, resumed: true, lost: None })),
            Taken::Held(why) => {
                let why = format!("another process has the session {id} open at the agent: {why}");
                let failure = Failure::new(Ending::Failed, Phase::Session, why);
                return Ok(Err(failure.hint("end the other one first, or wait for it; nothing is lost")));
            }
            Taken::Lost(why) if opening.on_lost == OnLost::Fail => {
                let why = format!("the agent does not have the session {id} any more: {why}");
                let failure = Failure::new(Ending::ContextLost, Phase::Session, why);
                let hint = "go on with a record of what was said (--on-lost handover), or without (--on-lost new)";
                return Ok(Err(failure.hint(hint)));
            }
            Taken::Lost(why) => lost = Some(why),
        }
    }
    Ok(Ok(Opened { session: fresh(opening, agent).await?, resumed: false, lost }))
}

/// A session that was there before.
pub(super) struct Known {
    /// Our name of it.
    pub(super) id: String,
    /// The agent's.
    pub(super) agent_id: Option<String>,
    pub(super) cwd: String,
}

async fn fresh(opening: &Opening, agent: &AgentHandle) -> tieline::Result<Session> {
    let request = NewSessionRequest {
        cwd: opening.cwd.to_string_lossy().into_owned(),
        additional_directories: roots(opening, agent),
        mcp_servers: Some(opening.mcp.clone()),
        ..NewSessionRequest::default()
    };
    agent.open_with(request).await
}

/// The folders besides the working directory, for an agent that takes some.
fn roots(opening: &Opening, agent: &AgentHandle) -> Vec<String> {
    let roots = opening.roots.iter().filter(|_| agent.capabilities().additional_directories);
    roots.map(|root| root.to_string_lossy().into_owned()).collect()
}

/// What stands before the agent's own words.
pub(crate) const LOG_IN_FIRST: &str = "the agent wants you to log in first: ";

/// The failure that says how to log in.
pub(super) fn login_needed(agent: &AgentHandle, phase: Phase, why: &str) -> Box<Failure> {
    let methods = agent.auth_methods().to_vec();
    let mut failure = Failure::new(Ending::LoginNeeded, phase, format!("{LOG_IN_FIRST}{why}"));
    failure.hint = match methods.first() {
        // Some agents say themselves what to type; a second way would only confuse.
        _ if why.contains("tieline agent login ") || why.contains("refused the key in ") => None,
        Some(first) => {
            Some(format!("log in with one of the methods, for example: --login {}", join_line(&[first.id()])))
        }
        None => Some("the agent names no way to log in; its own documentation should".into()),
    };
    failure.logins = methods;
    failure
}

/// Switches mode and model and sets options.
pub(super) async fn set_up(opening: &Opening, session: &Session) -> Result<(), Box<Failure>> {
    let of = |category| move |option: &ConfigOption| option.category.as_ref() == Some(&category);
    if let Some(mode) = &opening.mode {
        let option = session.options().into_iter().find(of(ConfigCategory::Mode));
        set(session, option, "mode", mode).await?;
    }
    if let Some(model) = &opening.model {
        let option = session.options().into_iter().find(of(ConfigCategory::Model));
        set(session, option, "model", model).await?;
    }
    for (id, value) in &opening.options {
        let options = session.options();
        let Some(at) = options.iter().position(|option| option.config_id == *id) else {
            let known: Vec<&str> = options.iter().map(|option| option.config_id.as_str()).collect();
            return Err(wrong(format!("the agent has no option `{id}`"), &known));
        };
        set(session, options.into_iter().nth(at), id, value).await?;
    }
    Ok(())
}

/// The model that answers in a session now.
pub(super) fn model(session: &Session) -> Option<String> {
    let of_model = |option: &ConfigOption| option.category == Some(ConfigCategory::Model);
    match session.options().into_iter().find(of_model)?.kind {
        ConfigKind::Select(select) => Some(select.current_value),
        _ => None,
    }
}

/// The mode and the model that a session has now, in words; and where the model is, if the agent says an address.
pub(super) fn chosen(session: &Session) -> String {
    let wanted = [(ConfigCategory::Mode, "mode"), (ConfigCategory::Model, "model")];
    let options = session.options();
    let one = |(category, word): (ConfigCategory, &str)| {
        let option = options.iter().find(|option| option.category.as_ref() == Some(&category))?;
        let ConfigKind::Select(select) = &option.kind else { return None };
        let now = select.options.iter().find(|choice| choice.value == select.current_value);
        let place = now.and_then(|choice| choice.description.as_deref()).filter(|about| about.starts_with("at http"));
        let place = place.map_or_else(String::new, |place| format!(" {place}"));
        Some(format!("{word} {}{place}", select.current_value))
    };
    wanted.into_iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

async fn set(session: &Session, option: Option<ConfigOption>, what: &str, wanted: &str) -> Result<(), Box<Failure>> {
    let Some(option) = option else { return Err(wrong(format!("this agent offers no {what} to choose"), &[])) };
    let value = match &option.kind {
        ConfigKind::Select(select) => {
            let by_value = select.options.iter().find(|choice| choice.value == wanted);
            let found = by_value.or_else(|| select.options.iter().find(|choice| choice.name == wanted));
            let Some(choice) = found else {
                let known: Vec<&str> = select.options.iter().map(|choice| choice.value.as_str()).collect();
                return Err(wrong(format!("there is no {what} `{wanted}`"), &known));
            };
            ConfigValue::Id(choice.value.clone())
        }
        ConfigKind::Boolean(_) => match wanted {
            "true" | "on" | "yes" => ConfigValue::Bool(true),
            "false" | "off" | "no" => ConfigValue::Bool(false),
            _ => return Err(wrong(format!("`{wanted}` is no value for {what}"), &["true", "false"])),
        },
        ConfigKind::Other(_) => return Err(wrong(format!("the kind of the option `{what}` is not known here"), &[])),
    };
    session.set_option(&option.config_id, value).await.map(drop).map_err(|error| {
        let mut failure = Failure::new(Ending::Failed, Phase::Prompt, format!("{what} can't be set: {error}"));
        failure.rpc_code = error.code();
        failure
    })
}

/// What the user asked for is not there; what is there is named.
fn wrong(message: String, known: &[&str]) -> Box<Failure> {
    const SHOWN: usize = 20;
    let failure = Failure::new(Ending::Usage, Phase::Prompt, message);
    if known.is_empty() {
        return failure;
    }
    let more = if known.len() > SHOWN { format!(" and {} more", known.len() - SHOWN) } else { String::new() };
    failure.hint(format!("there are: {}{more}", known[..known.len().min(SHOWN)].join(", ")))
}
