// The benchmark's agent on the official TypeScript SDK, behind its own HTTP and WebSocket server on loopback, whose port it prints.
import { createServer } from "node:http";
import * as acp from "@agentclientprotocol/sdk";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

let opened = 0;

function make() {
  const app = acp.agent({ name: "flood" });
  app.onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }));
  app.onRequest(acp.methods.agent.session.new, () => ({ sessionId: `session-${++opened}` }));
  app.onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    const [, count, size] = params.prompt[0].text.split(" ").map(Number);
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "x".repeat(size) } };
    for (let at = 0; at < count; at += 1) {
      await client.notify(acp.methods.client.session.update, { sessionId: params.sessionId, update });
    }
    return { stopReason: "end_turn" };
  });
  return app;
}

const served = new AcpServer({ createAgent: make });
const server = createServer(createNodeHttpHandler(served));
server.on("upgrade", createNodeWebSocketUpgradeHandler(served, new WebSocketServer({ noServer: true })));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit(0));
