// An interop agent on the official TypeScript SDK: `node agent.mjs 1|2` on stdio; with `listen` behind it, over HTTP and WebSocket on
// loopback, whose port it prints.
import { Readable, Writable } from "node:stream";
import * as v1 from "@agentclientprotocol/sdk";
import * as v2 from "@agentclientprotocol/sdk/experimental/v2";

const VERSION = "0.1.0";
const THOUGHT = "thinking about it";
const PLAN = [
  { content: "Look", priority: "high", status: "completed" },
  { content: "Think", priority: "medium", status: "in_progress" },
  { content: "Write", priority: "low", status: "pending" },
];
const CALL = { toolCallId: "call-1", title: "Edit file" };
const OPTIONS = [
  { optionId: "allow", name: "Allow", kind: "allow_once" },
  { optionId: "reject", name: "Reject", kind: "reject_once" },
];

const text = (text) => ({ type: "text", text });
const halves = (words) => {
  const all = Array.from(words);
  const middle = all.length >> 1;
  return [all.slice(0, middle).join(""), all.slice(middle).join("")];
};
const split = (words) => {
  const at = words.indexOf(" ");
  return at < 0 ? [words, ""] : [words.slice(0, at), words.slice(at + 1)];
};

// Sessions stay here after they were closed, so that a client can attach to them again.
const sessions = new Map();
let last = 0;
const id = (what) => `${what}-${++last}`;

function create(cwd) {
  const session = { id: id("session"), cwd, open: true, history: [], abort: null, tail: Promise.resolve(), epoch: 0 };
  sessions.set(session.id, session);
  return session;
}

function find(sessionId, open = true) {
  const session = sessions.get(sessionId);
  if (!session || (open && !session.open)) throw v1.RequestError.sessionNotFound(sessionId);
  return session;
}

function list(cwd) {
  const fits = [...sessions.values()].filter((s) => cwd == null || s.cwd === cwd);
  return { sessions: fits.map((s) => ({ sessionId: s.id, cwd: s.cwd })) };
}

function cancel(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) return;
  session.epoch += 1;
  session.abort?.abort();
}

async function close(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) return {};
  session.open = false;
  cancel(sessionId);
  await session.tail.catch(() => {});
  return {};
}

const aborted = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve("aborted");
    else signal.addEventListener("abort", () => resolve("aborted"), { once: true });
  });

// Runs a command until it ends or the turn is cancelled; tells the stop reason.
async function work(session, act, command, signal, onCancelledTool) {
  const acting = act(command);
  acting.catch(() => {});
  if ((await Promise.race([acting, aborted(signal)])) !== "aborted" && !signal.aborted) return "end_turn";
  if (command === "tool") await onCancelledTool();
  return "cancelled";
}

const speaker = (session, chunk) => async (words) => {
  const messageId = id("agent");
  session.history.push({ user: false, messageId, text: words });
  await chunk(words, messageId);
};

function serve1() {
  const app = v1.agent({ name: "ts-agent" });
  app.onRequest(v1.methods.agent.initialize, () => ({
    protocolVersion: 1,
    agentCapabilities: { loadSession: true, sessionCapabilities: { list: {}, close: {} } },
    agentInfo: { name: "ts-agent", version: VERSION },
  }));
  app.onRequest(v1.methods.agent.session.new, ({ params }) => ({ sessionId: create(params.cwd).id }));
  app.onRequest(v1.methods.agent.session.list, ({ params }) => list(params.cwd));
  app.onRequest(v1.methods.agent.session.close, ({ params }) => close(params.sessionId));
  app.onNotification(v1.methods.agent.session.cancel, ({ params }) => cancel(params.sessionId));
  app.onRequest(v1.methods.agent.session.load, async ({ params, client }) => {
    const session = find(params.sessionId, false);
    session.open = true;
    for (const message of session.history) {
      const sessionUpdate = message.user ? "user_message_chunk" : "agent_message_chunk";
      const update = { sessionUpdate, content: text(message.text) };
      await client.notify(v1.methods.client.session.update, { sessionId: session.id, update });
    }
    return {};
  });
  app.onRequest(v1.methods.agent.session.prompt, async ({ params, client }) => {
    const session = find(params.sessionId);
    if (session.abort) throw v1.RequestError.invalidRequest("a turn is running");
    const first = params.prompt[0];
    if (first?.type !== "text") throw v1.RequestError.invalidParams("the prompt must begin with text");
    session.abort = new AbortController();
    session.history.push({ user: true, messageId: id("user"), text: first.text });
    const turn = turn1(session, client, first.text, session.abort.signal);
    session.tail = turn;
    try {
      return { stopReason: await turn };
    } finally {
      session.abort = null;
    }
  });
  return app;
}

