"""Drives a coding agent with the official Python SDK: `python coder.py FOLDER PLAN -- AGENT COMMAND…`.

PLAN is a JSON list of turns; crates/interop/src/coder.rs says what is in them. What was seen is printed, a line for each step.
"""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

import acp
from acp import schema

STEP_DEADLINE = 30
# What the editor has not saved yet: text that is not on the disk.
UNSAVED = {"open.txt": "unsaved text\n"}

# A cancelled agent may withdraw what it still asks. The SDK does not know that optional notification and logs it as an
# error; everything else that it logs is looked at by the test.
logging.getLogger().addFilter(lambda record: "$/cancel_request" not in record.getMessage())


def line(**fields):
    print(json.dumps(fields), flush=True)


def failure(error):
    return {"code": error.code, "message": str(error)}


class Terminal:
    def __init__(self, process):
        self.process = process
        self.output = b""
        self.released = False
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        while piece := await self.process.stdout.read(4096):
            self.output += piece
        await self.process.wait()

    def status(self):
        code = self.process.returncode
        if code is None:
            return None
        return schema.TerminalExitStatus(exit_code=code) if code >= 0 else schema.TerminalExitStatus(signal=str(-code))


class Client(acp.Client):
    """Shows nothing, remembers everything, and answers as the present turn says."""

    def __init__(self, folder):
        self.folder = folder
        self.terminals = {}
        self.transcript = []
        self.begin({})

    def begin(self, turn):
        self.turn = turn
        self.seen = {"text": "", "thoughts": "", "chunks": 0, "asked": [], "read": [], "wrote": []}
        self.tools = {}
        self.cancel = None

    async def ready(self, what):
        """The moment for a cancellation has come."""
        if self.turn.get("cancel") == what and self.cancel:
            cancel, self.cancel = self.cancel, None
            await cancel()

    def write_down(self, who, text):
        if self.transcript and self.transcript[-1][0] == who:
            self.transcript[-1][1] += text
        else:
            self.transcript.append([who, text])

    async def session_update(self, session_id, update, **kwargs):
        match update.session_update:
            case "user_message_chunk":
                self.write_down("user", update.content.text)
            case "agent_message_chunk":
                self.seen["text"] += update.content.text
                self.seen["chunks"] += 1
                self.write_down("agent", update.content.text)
                await self.ready("said")
            case "agent_thought_chunk":
                self.seen["thoughts"] += update.content.text
                self.write_down("thought", update.content.text)
            case "plan":
                self.seen["plan"] = [f"{entry.content}:{entry.status}" for entry in update.entries]
            case "tool_call" | "tool_call_update":
                await self.tool(update)

    async def tool(self, update):
        if update.tool_call_id not in self.tools:
            entry = ["tool", {}]
            self.transcript.append(entry)
            self.tools[update.tool_call_id] = {"shown": entry[1]}
        tool = self.tools[update.tool_call_id]
        for name in ("title", "kind", "status"):
            if getattr(update, name) is not None:
                tool[name] = tool["shown"][name] = getattr(update, name)
        if update.content is not None:
            tool.update(content_of(update.content))

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.seen["asked"].append(
            {"title": tool_call.title, "kinds": [option.kind for option in options]} | content_of(tool_call.content or [])
        )
        if self.turn.get("cancel") == "asked":
            await self.ready("asked")
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = next(option for option in options if option.kind == self.turn.get("answer", "allow_once"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        name = os.path.relpath(path, self.folder)
        self.seen["read"].append(name)
        if name in UNSAVED:
            return schema.ReadTextFileResponse(content=UNSAVED[name])
        try:
            return schema.ReadTextFileResponse(content=Path(path).read_text())
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None

    async def write_text_file(self, session_id, path, content, **kwargs):
        self.seen["wrote"].append(os.path.relpath(path, self.folder))
        Path(path).write_text(content)

    async def create_terminal(self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **kwargs):
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            cwd=cwd,
            env=os.environ | {variable.name: variable.value for variable in env or []},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        terminal_id = f"terminal-{len(self.terminals) + 1}"
        self.terminals[terminal_id] = Terminal(process)
        # The hardest moment: the command runs, and the agent does not know its terminal yet.
        await self.ready("runs")
        return schema.CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        terminal = self.terminals[terminal_id]
        return schema.TerminalOutputResponse(
            output=terminal.output.decode(), truncated=False, exit_status=terminal.status()
        )

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        terminal = self.terminals[terminal_id]
        await terminal.reader
        status = terminal.status()
        return schema.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, session_id, terminal_id, **kwargs):
        await self.end(terminal_id)

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        await self.end(terminal_id)
        self.terminals[terminal_id].released = True

    async def end(self, terminal_id):
        terminal = self.terminals[terminal_id]
        try:
            os.killpg(terminal.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        await terminal.reader

    async def all_released(self):
        """The agent gives its terminals back, if need be after the turn."""
        while not all(terminal.released for terminal in self.terminals.values()):
            await asyncio.sleep(0.01)


def content_of(content):
    """The texts and changes among the content of a tool call."""
    texts = [item.content.text for item in content if item.type == "content" and item.content.type == "text"]
    diffs = [[os.path.basename(item.path), item.old_text, item.new_text] for item in content if item.type == "diff"]
    return {"content": "".join(texts), "diffs": diffs, "terminal": any(item.type == "terminal" for item in content)}


class Drive:
    def __init__(self, folder, agent):
        self.folder, self.agent = folder, agent
        self.client = Client(folder)

    def spawn(self):
        return acp.spawn_agent_process(self.client, *self.agent, env=os.environ, transport_kwargs={"stderr": None})

    async def hello(self, connection, step):
        answer = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
            ),
            client_info=schema.Implementation(name="py-client", version="0.1.0"),
        )
        line(step=step, protocol=answer.protocol_version, agent=answer.agent_info.name)

    async def turn(self, connection, session_id, turn):
        client = self.client
        client.begin(turn)
        client.cancel = lambda: connection.cancel(session_id=session_id)
        client.write_down("user", turn["prompt"])
        prompt = connection.prompt(session_id=session_id, prompt=[acp.text_block(turn["prompt"])])
        try:
            client.seen["stop"] = (await asyncio.wait_for(prompt, STEP_DEADLINE)).stop_reason
        except acp.RequestError as error:
            client.seen["error"] = failure(error)
        tools = [{key: value for key, value in tool.items() if key != "shown"} for tool in client.tools.values()]
        line(step=turn["step"], tools=tools, **client.seen)

    async def first(self, plan):
        async with self.spawn() as (connection, _):
            await self.hello(connection, "initialize")
            opened = await connection.new_session(cwd=self.folder, mcp_servers=[])
            line(step="new", mode=opened.modes.current_mode_id)
            for turn in plan:
                await self.turn(connection, opened.session_id, turn)
            try:
                await connection.prompt(session_id="nobody-knows-it", prompt=[acp.text_block("say hello")])
            except acp.RequestError as error:
                line(step="unknown", error=failure(error))
            await asyncio.wait_for(self.client.all_released(), STEP_DEADLINE)
            line(step="terminals", released=len(self.client.terminals))
            listed = await connection.list_sessions(cwd=self.folder)
            line(step="list", known=opened.session_id in [session.session_id for session in listed.sessions])
        return opened.session_id

    async def second(self, session_id):
        live, self.client.transcript = self.client.transcript, []
        self.client.begin({})
        async with self.spawn() as (connection, _):
            await self.hello(connection, "initialize_again")
            try:
                await connection.load_session(cwd=self.folder, session_id="nobody-knows-it", mcp_servers=[])
            except acp.RequestError as error:
                line(step="load_unknown", error=failure(error))
            await connection.load_session(cwd=self.folder, session_id=session_id, mcp_servers=[])
            line(step="load", live=live, replayed=list(self.client.transcript))
            await self.turn(connection, session_id, {"step": "again", "prompt": "say again"})


async def main():
    at = sys.argv.index("--")
    [folder, plan] = sys.argv[1:at]
    drive = Drive(folder, sys.argv[at + 1 :])
    session_id = await drive.first(json.loads(plan))
    await drive.second(session_id)
    line(step="done", ok=True)


asyncio.run(main())
