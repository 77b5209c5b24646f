//! The table of what the scenarios for clients assert.

use crate::table::{CLIENT, Check, Kind, Level};
use tieline_schema::Dialects;

use Level::{Must, Note, Should};
const ALL: Dialects = Dialects::ALL;
const FILES: &str = "ACP: file system";
const TERMINALS: &str = "ACP: terminals";

/// What the scenarios for clients assert.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    Check::row(Kind::Scenario(""), CLIENT, "client-answers", Must, ALL, "V1-RPC-02 V1-RPC-06", "Every request of the agent is answered, also while a turn runs.", "JSON-RPC 2.0", "Answer each request; don't wait for the end of the turn first."),
    Check::row(Kind::Scenario("talk"), CLIENT, "client-prompts", Must, ALL, "V1-INIT-01 V1-PROMPT-01", "The client says hello, opens a session and sends its prompt.", "ACP: initialization", "Initialize, `session/new`, `session/prompt`, in this order."),
    Check::row(Kind::Scenario("permission"), CLIENT, "client-permission", Must, ALL, "V1-INIT-12 V1-PERM-02", "A question is answered with an outcome.", "ACP: requesting permission", "Answer `{\"outcome\":{\"outcome\":…}}`, also if nobody can be asked."),
    Check::row(Kind::Scenario("unknown"), CLIENT, "client-unknown-request", Must, ALL, "V1-EXT-03 V1-ERR-02", "Requests that nobody knows are refused with -32601.", "ACP: extensibility", "Answer -32601."),
    Check::row(Kind::Scenario("unknown"), CLIENT, "client-unknown-told", Must, ALL, "V1-RPC-03 V1-EXT-04", "Notifications that nobody knows are passed over in silence.", "ACP: extensibility", "Don't answer what has no `id`."),
    Check::row(Kind::Scenario("unknown"), CLIENT, "client-unknown-update", Should, ALL, "V1-RPC-11 V2-EXT-02", "Updates of an unknown kind end nothing.", "ACP: schema", "Pass over what you don't know, or show it generically."),
    Check::row(Kind::Scenario("rubbish"), CLIENT, "client-rubbish", Should, ALL, "TR-STDIO-11", "A line that is no JSON ends nothing.", "ACP: transports", "Pass over it, and read the next line."),
    Check::row(Kind::Scenario("flood"), CLIENT, "client-flood", Should, ALL, "TR-STDIO-16", "Thousands of updates are taken.", "ACP: prompt turn", "Read while you show."),
    Check::row(Kind::Scenario("late"), CLIENT, "client-late", Should, ALL, "V1-CANCEL-08", "Updates after the end of a turn end nothing.", "ACP: prompt turn", "Take them, or pass over them."),
    Check::row(Kind::Scenario("files"), CLIENT, "client-read", Must, Dialects::V1, "V1-FS-03", "A part of a file is read by line and limit.", FILES, "`line` counts from 1, `limit` is the number of lines."),
    Check::row(Kind::Scenario("files"), CLIENT, "client-write", Must, Dialects::V1, "V1-FS-04", "A file that is not there is made.", FILES, "Create it."),
    Check::row(Kind::Scenario("files"), CLIENT, "client-relative", Must, Dialects::V1, "V1-FS-05", "Paths that are not absolute are refused.", FILES, "Answer -32602."),
    Check::row(Kind::Scenario("files"), CLIENT, "client-missing", Note, Dialects::V1, "V1-FS-06", "A file that is not there is refused with -32002.", FILES, "Answer -32002."),
    Check::row(Kind::Scenario("files terminals"), CLIENT, "client-unoffered", Must, Dialects::V1, "V1-FS-09 V1-ERR-02", "What the client does not offer is refused with -32601.", FILES, "Answer -32601."),
    Check::row(Kind::Scenario("terminals"), CLIENT, "client-terminal", Must, Dialects::V1, "V1-TERM-02 V1-TERM-04 V1-TERM-06", "A command runs in a terminal; its output and its end are told.", TERMINALS, "Answer `create` at once, `output` with what is there, `wait_for_exit` at the end."),
    Check::row(Kind::Scenario("terminals"), CLIENT, "client-terminal-limit", Must, Dialects::V1, "V1-TERM-05", "Output beyond the limit is dropped from the front, on a whole character, and said to be cut.", TERMINALS, "Keep the last `outputByteLimit` bytes, and set `truncated`."),
    Check::row(Kind::Scenario("terminals"), CLIENT, "client-terminal-kill", Must, Dialects::V1, "V1-TERM-07", "A killed command keeps its terminal.", TERMINALS, "Keep the id until `release`."),
    Check::row(Kind::Scenario("terminals"), CLIENT, "client-terminal-release", Must, Dialects::V1, "V1-TERM-08", "A released terminal is gone.", TERMINALS, "Answer an error to its id."),
    Check::row(Kind::Scenario("version"), CLIENT, "client-version", Should, ALL, "V1-INIT-05 V2-INIT-05", "A version that the client does not speak ends the connection.", "ACP: initialization", "Close, and tell the user."),
    Check::row(Kind::Scenario("login"), CLIENT, "client-login", Must, ALL, "V1-AUTH-02 V2-AUTH-02", "Only ways to log in that the agent named are used.", "ACP: authentication", "Send the id as it came."),
    Check::row(Kind::Scenario("crash"), CLIENT, "client-crash", Should, ALL, "TR-END-07", "An agent that ends in the middle of a turn ends the wait.", "ACP: transports", "Fail what is pending, and tell the user."),
    Check::row(Kind::Scenario("cancel"), CLIENT, "client-cancel", Should, ALL, "V1-CANCEL-08", "Updates after a cancel are taken until the turn ends.", "ACP: cancellation", "Go on reading and answering until the prompt is answered."),
    Check::row(Kind::Scenario("hang"), CLIENT, "client-hang", Should, ALL, "TR-END-02", "An agent that does not react to a cancel does not hold up the client for ever.", "ACP: transports", "Give it some time, then close its input, then end it."),
    Check::row(Kind::Scenario("hostile"), CLIENT, "client-hostile", Note, ALL, "TR-END-09", "Escape sequences of the agent are not printed as they are.", "the protocol is silent", "Take control characters out of everything that an agent says before it is printed."),
    Check::row(Kind::Scenario(""), CLIENT, "client-closes", Must, ALL, "TR-END-01", "The client ends an agent by closing its input.", "ACP: transports", "Close the agent's input, wait, and only then kill it."),
];

/// The scenarios; those of a check stand in its row. What is in none is found in any of them.
#[rustfmt::skip]
pub const SCENARIOS: [&str; 14] = ["talk", "permission", "unknown", "rubbish", "flood", "late", "files", "terminals", "version", "login", "crash", "cancel", "hang", "hostile"];
