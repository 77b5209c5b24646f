// An interop client on the official TypeScript SDK: `node client.mjs 1|2 -- AGENT COMMAND…`, or an address instead of the command.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { isDeepStrictEqual } from "node:util";
import * as v1 from "@agentclientprotocol/sdk";
import * as v2 from "@agentclientprotocol/sdk/experimental/v2";
import { withTerminals } from "./terminals.mjs";

const VERSION = "0.1.0";
const STEP_DEADLINE = 10_000;
const CANCEL_AFTER = 200;
const SAID = "hello from the client, größer als ASCII";
const THOUGHT = "thinking about it";
const PLAN = ["Look:high:completed", "Think:medium:in_progress", "Write:low:pending"];

const args = process.argv.slice(2);
const version = Number(args[0]);
if (![1, 2].includes(version) || args[1] !== "--" || args.length < 3) {
  console.error("usage: node client.mjs 1|2 -- AGENT COMMAND...");
  process.exit(2);
}
const sdk = version === 1 ? v1 : v2;
const { methods } = sdk;

let ok = true;
const line = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);
const complain = (message) => {
  ok = false;
  console.error(message);
};
const expect = (step, what, got, want) => {
  if (!isDeepStrictEqual(got, want)) {
    complain(`${step}: ${what} is ${JSON.stringify(got)}, expected ${JSON.stringify(want)}`);
  }
};
const tell = (e) => {
  const message = e?.message ?? String(e);
  return typeof e?.code === "number" ? `${message} (${e.code}) ${JSON.stringify(e.data)}` : message;
};
let current = "start";
async function within(step, work) {
  current = step;
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing within ${STEP_DEADLINE / 1000} s`)), STEP_DEADLINE);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

// What was seen of the present turn, and who waits for it to change.
let state;
let how = "allow";
const waiting = new Set();
function begin(next) {
  how = next;
  const seen = { text: "", thoughts: "", user: "", chunks: 0, thought_chunks: 0 };
  state = { seen, updates: 0, active: false, idle: false, userId: undefined, texts: new Map() };
}
const changed = () => waiting.forEach((check) => check());
const until = (ready, limit) =>
  new Promise((resolve) => {
    let timer;
    const check = () => {
      if (!ready()) return;
      waiting.delete(check);
      clearTimeout(timer);
      resolve();
    };
    waiting.add(check);
    if (limit !== undefined) {
      timer = setTimeout(() => {
        waiting.delete(check);
        resolve();
      }, limit);
    }
    check();
  });
function take() {
  const { seen, texts } = state;
  seen.text += [...texts.values()].join("");
  if (!seen.user) delete seen.user;
  return seen;
}

const textOf = (block) => (block.type === "text" ? block.text : "[not text]");
const contentOf = (item) => (item.type === "content" ? textOf(item.content) : "[not content]");

function apply({ update }) {
  const { seen } = state;
  state.updates += 1;
  switch (update.sessionUpdate) {
    case "user_message":
      state.userId = update.messageId;
      seen.user += (update.content ?? []).map(textOf).join("");
      break;
    case "user_message_chunk":
      state.userId = update.messageId;
      seen.user += textOf(update.content);
      break;
    case "agent_message":
      if (update.content !== undefined) state.texts.set(update.messageId, (update.content ?? []).map(textOf).join(""));
      break;
    case "agent_message_chunk":
      seen.chunks += 1;
      state.texts.set(update.messageId, (state.texts.get(update.messageId) ?? "") + textOf(update.content));
      break;
    case "agent_thought_chunk":
      seen.thought_chunks += 1;
      seen.thoughts += textOf(update.content);
      break;
    case "tool_call":
    case "tool_call_update":
      if (update.title != null) seen.title = update.title;
      if (update.kind != null) seen.kind = update.kind;
      if (update.status != null) (seen.statuses ??= []).push(update.status);
      // An announced call without a status is pending.
      else if (update.sessionUpdate === "tool_call") (seen.statuses ??= []).push("pending");
      if (update.content != null) seen.content = update.content.map(contentOf).join("");
      break;
    case "plan":
    case "plan_update": {
      const entries = update.entries ?? update.plan.entries ?? [];
      seen.plan = entries.map((e) => `${e.content}:${e.priority}:${e.status}`);
      break;
    }
    case "state_update":
      (seen.states ??= []).push(update.state);
      // An idle before any work is only a snapshot; an unknown state counts as work.
      if (update.state !== "idle") state.active = true;
      else if (state.active) {
        state.idle = true;
        seen.stop = update.stopReason;
        if (update.error) seen.error = update.error.code;
      }
      break;
  }
  changed();
}

function decide({ options }) {
  if (how === "cancel") return { outcome: { outcome: "cancelled" } };
  (state.seen.asked ??= []).push(...options.map((o) => `${o.optionId}:${o.kind}`));
  const option = options.find((o) => o.kind === (how === "allow" ? "allow_once" : "reject_once"));
  return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
}

function app() {
  const app = sdk
    .client({ name: "ts-client" })
    .onNotification(methods.client.session.update, ({ params }) => apply(params))
    .onRequest(methods.client.session.requestPermission, ({ params }) => decide(params));
  if (version !== 1) return app;
  const files = app
    .onRequest(methods.client.fs.readTextFile, ({ params }) => ({ content: readFileSync(params.path, "utf8") }))
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
      writeFileSync(params.path, params.content);
      return {};
    });
  return withTerminals(files);
}

let agent;
let sessionId;

async function initialize() {
  const info = { name: "ts-client", version: VERSION };
  if (version === 1) {
    const fs = { readTextFile: true, writeTextFile: true };
    const hello = { protocolVersion: 1, clientCapabilities: { fs, terminal: true }, clientInfo: info };
    const answer = await agent.request(methods.agent.initialize, hello);
    const can = answer.agentCapabilities ?? {};
    return {
      protocol: answer.protocolVersion,
      agent: answer.agentInfo?.name ?? "",
      list: can.sessionCapabilities?.list != null,
      replay: can.loadSession === true,
      close: can.sessionCapabilities?.close != null,
    };
  }
  const answer = await agent.request(methods.agent.initialize, { protocolVersion: 2, info, capabilities: {} });
  const has = answer.capabilities?.session != null;
  return { protocol: answer.protocolVersion, agent: answer.info.name, list: has, replay: has, close: has };
}

async function prompt(words, next = "allow") {
  begin(next);
  const turn = agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
  turn.catch(() => {});
  if (next === "cancel") {
    // In v2 a cancellation before the work has begun would withdraw the prompt itself.
    await until(() => (version === 1 ? state.updates > 0 : state.active), CANCEL_AFTER);
    await agent.notify(methods.agent.session.cancel, { sessionId });
  }
  if (version === 1) {
    try {
      state.seen.stop = (await turn).stopReason;
    } catch (e) {
      if (typeof e?.code !== "number") throw e;
      state.seen.error = e.code;
    }
    return take();
  }
  const { messageId } = await turn;
  await until(() => state.idle);
  return { ...take(), same_id: state.userId === messageId };
}

async function replay(cwd) {
  begin("allow");
  if (version === 1) await agent.request(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  else await agent.request(methods.agent.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
  return take();
}

async function turn(step, words, stop, next) {
  const seen = await within(step, prompt(words, next));
  line({ step, ...seen });
  expect(step, "the error", seen.error, undefined);
  expect(step, "the stop reason", seen.stop, stop);
  if (version !== 1) {
    expect(step, "the last state", seen.states?.at(-1), "idle");
    expect(step, "the id of the user message", seen.same_id, true);
  }
  return seen;
}

async function scenario(cwd) {
  const hello = await within("initialize", initialize());
  line({ step: "initialize", protocol: hello.protocol, agent: hello.agent });
  expect("initialize", "the protocol version", hello.protocol, version);
  if (hello.protocol !== version) throw new Error("the rest makes no sense in another version");
  if (process.env.INTEROP_SESSION) {
    sessionId = process.env.INTEROP_SESSION;
    return takenUp(cwd);
  }
  const opened = agent.request(methods.agent.session.new, version === 1 ? { cwd, mcpServers: [] } : { cwd });
  ({ sessionId } = await within("new", opened));
  line({ step: "new", session: sessionId });

  let seen = await turn("say", `say ${SAID}`, "end_turn");
  expect("say", "the text", seen.text, SAID);
  expect("say", "the thoughts", seen.thoughts, THOUGHT);
  // A server may join pieces that come right behind each other.
  const chunks = process.env.INTEROP_FOLDER ? Math.min(Math.max(seen.chunks, 1), 2) : 2;
  expect("say", "the number of message and thought chunks", [seen.chunks, seen.thought_chunks], [chunks, 1]);
  if (version !== 1) expect("say", "the reported user message", seen.user, `say ${SAID}`);

  for (const [step, next, statuses, content] of [
    ["tool_allow", "allow", ["pending", "in_progress", "completed"], "done"],
    ["tool_reject", "reject", ["pending", "failed"], undefined],
  ]) {
    seen = await turn(step, "tool", "end_turn", next);
    expect(step, "the title", seen.title, "Edit file");
    expect(step, "the kind", seen.kind, "edit");
    expect(step, "the options", seen.asked, ["allow:allow_once", "reject:reject_once"]);
    expect(step, "the statuses", seen.statuses, statuses);
    expect(step, "the content", seen.content || undefined, content);
    if (version !== 1) expect(step, "requires_action", seen.states?.includes("requires_action"), true);
  }

  seen = await turn("plan", "plan", "end_turn");
  expect("plan", "the entries", seen.plan, PLAN);
  await turn("wait", "wait", "cancelled", "cancel");
  if (version === 1) await clientTools(cwd);

  seen = await within("fail", prompt("fail"));
  line({ step: "fail", ...seen });
  expect("fail", "the error code", seen.error, -32603);
  expect("fail", "the stop reason", seen.stop, version === 1 ? undefined : "error");
  await sessions(cwd, hello);
}

async function clientTools(cwd) {
  const [source, target] = [join(cwd, "read.txt"), join(cwd, "written.txt")];
  const content = "first line\nsecond line, ünïcode\n";
  writeFileSync(source, content);
  let seen = await turn("read", `read ${source}`, "end_turn");
  expect("read", "the text", seen.text, content);
  seen = await turn("write", `write ${target} two words`, "end_turn");
  expect("write", "the text", seen.text, "written");
  expect("write", "the file", existsSync(target) ? readFileSync(target, "utf8") : "no file", "two words");
  seen = await turn("run", "run echo from the terminal", "end_turn");
  expect("run", "the output", seen.text.trimEnd(), "from the terminal");
}

async function sessions(cwd, hello) {
  if (hello.list) {
    const { sessions } = await within("list", agent.request(methods.agent.session.list, { cwd }));
    const ids = sessions.map((s) => s.sessionId);
    line({ step: "list", sessions: ids });
    expect("list", "the session", ids.includes(sessionId), true);
  } else line({ step: "list", skipped: true });
  if (hello.close) {
    await within("close", agent.request(methods.agent.session.close, { sessionId }));
    line({ step: "close" });
  } else line({ step: "close", skipped: true });
  if (!hello.replay) {
    line({ step: "replay", skipped: true });
    return;
  }
  await takenUp(cwd);
}

// A session that was there before is told again, and goes on.
async function takenUp(cwd) {
  let seen = await within("replay", replay(cwd));
  line({ step: "replay", ...seen });
  expect("replay", "the user's first prompt", seen.user?.includes(`say ${SAID}`), true);
  expect("replay", "the agent's first answer", seen.text.includes(SAID), true);
  if (version !== 1) expect("replay", "the last state", seen.states?.at(-1), "idle");
  seen = await turn("again", "say again", "end_turn");
  expect("again", "the text", seen.text, "again");
}

begin("allow");
// As in the scenario of the other clients: a folder that stays, and a session in it that is taken up.
const given = process.env.INTEROP_FOLDER;
const folder = realpathSync(given ?? mkdtempSync(join(tmpdir(), "interop-")));
const remote = /^(http|ws):/.exec(args[2])?.[1];
const child = remote ? undefined : spawn(args[2], args.slice(3), { stdio: ["pipe", "pipe", "inherit"] });
const gone = new Promise((resolve) => child?.on("close", resolve));
async function open() {
  if (remote === "http") {
    const { createHttpStream } = await import("@agentclientprotocol/sdk/experimental/http-client");
    return createHttpStream(args[2]);
  }
  if (remote === "ws") {
    const { createWebSocketStream } = await import("@agentclientprotocol/sdk/experimental/ws-client");
    const { WebSocket } = await import("ws");
    return createWebSocketStream(args[2], { WebSocket });
  }
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
  return sdk.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}
try {
  const stream = await open();
  await app().connectWith(stream, async (context) => {
    agent = context;
    await scenario(folder);
  });
} catch (e) {
  // A broken connection rejects with its own error, not with that of the step.
  complain(`${current}: ${tell(e)}`);
}
if (!given) rmSync(folder, { recursive: true, force: true });
line({ step: "done", ok });
// The end of its input is the agent's sign to leave.
child?.stdin.destroy();
const late = setTimeout(() => child?.kill("SIGKILL"), 2000);
if (child?.pid !== undefined) await gone;
clearTimeout(late);
process.exit(ok ? 0 : 1);
