"""A peer on the official Python SDK: `python peer.py client URL`, `python peer.py server`, which prints its port, or
`python peer.py agent` on stdio."""

import asyncio
import socket
import sys

import acp
from acp import schema

HISTORY = {}


def text(words):
    return schema.TextContentBlock(type="text", text=words)


def chunk(words):
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=text(words))


class Person(acp.Client):
    def __init__(self):
        self.text, self.asked, self.waiting = "", 0, asyncio.Event()

    async def session_update(self, session_id, update, **kwargs):
        if isinstance(update, schema.AgentMessageChunk):
            self.text += update.content.text
            if "waiting" in self.text:
                self.waiting.set()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked += 1
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id))


async def client(url, cwd="/"):
    if url.startswith("ws"):
        from acp.ws import create_websocket_stream

        stream = await create_websocket_stream(url)
    else:
        from acp.http import create_http_stream

        stream = create_http_stream(url)
    person = Person()
    agent = acp.connect_to_agent(person, stream)
    await agent.initialize(protocol_version=1)
    session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
    say = [text("go")]
    stop = (await agent.prompt(session_id=session, prompt=say)).stop_reason
    whole = "yes" + "".join(f" {number}" for number in range(200))
    # An answer and what came before it are told by different tasks.
    while len(person.text) < len(whole):
        await asyncio.sleep(0)
    assert (stop, person.text, person.asked) == ("end_turn", whole, 1), (stop, person.text, person.asked)
    turn = asyncio.create_task(agent.prompt(session_id=session, prompt=[text("wait")]))
    await person.waiting.wait()
    await agent.cancel(session_id=session)
    stop = (await turn).stop_reason
    assert stop == "cancelled", stop
    person.text = ""
    await agent.load_session(session_id=session, cwd=cwd, mcp_servers=[])
    while whole not in person.text:
        await asyncio.sleep(0)
    await agent.close()
    print("done")


class Asker(acp.Agent):
    def on_connect(self, conn):
        self.client, self.stopped = conn, asyncio.Event()

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        return schema.InitializeResponse(protocol_version=1, agent_capabilities=schema.AgentCapabilities(load_session=True))

    async def new_session(self, cwd, mcp_servers=None, **kwargs):
        session = f"s{len(HISTORY)}"
        HISTORY[session] = []
        return schema.NewSessionResponse(session_id=session)

    async def load_session(self, cwd, session_id, mcp_servers=None, **kwargs):
        for words in HISTORY[session_id]:
            await self.client.session_update(session_id, chunk(words))
        return schema.LoadSessionResponse()

    async def say(self, session, words):
        HISTORY[session].append(words)
        await self.client.session_update(session, chunk(words))

    async def prompt(self, prompt, session_id, **kwargs):
        if prompt[0].text == "wait":
            self.stopped.clear()
            await self.say(session_id, "waiting")
            await self.stopped.wait()
            return schema.PromptResponse(stop_reason="cancelled")
        options = [schema.PermissionOption(option_id="y", name="Yes", kind="allow_once")]
        call = schema.ToolCallUpdate(tool_call_id="t", title="Write")
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        await self.say(session_id, "yes" if answer.outcome.outcome == "selected" else "no")
        for number in range(200):
            await self.say(session_id, f" {number}")
        return schema.PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id, **kwargs):
        self.stopped.set()


async def server():
    import uvicorn
    from acp.http.asgi import create_asgi_app

    listener = socket.create_server(("127.0.0.1", 0))
    app = create_asgi_app(lambda *_: Asker())
    serving = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    print(listener.getsockname()[1], flush=True)
    await serving.serve(sockets=[listener])


if __name__ == "__main__":
    modes = {"client": lambda: client(*sys.argv[2:]), "server": server, "agent": lambda: acp.run_agent(Asker())}
    asyncio.run(modes[sys.argv[1]]())
