//! The table of what the scenarios for agents assert, and which scenario asserts what.

use crate::table::{AGENT, Check, Kind, Level};
use tieline_schema::Dialects;

use Level::{Must, Note, Should};
const ALL: Dialects = Dialects::ALL;
const INIT: &str = "ACP: initialization";
const SETUP: &str = "ACP: session setup";
const TURN: &str = "ACP: prompt turn";
const CANCEL: &str = "ACP: cancellation";
const PERMISSION: &str = "ACP: requesting permission";
const LIST: &str = "ACP: session list, delete, close";

/// What the scenarios for agents assert.
#[rustfmt::skip]
pub const CHECKS: &[Check] = &[
    Check::row(Kind::Scenario(""), AGENT, "agent-answers", Must, ALL, "V1-RPC-02", "Every request is answered.", "JSON-RPC 2.0", "Answer each request, also if it fails."),
    Check::row(Kind::Scenario(""), AGENT, "agent-lives", Must, ALL, "V1-RPC-02 TR-ENV-01", "The agent does not end before its input does.", "ACP: transports", "Don't exit on a message that you can't use."),
    Check::row(Kind::Scenario("hello"), AGENT, "hello-echo", Must, ALL, "V1-INIT-03 V2-INIT-03", "A version that the agent speaks is answered as it was asked.", INIT, "Answer with the version of the request if you speak it."),
    Check::row(Kind::Scenario("hello"), AGENT, "hello-newer", Must, ALL, "V1-INIT-04 V2-INIT-04", "A version that the agent does not speak is answered with the newest that it does.", INIT, "Answer with your newest version, not with an error."),
    Check::row(Kind::Scenario("hello"), AGENT, "hello-broken", Must, ALL, "V1-INIT-09", "A version that is no number is refused.", INIT, "Answer -32602."),
    Check::row(Kind::Scenario("hello"), AGENT, "hello-needed", Note, ALL, "V1-INIT-15", "Requests before the hello are refused.", INIT, "Answer -32600 until `initialize` was answered."),
    Check::row(Kind::Scenario("turn"), AGENT, "turn-ends", Must, ALL, "V1-PROMPT-05 V2-PROMPT-04", "A prompt that needs no tool ends by itself.", TURN, "Answer the prompt (version 2: tell `idle`) when the model is done."),
    Check::row(Kind::Scenario("turn"), AGENT, "turn-said", Must, ALL, "V1-PROMPT-04", "What the model says is reported as `session/update`.", TURN, "Send `agent_message_chunk` while the model speaks."),
    Check::row(Kind::Scenario("turn"), AGENT, "turn-again", Must, ALL, "V1-PROMPT-14", "A session takes another prompt after a turn.", TURN, "Keep the session open."),
    Check::row(Kind::Scenario("cancel"), AGENT, "turn-busy", Must, ALL, "V1-RPC-06", "Other requests are answered while a turn runs.", "JSON-RPC 2.0", "Don't read the next message only after the turn."),
    Check::row(Kind::Scenario("sessions"), AGENT, "sessions-differ", Must, ALL, "V1-SESS-04 V2-SESS-02", "Sessions have ids of their own.", SETUP, "Make a new id for each session."),
    Check::row(Kind::Scenario("sessions"), AGENT, "sessions-parallel", Must, ALL, "V1-PROMPT-17 V1-SESS-04", "Two sessions work at the same time.", SETUP, "Keep the turns of sessions apart."),
    Check::row(Kind::Scenario("cancel"), AGENT, "cancel-answered", Must, ALL, "V1-CANCEL-05 V2-CANCEL-04", "A cancelled turn ends with `cancelled`.", CANCEL, "Stop, flush, and answer `cancelled` (version 2: `idle` with `cancelled`); never an error."),
    Check::row(Kind::Scenario("cancel"), AGENT, "cancel-at-once", Must, ALL, "V1-CANCEL-05 V2-CANCEL-04", "A cancel right behind its prompt ends the turn with `cancelled`.", CANCEL, "Take note of the turn as soon as its prompt is read, so that a cancel finds it."),
    Check::row(Kind::Scenario("sessions"), AGENT, "cancel-named", Must, ALL, "V1-CANCEL-05 V1-SESS-04 V2-CANCEL-04", "A cancel ends the turn of the session that it names, and no other.", CANCEL, "Look at the `sessionId` of the cancel."),
    Check::row(Kind::Scenario("cancel-question"), AGENT, "cancel-asked", Must, ALL, "V1-CANCEL-05 V1-CANCEL-06", "A turn that is cancelled while it asks ends with `cancelled`.", CANCEL, "Read `cancelled` of a question as the end of the turn."),
    Check::row(Kind::Scenario("cancel"), AGENT, "cancel-then", Must, ALL, "V1-PROMPT-14", "A session takes another prompt after a cancel.", CANCEL, "Let go of the turn, not of the session."),
    Check::row(Kind::Scenario("cancel"), AGENT, "cancel-idle", Should, ALL, "V1-CANCEL-09", "A cancel while nothing runs does not touch the next turn.", CANCEL, "Forget a cancel that finds no turn."),
    Check::row(Kind::Scenario("permission"), AGENT, "permission-allow", Must, ALL, "V1-PERM-01", "What was allowed is done.", PERMISSION, "Go on after the answer."),
    Check::row(Kind::Scenario("permission"), AGENT, "permission-reject", Must, ALL, "V1-PERM-05", "What was rejected is not done.", PERMISSION, "Run a tool only after an option that allows it."),
    Check::row(Kind::Scenario("permission"), AGENT, "permission-reject-turn", Must, ALL, "V1-PROMPT-10", "A rejected tool is no error of the prompt.", PERMISSION, "Tell the model, and go on; or end the turn with a stop reason."),
    Check::row(Kind::Scenario("permission"), AGENT, "permission-unknown", Should, ALL, "V1-PERM-05 V2-PERM-04", "An option that was never offered is no yes.", PERMISSION, "Read unknown options as a no."),
    Check::row(Kind::Scenario("tools"), AGENT, "tool-told", Should, ALL, "V1-TOOL-01 V2-TOOL-01", "A tool that is used is reported.", "ACP: tool calls", "Send `tool_call` (version 2: `tool_call_update`) as soon as the model asks for it."),
    Check::row(Kind::Scenario("tools"), AGENT, "tool-fails", Must, ALL, "V1-PROMPT-10", "A tool that fails is no error of the prompt.", "ACP: tool calls", "Mark the call as failed, tell the model, and go on."),
    Check::row(Kind::Scenario("content"), AGENT, "content-link", Must, ALL, "V1-INIT-10 V2-INIT-09", "Links to resources are taken in prompts, whatever is offered.", "ACP: content", "Take `resource_link`."),
    Check::row(Kind::Scenario("content"), AGENT, "content-refused", Should, Dialects::V2, "V2-PROMPT-02", "Content that the agent does not take is refused with -32602.", "ACP v2: prompt lifecycle", "Answer -32602."),
    Check::row(Kind::Scenario("content"), AGENT, "content-refused-v1", Note, Dialects::OLD, "V1-PROMPT-03", "Content that the agent does not take is refused with -32602.", "ACP: content", "Answer -32602."),
    Check::row(Kind::Scenario("content"), AGENT, "content-large", Should, ALL, "TR-STDIO-13", "A prompt of one MiB is taken.", "ACP: transports", "Read lines of any length that memory allows."),
    Check::row(Kind::Scenario("load"), AGENT, "load-replays", Must, ALL, "V1-SESS-06 V2-SESS-05", "A loaded session replays what user and agent said, before the answer.", SETUP, "Send the whole conversation as updates, then answer; or don't offer `loadSession`."),
    Check::row(Kind::Scenario("load"), AGENT, "load-goes-on", Must, ALL, "V1-SESS-08", "A loaded session takes prompts.", SETUP, "Restore the session before the answer."),
    Check::row(Kind::Scenario("load"), AGENT, "load-unknown", Should, ALL, "V1-SESS-24 V2-SESS-17", "A session that nobody knows can't be loaded.", SETUP, "Answer -32002."),
    Check::row(Kind::Scenario("resume"), AGENT, "resume-goes-on", Must, ALL, "V1-SESS-15", "A resumed session takes prompts.", SETUP, "Restore the session before the answer."),
    Check::row(Kind::Scenario("list"), AGENT, "list-has", Should, ALL, "V1-LIST-02", "A session with a turn is listed.", LIST, "List what can be taken up again."),
    Check::row(Kind::Scenario("list"), AGENT, "list-folder", Must, ALL, "V1-LIST-03", "A list for a folder has only the sessions of that folder.", LIST, "Compare `cwd` exactly."),
    Check::row(Kind::Scenario("list"), AGENT, "list-cursor", Should, ALL, "V1-LIST-05", "A cursor that nobody gave out is refused.", LIST, "Answer -32602."),
    Check::row(Kind::Scenario("close"), AGENT, "close-answered", Must, ALL, "V1-SESS-18 V2-SESS-10", "A session can be closed.", LIST, "Answer `{}`."),
    Check::row(Kind::Scenario("close"), AGENT, "close-cancels", Must, ALL, "V1-SESS-18 V2-SESS-10", "Closing a session cancels its turn, before the answer.", LIST, "Cancel as for `session/cancel`, then answer."),
    Check::row(Kind::Scenario("list"), AGENT, "delete-gone", Must, ALL, "V1-LIST-09", "A deleted session is listed no more.", LIST, "Leave it out."),
    Check::row(Kind::Scenario("list"), AGENT, "delete-unknown", Should, ALL, "V1-LIST-08", "Deleting what is not there succeeds.", LIST, "Answer `{}`."),
    Check::row(Kind::Scenario("options"), AGENT, "offered-only", Must, ALL, "V1-ERR-02", "Methods that are not offered are refused with -32601.", INIT, "Offer what you have, and answer -32601 for the rest."),
    Check::row(Kind::Scenario("options"), AGENT, "mode-set", Must, Dialects::V1, "V1-MODE-03", "The modes that are offered can be set; not all of them are refused.", "ACP: session modes", "Answer `{}`."),
    Check::row(Kind::Scenario("options"), AGENT, "mode-unknown", Should, Dialects::V1, "V1-MODE-02", "A mode that nobody offered is refused.", "ACP: session modes", "Answer -32602."),
    Check::row(Kind::Scenario("options"), AGENT, "option-set", Must, ALL, "V1-CONF-04 V2-CONF-01", "An option that is set is answered with the whole list, in which it has its new value.", "ACP: session config options", "Answer with all options."),
    Check::row(Kind::Scenario("options"), AGENT, "option-unknown", Should, ALL, "V1-CONF-11 V2-CONF-02", "An option that nobody offered is refused.", "ACP: session config options", "Answer -32602, and change nothing."),
    Check::row(Kind::Scenario("options"), AGENT, "login-unknown", Should, ALL, "V1-AUTH-02", "A way to log in that nobody offered is refused.", "ACP: authentication", "Answer -32602."),
    Check::row(Kind::Scenario("end"), AGENT, "end-exits", Should, ALL, "TR-END-03 TR-END-04", "The agent ends when its input does.", "ACP: transports", "Exit at the end of input, within five seconds."),
    Check::row(Kind::Scenario("end"), AGENT, "end-code", Note, ALL, "TR-END-03", "It then exits with 0.", "ACP: transports", "Exit with 0."),
];

/// The scenarios; those of a check stand in its row. What is in none is found in any of them.
#[rustfmt::skip]
pub const SCENARIOS: [&str; 15] = ["probes", "hello", "turn", "sessions", "cancel", "cancel-question", "permission", "tools", "content", "load", "resume", "list", "close", "options", "end"];
