// The terminals of a client on the official TypeScript SDK, version 1.
import { spawn } from "node:child_process";
import * as v1 from "@agentclientprotocol/sdk";

const { methods } = v1;

// Answers the terminal methods. Those that the agent gives back are deleted from `terminals`; the others hear of it.
export function withTerminals(app, { terminals = new Map(), created = () => {}, released = () => {} } = {}) {
  let count = 0;
  const terminal = (id) => {
    const found = terminals.get(id);
    if (!found) throw new v1.RequestError(-32002, "Resource not found", "no such terminal");
    return found;
  };
  return app
    .onRequest(methods.client.terminal.create, async ({ params: { command, args = [], cwd } }) => {
      const child = spawn(command, args, { cwd: cwd ?? undefined, stdio: ["ignore", "pipe", "pipe"], detached: true });
      const own = { child, output: "", exit: undefined };
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8").on("data", (piece) => (own.output += piece));
      }
      own.ended = new Promise((resolve) =>
        child.on("close", (exitCode, signal) => resolve((own.exit = { exitCode, signal }))),
      );
      await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject));
      const terminalId = `term-${++count}`;
      terminals.set(terminalId, own);
      created();
      return { terminalId };
    })
    .onRequest(methods.client.terminal.output, ({ params }) => {
      const { output, exit } = terminal(params.terminalId);
      return { output, truncated: false, exitStatus: exit };
    })
    .onRequest(methods.client.terminal.waitForExit, ({ params }) => terminal(params.terminalId).ended)
    .onRequest(methods.client.terminal.kill, async ({ params }) => {
      await end(terminal(params.terminalId));
      return {};
    })
    .onRequest(methods.client.terminal.release, async ({ params }) => {
      await end(terminal(params.terminalId));
      terminals.delete(params.terminalId);
      released();
      return {};
    });
}

// Ends the command and all that it started.
async function end({ child, ended }) {
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch (e) {
    if (e.code !== "ESRCH") throw e;
  }
  await ended;
}