function turn1(session, client, prompt, signal) {
  const sessionId = session.id;
  const update = (update) => client.notify(v1.methods.client.session.update, { sessionId, update });
  const chunk = (words) => update({ sessionUpdate: "agent_message_chunk", content: text(words) });
  const call = (status, more = {}) =>
    update({ sessionUpdate: "tool_call_update", toolCallId: CALL.toolCallId, status, ...more });
  const say = speaker(session, chunk);
  const request = (method, params) => client.request(method, { sessionId, ...params });
  const [command, rest] = split(prompt);
  const act = async () => {
    switch (command) {
      case "say": {
        await update({ sessionUpdate: "agent_thought_chunk", content: text(THOUGHT) });
        for (const half of halves(rest)) await chunk(half);
        session.history.push({ user: false, messageId: id("agent"), text: rest });
        return;
      }
      case "tool": {
        await update({ sessionUpdate: "tool_call", ...CALL, kind: "edit", status: "pending" });
        const asked = { sessionId, toolCall: CALL, options: OPTIONS };
        const { outcome } = await client.request(v1.methods.client.session.requestPermission, asked, {
          cancellationSignal: signal,
        });
        if (signal.aborted) return;
        if (outcome.outcome !== "selected" || outcome.optionId !== "allow") return call("failed");
        await call("in_progress");
        return call("completed", { content: [{ type: "content", content: text("done") }] });
      }
      case "plan":
        return update({ sessionUpdate: "plan", entries: PLAN });
      case "wait":
        await chunk("waiting");
        return aborted(signal);
      case "read": {
        const { content } = await request(v1.methods.client.fs.readTextFile, { path: rest });
        return say(content);
      }
      case "write": {
        const [path, content] = split(rest);
        await request(v1.methods.client.fs.writeTextFile, { path, content });
        return say("written");
      }
      case "run": {
        const [program, ...args] = rest.split(" ");
        const { terminal } = v1.methods.client;
        const { terminalId } = await request(terminal.create, { command: program, args });
        await request(terminal.waitForExit, { terminalId });
        const { output } = await request(terminal.output, { terminalId });
        await request(terminal.release, { terminalId });
        return say(output);
      }
      case "fail":
        throw v1.RequestError.internalError("told to fail");
      default:
        return say(`unknown prompt: ${prompt}`);
    }
  };
  return work(session, act, command, signal, () => call("failed"));
}

function serve2() {
  const app = v2.agent({ name: "ts-agent" });
  const send = (client, session, update) =>
    client.notify(v2.methods.client.session.update, { sessionId: session.id, update });
  app.onRequest(v2.methods.agent.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-agent", version: VERSION },
    capabilities: { session: {} },
  }));
  app.onRequest(v2.methods.agent.session.new, ({ params }) => ({ sessionId: create(params.cwd).id }));
  app.onRequest(v2.methods.agent.session.list, ({ params }) => list(params.cwd));
  app.onRequest(v2.methods.agent.session.close, ({ params }) => close(params.sessionId));
  app.onNotification(v2.methods.agent.session.cancel, ({ params }) => cancel(params.sessionId));
  app.onRequest(v2.methods.agent.session.resume, async ({ params, client }) => {
    const from = params.replayFrom?.type;
    if (from !== undefined && from !== "start") throw v2.RequestError.invalidParams("replayFrom");
    const session = find(params.sessionId, false);
    session.open = true;
    for (const message of from ? session.history : []) {
      const sessionUpdate = message.user ? "user_message" : "agent_message";
      await send(client, session, { sessionUpdate, messageId: message.messageId, content: [text(message.text)] });
    }
    await send(client, session, { sessionUpdate: "state_update", state: session.abort ? "running" : "idle" });
    return {};
  });
  app.onRequest(v2.methods.agent.session.prompt, async ({ params, client }) => {
    const session = find(params.sessionId);
    const first = params.prompt[0];
    if (first?.type !== "text") throw v2.RequestError.invalidParams("the prompt must begin with text");
    // A prompt waits for the turn before it; it is answered when it is inserted.
    const { epoch, tail: before } = session;
    let done;
    session.tail = new Promise((resolve) => (done = resolve));
    await before;
    if (session.epoch !== epoch) {
      done();
      throw v2.RequestError.requestCancelled();
    }
    session.abort = new AbortController();
    const messageId = id("user");
    session.history.push({ user: true, messageId, text: first.text });
    const { signal } = session.abort;
    // The answer leaves when this handler returns; the work goes on after it.
    setImmediate(async () => {
      try {
        await send(client, session, { sessionUpdate: "user_message", messageId, content: params.prompt });
        await send(client, session, { sessionUpdate: "state_update", state: "running" });
        let idle;
        try {
          idle = { stopReason: await turn2(session, client, first.text, signal) };
        } catch (e) {
          idle = { stopReason: "error", error: { code: e.code ?? -32603, message: e.message } };
        }
        session.abort = null;
        await send(client, session, { sessionUpdate: "state_update", state: "idle", ...idle });
      } catch (e) {
        console.error(`the turn ended without its last state: ${e.message}`);
      } finally {
        session.abort = null;
        done();
      }
    });
    return { messageId };
  });
  return app;
}

