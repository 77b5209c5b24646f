// An agent that does whatever the prompt says, in JSON: say, updates, asks, files, wait for a cancel.
import fs from "node:fs";
import readline from "node:readline";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const asked = new Map();
const cancelled = new Map();
let asks = 0;
let sessions = 0;

function ask(method, params) {
  const id = `ask-${++asks}`;
  send({ id, method, params });
  return new Promise((answer) => asked.set(id, answer));
}

async function prompt(id, { sessionId, prompt }) {
  const words = prompt.map((block) => block.text ?? "").join("");
  const orders = words.startsWith("{") ? JSON.parse(words) : { say: words };
  const update = (update) => send({ method: "session/update", params: { sessionId, update } });
  const tell = (text) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  for (const one of orders.updates ?? []) update(one);
  for (const one of orders.asks ?? []) {
    const answer = await ask("session/request_permission", { sessionId, ...one });
    tell(`answered ${JSON.stringify(answer.result?.outcome ?? answer.error)}\n`);
  }
  for (const [name, content] of Object.entries(orders.files ?? {})) fs.writeFileSync(name, content);
  if (orders.wait) {
    tell("waiting");
    await new Promise((over) => cancelled.set(sessionId, over));
  }
  tell(orders.say ?? "done");
  send({ id, result: { stopReason: orders.wait ? "cancelled" : "end_turn" } });
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, ...answer } = JSON.parse(line);
  if (method === undefined) return asked.get(id)?.(answer);
  if (method === "initialize") return send({ id, result: { protocolVersion: 1, agentCapabilities: { loadSession: true }, authMethods: [] } });
  if (method === "session/new") return send({ id, result: { sessionId: `hostile-${process.pid}-${++sessions}` } });
  if (method === "session/load") return send({ id, result: {} });
  if (method === "session/cancel") return cancelled.get(params.sessionId)?.();
  if (method === "session/prompt") return prompt(id, params);
  if (id !== undefined) send({ id, error: { code: -32601, message: `no ${method}` } });
});
