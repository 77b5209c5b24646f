//! What to type: from what went wrong to a line that mends it.

use crate::agents::{AgentSpec, KNOWN, join_line};
use crate::config::is_agent_name;
use crate::live::{Ending, Failure, Phase};
use crate::{login, sanitize};
use tieline::schema::AuthMethod;

/// The agent's command as one would type it.
fn command(agent: &AgentSpec) -> String {
    join_line(&agent.command)
}

/// The words for a program that is not there.
pub(super) fn of_missing(agent: &AgentSpec, program: &str) -> (String, String) {
    let known = KNOWN.iter().find(|known| known.command[0] == program || known.name == agent.name);
    let path = std::path::Path::new(program);
    let why = if !program.contains('/') {
        "is not on PATH"
    } else if path.is_dir() {
        "is a folder"
    } else if path.exists() {
        "can't be run"
    } else {
        "does not exist"
    };
    let why = format!("`{}` {why}", sanitize::exact_line(program));
    let fix = match (known, program) {
        (Some(known), _) => known.install.to_owned(),
        (None, "npx" | "npm" | "node") => "install Node.js, and see that `npx --version` works".to_owned(),
        (None, "uvx" | "uv") => "install uv: python3 -m pip install uv".to_owned(),
        _ if path.exists() && !path.is_dir() => format!("chmod +x {}", join_line(&[program])),
        _ if is_agent_name(&agent.name) => format!(
            "tieline agents add {} --replace -- /path/to/{}",
            agent.name,
            sanitize::exact_line(path.file_name().map_or(program, |name| name.to_str().unwrap_or(program)))
        ),
        _ => "give the whole path of the program".to_owned(),
    };
    (why, fix)
}

/// To see for oneself.
pub(super) fn by_hand(agent: &AgentSpec) -> String {
    format!("start it by hand and see what it says: {}", command(agent))
}

/// For an agent that does not speak the protocol.
pub(super) fn rubbish(agent: &AgentSpec) -> String {
    let hint = " (perhaps it wants an argument such as --acp or acp)";
    format!("make it speak ACP on its standard output{hint}; by hand: {}", command(agent))
}

pub(super) fn newer_node(wants: &str) -> String {
    format!("install Node.js {wants}; with npm: npm install -g node@latest")
}

/// For a run that failed.
pub(super) fn of_failure(agent: &AgentSpec, failure: &Failure) -> String {
    let words = failure.stderr.join("\n").to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let old_node = || {
        has(&["unsupported engine", "requires node", "node.js version", "node version"])
            || (words.contains("syntaxerror") && words.contains("node:"))
    };
    if agent.address().is_some() && (failure.ending != Ending::LoginNeeded || failure.phase <= Phase::Initialize) {
        return failure
            .hint
            .clone()
            .unwrap_or_else(|| "check the address, and whether the agent's server runs".to_owned());
    }
    match failure {
        Failure { ending: Ending::LoginNeeded, message, .. } => {
            own_login(message).unwrap_or_else(|| log_in(agent, &failure.logins))
        }
        Failure { ending: Ending::TimedOut, .. } => format!("give it longer (--timeout 120), or {}", by_hand(agent)),
        Failure { exit: Some(_), .. } if old_node() => newer_node("22 or newer"),
        Failure { exit: Some(_), .. } => {
            if has(&["cannot find module", "err_module_not_found", "modulenotfounderror", "no module named"]) {
                format!("install it again, a part of it is missing; by hand: {}", command(agent))
            } else if has(&["api key", "api_key", "apikey", "not logged in", "unauthorized", "authenticate"]) {
                format!("log in or set its key, then try again; by hand: {}", command(agent))
            } else if has(&["eaddrnotavail", "enotfound", "etimedout", "econnrefused", "network"]) {
                "see whether the network and the proxy settings are right".to_owned()
            } else {
                by_hand(agent)
            }
        }
        _ if agent.is_built_in() && failure.message.contains("session store") => {
            "set XDG_STATE_HOME to a folder that you can write to".to_owned()
        }
        // The agent answered, in another version.
        Failure { phase: Phase::Initialize, hint: Some(_), .. } => {
            format!("tieline doctor {} --protocol auto", agent.name)
        }
        _ => by_hand(agent),
    }
}

/// What the agent itself says to type, if it is ours: that is what helps.
fn own_login(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("tieline agent login ")?;
    let provider = rest.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).next()?;
    let place = rest[provider.len()..].strip_prefix(" --base-url ").and_then(|rest| rest.split_whitespace().next());
    let place = place.map_or_else(String::new, |url| format!(" --base-url {url}"));
    (!provider.is_empty()).then(|| format!("tieline agent login {provider}{place}"))
}

/// For an agent that wants a login.
fn log_in(agent: &AgentSpec, methods: &[AuthMethod]) -> String {
    let terminal = methods.iter().find_map(|method| match method {
        AuthMethod::Terminal(terminal) => Some(terminal),
        _ => None,
    });
    if let Some(terminal) = terminal {
        let mut with = agent.clone();
        with.command.extend(terminal.args.iter().cloned());
        // What the agent says must not become a second command in the user's shell.
        let set = terminal.env.0.iter().map(|one| join_line(&[&one.name]) + "=" + &join_line(&[&one.value]));
        let mut words: Vec<String> = set.collect();
        words.push(command(&with));
        return words.join(" ");
    }
    let which = if is_agent_name(&agent.name) && agent.origin != crate::config::Origin::Flag {
        format!("--agent {}", agent.name)
    } else {
        format!("--agent \"{}\"", command(agent))
    };
    let variables = methods.iter().find_map(|method| match login::Method::of(method).kind {
        login::Kind::Variables { names, .. } if !names.is_empty() => Some(names),
        _ => None,
    });
    if let Some(names) = variables {
        let lines: Vec<String> = names.iter().map(|name| format!("export {name}=…")).collect();
        return sanitize::line(&lines.join("; "));
    }
    match methods.first() {
        Some(method) => format!("tieline exec {which} --login {} \"Hello\"", join_line(&[method.id()])),
        None => by_hand(agent),
    }
}
