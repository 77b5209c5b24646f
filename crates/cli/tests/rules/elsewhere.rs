//! The rules for agents that have no row here, and why. Where a library can keep them, its tests show them.

const LOGIN: &str = "the scripted models need no login; `tests/login.rs` shows it with a provider";
const SERVERS: &str = "needs servers; `tests/mcp` shows it with real ones";
const PAGES: &str = "the agent asks by forms only, never by a page to visit";
const BACKGROUND: &str = "the agent is silent while it is idle, and lists no background work";

pub const ELSEWHERE: &[(&str, &str)] = &[
    ("V1-AUTH-01", LOGIN),
    ("V1-AUTH-03", LOGIN),
    ("V1-AUTH-05", LOGIN),
    ("V1-AUTH-08", LOGIN),
    ("V1-AUTH-13", LOGIN),
    ("V2-AUTH-01", LOGIN),
    ("V2-AUTH-04", LOGIN),
    ("V2-AUTH-05", LOGIN),
    ("V2-AUTH-08", LOGIN),
    ("V1-SESS-09", SERVERS),
    ("V1-SESS-11", SERVERS),
    ("V1-SESS-12", SERVERS),
    ("V2-SESS-15", SERVERS),
    ("V1-CONTENT-05", SERVERS),
    ("V1-ELIC-04", "what a question asks for is the model's choice"),
    ("V1-ELIC-10", PAGES),
    ("V1-ELIC-12", PAGES),
    ("V1-ERR-08", "the models inside know no rate limit; the coder's `tests/providers.rs` has some that do"),
    ("V1-CANCEL-12", "in version 1 the agent cancels nothing by itself"),
    ("V2-STATE-05", BACKGROUND),
    ("V2-STATE-07", BACKGROUND),
    ("V2-STATE-08", "the agent works only when it is asked to"),
    ("V2-PERM-08", "the agent asks about tool calls, also for commands"),
    ("V2-EXT-03", "the agent shows nothing to people; its client does"),
];
