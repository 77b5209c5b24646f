// Drives a coding agent with the official TypeScript SDK: `node coder.mjs 1|2 FOLDER PLAN -- AGENT COMMAND…`.
// PLAN is a JSON list of turns; crates/interop/src/coder.rs says what is in them. What was seen is printed, a line for each step.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, relative } from "node:path";
import { Readable, Writable } from "node:stream";
import * as v1 from "@agentclientprotocol/sdk";
import * as v2 from "@agentclientprotocol/sdk/experimental/v2";
import { withTerminals } from "./terminals.mjs";

const STEP_DEADLINE = 30_000;
// What the editor has not saved yet: text that is not on the disk.
const UNSAVED = { "open.txt": "unsaved text\n" };

const split = process.argv.indexOf("--");
const [number, folder, plan] = process.argv.slice(2, split);
const command = process.argv.slice(split + 1);
const version = Number(number);
const sdk = version === 1 ? v1 : v2;
const { methods } = sdk;

const line = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);
const failure = (e) => {
  if (typeof e?.code !== "number") throw e;
  return { code: e.code, message: e.message };
};
async function within(what, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing within ${STEP_DEADLINE / 1000} s`)), STEP_DEADLINE);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

const terminals = new Map();
let released = 0;
let allReleased;
let transcript = [];
let turn, seen, tools, cancel, idle, active;
function begin(next) {
  turn = next;
  seen = { text: "", thoughts: "", chunks: 0, asked: [], read: [], wrote: [] };
  tools = new Map();
  active = false;
  cancel = () => {};
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  idle = { promise, resolve };
}
// The moment for a cancellation has come.
const ready = (what) => {
  if (turn.cancel !== what) return;
  const now = cancel;
  cancel = () => {};
  now();
};
const writeDown = (who, text) => {
  if (transcript.at(-1)?.[0] === who) transcript.at(-1)[1] += text;
  else transcript.push([who, text]);
};

// The texts and changes among the content of a tool call.
function contentOf(content) {
  const texts = content.filter((item) => item.type === "content").map((item) => item.content.text ?? "");
  const diffs = content.filter((item) => item.type === "diff").flatMap(diffOf);
  return { content: texts.join(""), diffs, terminal: content.some((item) => item.type === "terminal") };
}
const diffOf = (item) =>
  version === 1
    ? [[basename(item.path), item.oldText ?? null, item.newText]]
    : item.changes.map((change) => [basename(change.path), change.operation, item.patch?.text]);

function toolCall(update) {
  if (!tools.has(update.toolCallId)) {
    const entry = ["tool", {}];
    transcript.push(entry);
    tools.set(update.toolCallId, { shown: entry[1] });
  }
  const tool = tools.get(update.toolCallId);
  for (const name of ["title", "kind", "status"]) {
    if (update[name] != null) tool[name] = tool.shown[name] = update[name];
  }
  if (update.content != null) Object.assign(tool, contentOf(update.content));
  // Version 2 has no terminals of the client, where version 1 looks for the moment.
  if (version !== 1 && update.status === "in_progress") ready("runs");
}

function apply({ update }) {
  switch (update.sessionUpdate) {
    case "user_message":
      writeDown("user", update.content.map((block) => block.text).join(""));
      break;
    case "user_message_chunk":
      writeDown("user", update.content.text);
      break;
    case "agent_message_chunk":
      seen.text += update.content.text;
      seen.chunks += 1;
      writeDown("agent", update.content.text);
      ready("said");
      break;
    case "agent_thought_chunk":
      seen.thoughts += update.content.text;
      writeDown("thought", update.content.text);
      break;
    case "plan":
    case "plan_update": {
      const entries = update.entries ?? update.plan.entries;
      seen.plan = entries.map((entry) => `${entry.content}:${entry.status}`);
      break;
    }
    case "tool_call":
    case "tool_call_update":
      toolCall(update);
      break;
    case "tool_call_content_chunk": {
      const tool = tools.get(update.toolCallId);
      tool.content = (tool.content ?? "") + contentOf([update.content]).content;
      break;
    }
    case "terminal_output_chunk":
      seen.output = (seen.output ?? "") + Buffer.from(update.data, "base64").toString();
      break;
    case "state_update":
      if (update.state !== "idle") active = true;
      else if (active) {
        seen.stop = update.stopReason;
        if (update.error) seen.error = { code: update.error.code, message: update.error.message };
        idle.resolve();
      }
      break;
  }
}

function decide(params) {
  const call = version === 1 ? params.toolCall : (params.subject?.toolCall ?? {});
  const kinds = params.options.map((option) => option.kind);
  seen.asked.push({ title: params.title ?? call.title, kinds, ...contentOf(call.content ?? []) });
  if (turn.cancel === "asked") {
    ready("asked");
    return { outcome: { outcome: "cancelled" } };
  }
  const chosen = params.options.find((option) => option.kind === (turn.answer ?? "allow_once"));
  return { outcome: { outcome: "selected", optionId: chosen.optionId } };
}

function app() {
  const app = sdk
    .client({ name: "ts-client" })
    .onNotification(methods.client.session.update, ({ params }) => apply(params))
    .onRequest(methods.client.session.requestPermission, ({ params }) => decide(params));
  if (version !== 1) return app;
  const files = app
    .onRequest(methods.client.fs.readTextFile, ({ params }) => {
      const name = relative(folder, params.path);
      seen.read.push(name);
      try {
        return { content: UNSAVED[name] ?? readFileSync(params.path, "utf8") };
      } catch {
        throw new v1.RequestError(-32002, "Resource not found", { path: params.path });
      }
    })
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
      seen.wrote.push(relative(folder, params.path));
      writeFileSync(params.path, params.content);
      return {};
    });
  return withTerminals(files, {
    terminals,
    // The hardest moment: the command runs, and the agent does not know its terminal yet.
    created: () => ready("runs"),
    released: () => {
      released += 1;
      if (terminals.size === 0) allReleased?.();
    },
  });
}

// Starts the agent, talks to it, and waits for its end.
async function session(talk) {
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const gone = new Promise((resolve) => child.on("close", resolve));
  const stream = sdk.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const result = await app().connectWith(stream, talk);
  // The end of its input is the agent's sign to leave.
  child.stdin.destroy();
  await within("the end of the agent", gone);
  return result;
}

async function hello(agent, step) {
  const info = { name: "ts-client", version: "0.1.0" };
  const fs = { readTextFile: true, writeTextFile: true };
  const params =
    version === 1
      ? { protocolVersion: 1, clientCapabilities: { fs, terminal: true }, clientInfo: info }
      : { protocolVersion: 2, info, capabilities: {} };
  const answer = await within(step, agent.request(methods.agent.initialize, params));
  line({ step, protocol: answer.protocolVersion, agent: (answer.agentInfo ?? answer.info).name });
}

async function prompt(agent, sessionId, next) {
  begin(next);
  cancel = () => agent.notify(methods.agent.session.cancel, { sessionId });
  // Version 2 reports the user's message, version 1 does not.
  if (version === 1) writeDown("user", next.prompt);
  const params = { sessionId, prompt: [{ type: "text", text: next.prompt }] };
  try {
    const answer = await within(next.step, agent.request(methods.agent.session.prompt, params));
    if (version === 1) seen.stop = answer.stopReason;
    else await within(next.step, idle.promise);
  } catch (e) {
    seen.error = failure(e);
  }
  line({ step: next.step, tools: [...tools.values()].map(({ shown, ...tool }) => tool), ...seen });
}

const refused = async (step, work) => {
  try {
    await within(step, work);
  } catch (e) {
    line({ step, error: failure(e) });
  }
};

function load(agent, sessionId) {
  const params = { sessionId, cwd: folder };
  return version === 1
    ? agent.request(methods.agent.session.load, { ...params, mcpServers: [] })
    : agent.request(methods.agent.session.resume, { ...params, replayFrom: { type: "start" } });
}

const sessionId = await session(async (agent) => {
  await hello(agent, "initialize");
  const params = version === 1 ? { cwd: folder, mcpServers: [] } : { cwd: folder };
  const opened = await within("new", agent.request(methods.agent.session.new, params));
  const mode = opened.configOptions?.find((option) => option.category === "mode");
  line({ step: "new", mode: opened.modes?.currentModeId ?? mode?.currentValue });
  for (const next of JSON.parse(plan)) await prompt(agent, opened.sessionId, next);
  const lost = { sessionId: "nobody-knows-it", prompt: [{ type: "text", text: "say hello" }] };
  await refused("unknown", agent.request(methods.agent.session.prompt, lost));
  // The agent gives its terminals back, if need be after the turn.
  await within("terminals", new Promise((done) => (terminals.size === 0 ? done() : (allReleased = done))));
  line({ step: "terminals", released });
  const { sessions } = await within("list", agent.request(methods.agent.session.list, { cwd: folder }));
  line({ step: "list", known: sessions.some((known) => known.sessionId === opened.sessionId) });
  return opened.sessionId;
});
const live = transcript;
await session(async (agent) => {
  await hello(agent, "initialize_again");
  await refused("load_unknown", load(agent, "nobody-knows-it"));
  transcript = [];
  begin({});
  await within("load", load(agent, sessionId));
  line({ step: "load", live, replayed: [...transcript] });
  await prompt(agent, sessionId, { step: "again", prompt: "say again" });
});
line({ step: "done", ok: true });
process.exit(0);