function turn2(session, client, prompt, signal) {
  const sessionId = session.id;
  const update = (update) => client.notify(v2.methods.client.session.update, { sessionId, update });
  const state = (state) => update({ sessionUpdate: "state_update", state });
  const chunk = (words, messageId) =>
    update({ sessionUpdate: "agent_message_chunk", messageId, content: text(words) });
  const call = (status, more = {}) =>
    update({ sessionUpdate: "tool_call_update", toolCallId: CALL.toolCallId, status, ...more });
  const say = speaker(session, chunk);
  const [command, rest] = split(prompt);
  const act = async () => {
    switch (command) {
      case "say": {
        await update({ sessionUpdate: "agent_thought_chunk", messageId: id("thought"), content: text(THOUGHT) });
        const messageId = id("agent");
        for (const half of halves(rest)) await chunk(half, messageId);
        session.history.push({ user: false, messageId, text: rest });
        return;
      }
      case "tool": {
        await call("pending", { title: CALL.title, kind: "edit" });
        const subject = { type: "tool_call", toolCall: CALL };
        const asked = { sessionId, title: "Allow the edit?", subject, options: OPTIONS };
        const answer = client.request(v2.methods.client.session.requestPermission, asked, {
          cancellationSignal: signal,
          stopWaitingOnCancel: true,
        });
        await state("requires_action");
        const { outcome } = await answer;
        await state("running");
        if (outcome.outcome !== "selected" || outcome.optionId !== "allow") return call("failed");
        await call("in_progress");
        return call("completed", { content: [{ type: "content", content: text("done") }] });
      }
      case "plan":
        return update({ sessionUpdate: "plan_update", plan: { type: "items", planId: "plan-1", entries: PLAN } });
      case "wait":
        await chunk("waiting", id("agent"));
        return aborted(signal);
      case "fail":
        throw v2.RequestError.internalError();
      default:
        return say(`unknown prompt: ${prompt}`);
    }
  };
  return work(session, act, command, signal, () => call("cancelled"));
}

const sdk = { 1: v1, 2: v2 }[process.argv[2]];
if (!sdk) {
  console.error("usage: node agent.mjs 1|2");
  process.exit(2);
}
const make = () => (sdk === v1 ? serve1() : serve2());
if (process.argv[3] === "listen") {
  const { AcpServer } = await import("@agentclientprotocol/sdk/experimental/server");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await import("@agentclientprotocol/sdk/experimental/node");
  const { createServer } = await import("node:http");
  const { WebSocketServer } = await import("ws");
  const acp = new AcpServer({ createAgent: make });
  const server = createServer(createNodeHttpHandler(acp));
  server.on("upgrade", createNodeWebSocketUpgradeHandler(acp, new WebSocketServer({ noServer: true })));
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  // Who started us holds our input open.
  process.stdin.resume().on("end", () => process.exit(0));
  await new Promise(() => {});
}
const app = make();
const connection = app.connect(sdk.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
await connection.closed;
