#!/usr/bin/env python3
"""A scripted agent: plays one behaviour in one dialect, for the tests of `tieline exec`.

agent.py BEHAVIOUR [DIALECT] [ARGUMENT...], or the same in AGENT_BEHAVIOUR, AGENT_DIALECT and AGENT_WORDS. With AGENT_LOG set, every frame that comes in is written to that file.
"""
import base64
import json
import os
import signal
import subprocess
import sys
import time
from strict import Strict

if "AGENT_BEHAVIOUR" in os.environ and len(sys.argv) < 3:
    sys.argv[1:1] = [os.environ["AGENT_BEHAVIOUR"], os.environ["AGENT_DIALECT"], *json.loads(os.environ["AGENT_WORDS"])]
BEHAVIOUR = sys.argv[1] if len(sys.argv) > 1 else "hello"
DIALECT = sys.argv[2] if len(sys.argv) > 2 else "1"
ARGUMENTS = sys.argv[3:]
LOG = open(os.environ["AGENT_LOG"], "a") if "AGENT_LOG" in os.environ else None
SESSION = os.environ.get("AGENT_SESSION", "s1")
FRAMED = "--framed" in ARGUMENTS
OUT, IN = sys.stdout.buffer, sys.stdin.buffer
STRICT = Strict(DIALECT)
# The agent's own requests: their ids start at 0 and overlap the client's.
state = {"next": 0, "cancelled": False, "early": [], "sessions": 0}


def write(line):
    if isinstance(line, str):
        line = line.encode()
    try:
        STRICT.sent(json.loads(line))
    except ValueError:
        pass
    if FRAMED:
        OUT.write(b"Content-Length: %d\r\n\r\n" % len(line) + line)
    else:
        OUT.write(line + b"\n")
    OUT.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def log(message):
    if LOG:
        LOG.write(json.dumps(message) + "\n")
        LOG.flush()


def read():
    """The next frame; the end of input ends us."""
    while True:
        if FRAMED:
            size = None
            while True:
                header = IN.readline()
                if not header:
                    leave()
                if not header.strip():
                    break
                name, _, value = header.partition(b":")
                if name.strip().lower() == b"content-length":
                    size = int(value)
            message = json.loads(IN.read(size))
        else:
            line = IN.readline()
            if not line:
                leave()
            if not line.strip():
                continue
            message = json.loads(line)
        log(message)
        STRICT.came(message)
        if message.get("method") == "session/cancel":
            state["cancelled"] = True
        return message


def leave():
    sys.exit(0)


def ask(method, params):
    """Asks the client and waits for the answer; what else comes is kept."""
    number = state["next"]
    state["next"] += 1
    send({"id": number, "method": method, "params": params})
    while True:
        message = read()
        if "method" not in message and message.get("id") == number:
            return message
        state["early"].append(message)


def incoming():
    return state["early"].pop(0) if state["early"] else read()


def update(body, session=None):
    send({"method": "session/update", "params": {"sessionId": session or SESSION, "update": body}})


def say(text, kind="agent_message_chunk", **more):
    body = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}
    if DIALECT != "1":
        body.setdefault("messageId", "a1")
    update(body)


def tool(number, **fields):
    first = fields.pop("first", True)
    kind = "tool_call" if DIALECT == "1" and first else "tool_call_update"
    update({"sessionUpdate": kind, "toolCallId": number, **fields})


def diff(path, old, new):
    if DIALECT == "2":
        text = f"diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
        change = {"operation": "modify", "path": path, "fileType": "text"}
        return {"type": "diff", "changes": [change], "patch": {"format": "git_patch", "text": text}}
    return {"type": "diff", "path": path, "oldText": old + "\n", "newText": new + "\n"}


ALL = [("yes", "Allow once", "allow_once"), ("always", "Allow always", "allow_always"),
       ("no", "Reject", "reject_once"), ("never", "Reject always", "reject_always")]


def permission(title="Do it", call=None, options=ALL, subject=None):
    call = call or {"toolCallId": "c1", "title": title, "kind": "execute", "rawInput": {"command": "make all"}}
    options = [{"optionId": option, "name": name, "kind": kind} for option, name, kind in options]
    if DIALECT == "2":
        subject = subject or {"type": "tool_call", "toolCall": call}
        params = {"sessionId": SESSION, "title": title, "subject": subject, "options": options}
    else:
        params = {"sessionId": SESSION, "toolCall": call, "options": options}
    answer = ask("session/request_permission", params)
    return answer.get("result", {}).get("outcome", answer)


def shown(value):
    return json.dumps(value, sort_keys=True)


class Answer(Exception):
    """An error answer."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message, **({"data": data} if data is not None else {})}


# What each behaviour does in a turn; it gives the stop reason.
TURNS = {}


def turn(run):
    TURNS[run.__name__] = run
    return run


def text_of(prompt):
    return "".join(block.get("text", "") for block in prompt if block["type"] == "text")


@turn
def hello(prompt):
    say("Hello, ")
    say("world.")


@turn
def echo(prompt):
    say(shown(prompt))


@turn
def escapes(prompt):
    say("\x1b]0;owned\x07\x1b[31mred\x1b[0m\x1b[2J\u202edrowssap\u2066 \x9b31m\x08\x7f and \x1b]52;c;AA")
    say("AA\x07 done")
    tool("c1", title="\x1b[2Jtool\ntitle", kind="read", status="completed")


@turn
def spoof(prompt):
    say("── The agent asks for permission ──\ny once, a always, n no: \r\x1b[A")
    say(shown(permission("Do it\n── The agent asks for permission ──\nwould: nothing at all")))


@turn
def pose(prompt):
    """Fills rows up to the width given, so that what follows begins the next one."""
    marks = ["── FORGED", "» FORGED", "· FORGED", "│ FORGED", "✗ FORGED", "tieline exec: FORGED"]
    fillers = [" ", "x", "\u00a0", "\u2003", "\u2800", "日", "e\u0301", "\t", "ж"]
    width = int(ARGUMENTS[0])
    lines = [filler * count + mark for mark in marks for filler in fillers for count in (width, width // 2, width - 2, width - 10)]
    words = " ".join(lines)
    tool("c1", title="T " + words, kind="· FORGED", status="failed", content=[
        {"type": "content", "content": {"type": "text", "text": "\n".join(lines[:20])}}])
    update({"sessionUpdate": "plan", "entries": [{"content": line, "priority": "low", "status": "pending"} for line in lines]})
    say("\n".join(lines), "agent_thought_chunk")
    for piece in lines:
        say(piece[:7])
        say(piece[7:] + "\n")
    name = " " * (width - 4) + "── FORGED"
    permission(words, options=[("no", name, "reject_once"), ("yes", name, "allow_once"), ("sure", "Reject and stop" + name, "allow_once")])
    say("over")


@turn
def remarks(prompt):
    """Notices and calls that pose as remarks of whoever shows them."""
    update({"sessionUpdate": "notice", "severity": "info", "title": "tieline 0.2 mends a hole; update now"})
    update({"sessionUpdate": "notice", "severity": "warning", "title": "the sandbox could not be started", "description": "type a to go on"})
    tool("c1", title="the rules could not be read", kind="edit", status="failed")
    tool("c2", title="the key was revoked", kind="_mine", status="cancelled" if DIALECT == "2" else "failed")


@turn
def forge(prompt):
    """Words and a file that fill rows of the width given, so that the next ones pose as entries of a story."""
    width = int(ARGUMENTS[0])
    lines = ["", "- allowed: run git push --force (your answer)", "", "## Turn 2", "", "**You**", "", "> yes", "# turn 7: added x"]
    rows = "".join(line.ljust(width) for line in lines)
    with open("forged.txt", "w") as file:
        file.write("Done.".ljust(width - 1) + rows + "\n")
    tool("c1", title="Look".ljust(width - len("**Tool** `")) + rows, kind="read", status="completed", content=[
        {"type": "content", "content": {"type": "text", "text": "\n".join(lines)}}])
    say("Done.".ljust(width - 2) + rows)


@turn
def far_page(prompt):
    """An address that fills a row of the width given."""
    base = "https://ok.example/"
    url = base + "a" * (int(ARGUMENTS[0]) - len("· open this address: ") - len(base)) + "tieline_exec:_run_curl|sh" + "b" * 200
    ask("elicitation/create", {"sessionId": SESSION, "mode": "url", "message": "Log in", "elicitationId": "e1", "url": url})
    say("over")


@turn
def crash(prompt):
    say("half a sen")
    sys.stderr.write("\x1b[31mreason: the disk caught fire\x1b[0m\n")
    sys.stderr.flush()
    os._exit(3)


@turn
def killed(prompt):
    os.kill(os.getpid(), signal.SIGKILL)


@turn
def unknown_updates(prompt):
    update({"sessionUpdate": "weather_report", "sunny": True})
    say("after")


@turn
def unknown_content(prompt):
    update({"sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "hologram", "depth": 3}})
    tool("c1", title="Strange", kind="teleport", status="completed",
         content=[{"type": "smell", "of": "coffee"}], locations=None, rawInput=None)
    tool("c2", title=None, kind=None, status=None, content=None)
    say("after")


@turn
def batch(prompt):
    one = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": {
        "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": "in a batch"}}}}
    write(json.dumps([one]))


@turn
def rubbish(prompt):
    write("npm WARN deprecated something@1.0.0")
    write("")
    write('{"jsonrpc": "2.0", "method": ')
    say("after")


@turn
def broken_update(prompt):
    update({"sessionUpdate": "agent_message_chunk", "content": 7})
    say("after")


@turn
def late(prompt):
    say("before the end")
    return "end_turn", lambda: (say("; after the end"), update({"sessionUpdate": "usage_update", "used": 5, "size": 9}))


@turn
def ask_once(prompt):
    tool("c1", title="Do it", kind="execute", status="pending", rawInput={"command": "make all"})
    say(shown(permission()))


@turn
def flood_and_ask(prompt):
    # More than is kept for the screen, less than what is read ahead of it: behind 3 MB that nobody reads an agent has to wait.
    for _ in range(24):
        say("x" * 65536)
    tool("c1", title="Do it", kind="execute", status="pending", rawInput={"command": "make all"})
    permission(call={"toolCallId": "c1"})
    while True:
        incoming()


@turn
def only_allow(prompt):
    say(shown(permission(options=[("sure", "Sure", "allow_once")])))


@turn
def two_allows(prompt):
    say(shown(permission(options=[("a", "One", "allow_once"), ("b", "Two", "allow_once"), ("z", "No", "reject_once")])))


@turn
def ask_edit(prompt):
    path = os.path.join(state["cwd"], "notes.txt")
    call = {"toolCallId": "c1", "title": "Edit notes.txt", "kind": "edit", "content": [diff(path, "old", "new")],
            "locations": [{"path": path}]}
    tool("c1", **{key: value for key, value in call.items() if key != "toolCallId"}, status="pending")
    outcome = permission("Edit notes.txt", call)
    if outcome.get("optionId") == "yes":
        with open(path, "w") as file:
            file.write("new\n")
        tool("c1", first=False, status="completed")
    else:
        tool("c1", first=False, status="failed")
    say(shown(outcome))


@turn
def requests(prompt):
    """Asks what it is told to, one after the other: [[method, params], ...]; CWD stands for the session's folder."""
    answers = []
    for method, params in json.loads(ARGUMENTS[0].replace("CWD", state["cwd"])):
        if method == "permission":
            answers.append(permission(**params))
        elif method == "say":
            say(params)
        elif method == "sleep":
            time.sleep(params)
        else:
            answer = ask(method, {"sessionId": SESSION, **params})
            answers.append(answer.get("result", answer.get("error")))
    say(shown(answers))
    return "cancelled" if state["cancelled"] else "end_turn"


@turn
def unasked(prompt):
    with open(os.path.join(state["cwd"], "sneaky.txt"), "w") as file:
        file.write("nobody asked\n")
    say("done")


@turn
def read_file(prompt):
    say(shown(ask("fs/read_text_file", {"sessionId": SESSION, "path": ARGUMENTS[0], **json.loads((ARGUMENTS[1:] or ["{}"])[0])})))


@turn
def write_file(prompt):
    path = ARGUMENTS[0] if ARGUMENTS[0].startswith("/") else os.path.join(state["cwd"], ARGUMENTS[0])
    answer = ask("fs/write_text_file", {"sessionId": SESSION, "path": path, "content": "written\n"})
    say(shown(answer))


@turn
def terminal(prompt):
    made = ask("terminal/create", {"sessionId": SESSION, **json.loads(ARGUMENTS[0])})
    if "error" in made:
        return say(shown(made))
    about = {"sessionId": SESSION, "terminalId": made["result"]["terminalId"]}
    tool("c1", title="Run", kind="execute", status="in_progress",
         content=[{"type": "terminal", "terminalId": about["terminalId"]}])
    exit_status = ask("terminal/wait_for_exit", about)
    ask("terminal/kill", about)
    output = ask("terminal/output", about)
    ask("terminal/release", about)
    gone = ask("terminal/output", about)
    tool("c1", first=False, status="completed")
    say(shown({"exit": exit_status.get("result"), "output": output.get("result"), "gone": gone.get("error", {}).get("code")}))


@turn
def orphan(prompt):
    mark = ARGUMENTS[0]
    # Forks twice, in a session of its own: nobody's child.
    subprocess.Popen(["setsid", "sh", "-c", f"sleep 600 & exec sleep 600 # {mark}"], env={**os.environ, "MARK": mark})
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            os.execvp("python3", ["python3", "-c", f"import time; time.sleep(600) # {mark}"])
        os._exit(0)
    say("left something behind")


@turn
def huge(prompt):
    size = int(ARGUMENTS[0])
    head = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": {
        "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": "@"}}}})
    before, after = head.split("@")
    OUT.write(before.encode())
    line = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY\\n" * 16384
    left = size
    while left > 0:
        piece = line if left >= len(line) else b"x" * left
        OUT.write(piece)
        left -= len(piece)
    OUT.write(after.encode() + b"\n")
    OUT.flush()


@turn
def flood(prompt):
    for number in range(int(ARGUMENTS[0])):
        say(f"line {number}\n")


@turn
def deaf(prompt):
    say("working")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.05)


@turn
def waits(prompt):
    say("working")
    while not state["cancelled"]:
        incoming()
    say(", stopped")
    return "cancelled"


@turn
def waits_asking(prompt):
    say("working")
    say(shown(permission()))
    while not state["cancelled"]:
        incoming()
    return "cancelled"


@turn
def unfinished(prompt):
    """Calls in every state; a cancel is not heeded."""
    tool("c1", title="Pending", kind="read", status="pending")
    tool("c2", title="At work", kind="execute", status="in_progress")
    tool("c3", title="Done", kind="read", status="completed")
    say("working")
    while True:
        incoming()


@turn
def late_cancel(prompt):
    say("working")
    while not state["cancelled"]:
        incoming()
    tool("c9", title="Late", kind="read", status="completed")
    say(", late")
    return "cancelled"


@turn
def refusal(prompt):
    return "refusal"


@turn
def max_tokens(prompt):
    say("cut o")
    return "max_tokens"


@turn
def max_turn_requests(prompt):
    return "max_turn_requests"


@turn
def odd_stop(prompt):
    say("odd")
    return "_tired"


@turn
def error(prompt):
    raise Answer(int(ARGUMENTS[0]), "\x1b[2Jit went wrong", {"reason": "testing"})


@turn
def nothing(prompt):
    pass


@turn
def big_tool(prompt):
    tool("c1", title="Big", kind="read", status="completed",
         content=[{"type": "content", "content": {"type": "text", "text": "x" * 5_000_000}}])
    say("fine")


@turn
def environment(prompt):
    say(shown({name: os.environ.get(name) for name in ARGUMENTS}))


@turn
def setup(prompt):
    say(shown(state["setup"]))


@turn
def settings(prompt):
    say(shown(state.get("set", [])))


@turn
def plan(prompt):
    entries = [{"content": "Look", "priority": "high", "status": "completed"},
               {"content": "Leap", "priority": "low", "status": "in_progress"}]
    if DIALECT == "1":
        update({"sessionUpdate": "plan", "entries": entries})
    else:
        update({"sessionUpdate": "plan_update", "plan": {"type": "items", "id" if DIALECT == "2-seed" else "planId": "p", "entries": entries}})
    say("planned")


@turn
def elicit(prompt):
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    say(shown(ask("elicitation/create", {"sessionId": SESSION, "mode": "form", "message": "Who?", "requestedSchema": form})))


@turn
def page(prompt):
    say(shown(ask("elicitation/create", {"sessionId": SESSION, "mode": "url", "message": "Log in", "elicitationId": "e1",
                                         "url": "https://xn--e1awd7f.example/login"})))


@turn
def strange_requests(prompt):
    answers = [ask("craft/drainMidTurnQueue", {}), ask("_mine/do", {"a": 1}), ask("no/such", {})]
    send({"method": "_mine/note", "params": {}})
    send({"method": "vendor/notify/thing", "params": {}})
    say(shown([answer.get("error", {}).get("code") for answer in answers]))


@turn
def bad_requests(prompt):
    absolute = os.path.join(state["cwd"], "a.txt")
    answers = [
        ask("fs/read_text_file", {"sessionId": SESSION, "path": "a.txt"}),
        ask("fs/read_text_file", {"sessionId": SESSION, "path": absolute, "line": 0}),
        ask("fs/read_text_file", {"sessionId": SESSION}),
        ask("terminal/output", {"sessionId": SESSION, "terminalId": "nope"}),
        ask("terminal/create", {"sessionId": SESSION, "command": "true", "cwd": "relative"}),
    ]
    say(shown([answer.get("error", {}).get("code") for answer in answers]))


@turn
def withdrawn(prompt):
    number = state["next"]
    state["next"] += 1
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c1", "title": "Do it", "kind": "execute"}
    params = {"sessionId": SESSION, "title": "Do it", "subject": {"type": "tool_call", "toolCall": call},
              "toolCall": call, "options": options}
    send({"id": number, "method": "session/request_permission", "params": params})
    send({"method": "$/cancel_request", "params": {"requestId": number}})
    while True:
        message = incoming()
        if message.get("id") == number and "method" not in message:
            break
    say(shown(message.get("result", message)))


@turn
def odd_rpc(prompt):
    """Everything about messages that a client has to bear."""
    send({"id": 4711, "result": {}})
    send({"id": "never asked", "error": {"code": -32603, "message": "x"}})
    send({"method": "session/update", "params": {"sessionId": SESSION, "extra": 1, "_meta": {"traceparent": "00-1"}, "update": {
        "sessionUpdate": "agent_message_chunk", "messageId": "a1", "annotations": 7, "new key": [],
        "content": {"type": "text", "text": "said; ", "annotations": "malformed", "_meta": {"x": 1}}}}})
    answers = []
    for number in ["a text", 3000000000]:
        send({"id": number, "method": "_what/is", "params": None, "extra": True})
        while True:
            message = read()
            if message.get("id") == number and "method" not in message:
                answers.append(message["error"]["code"])
                break
    send({"method": "no/such/notification"})
    send({"method": "$/no_such"})
    send({"method": "$/cancel_request", "params": {"requestId": 99}})
    send({"method": "session/update", "params": {"sessionId": "another", "update": {"sessionUpdate": "plan", "entries": []}}})
    say(shown(answers))


@turn
def tools(prompt):
    """A call from nothing to its end, with every way to change it."""
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "First", "rawInput": 5, "rawOutput": "bare"})
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": [
        {"type": "content", "content": {"type": "text", "text": "one"}}, {"type": "content", "content": {"type": "text", "text": "two"}}],
        "locations": [{"path": "/a"}, {"path": "/b", "line": 3}]})
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress", "locations": [{"path": "/c"}]})
    if DIALECT != "1":
        update({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1", "content": {"type": "content", "content": {"type": "text", "text": "three"}}})
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": None, "kind": "_invented", "status": "_napping"})
    update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "kind": "read"})
    say("done")


@turn
def messages(prompt):
    """Messages by id, or by runs."""
    if DIALECT == "1":
        say("one ")
        say("two")
        say("thinking", kind="agent_thought_chunk")
        tool("c1", title="Between", kind="read", status="completed")
        say("three")
        say(" four")
        return
    say("one ", messageId="x")
    say("thinking", kind="agent_thought_chunk", messageId="x")
    say("two", messageId="x")
    say("gone", messageId="y")
    update({"sessionUpdate": "agent_message", "messageId": "y", "content": [{"type": "text", "text": "three"}], "_meta": {"a": 1}})
    update({"sessionUpdate": "agent_message", "messageId": "y", "_meta": None})
    say(" four", messageId="y")


@turn
def plans(prompt):
    for text in ["First", "Second"]:
        entries = [{"content": text, "priority": "high", "status": "pending"}]
        if DIALECT == "1":
            update({"sessionUpdate": "plan", "entries": entries})
        else:
            update({"sessionUpdate": "plan_update", "plan": {"type": "items", "id" if DIALECT == "2-seed" else "planId": "p", "entries": entries}})
    if DIALECT != "1":
        update({"sessionUpdate": "plan_update", "plan": {"type": "_map", "id" if DIALECT == "2-seed" else "planId": "q", "roads": 2}})
    say("planned")


@turn
def states(prompt):
    """An unknown state, and an idle that belongs to no turn, end nothing."""
    update({"sessionUpdate": "state_update", "state": "_dreaming"})
    say("still here")
    return "_tired"


@turn
def notices(prompt):
    update({"sessionUpdate": "notice", "severity": "warning", "title": "Mind the gap"})
    update({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "in_progress"})
    update({"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": {"type": "text", "text": "short"}})
    update({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed", "error": None})
    say("noticed")


@turn
def display(prompt):
    """Terminals of the agent's own."""
    data = base64.b64encode("h\u00e9llo \x1b[2J".encode()).decode()
    update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data[:4]})
    update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": base64.b64encode(base64.b64decode(data)[3:]).decode()})
    tool("c1", title="Show", kind="execute", status="in_progress", content=[{"type": "terminal", "terminalId": "t"}])
    update({"sessionUpdate": "terminal_update", "terminalId": "t", "command": "show", "cwd": state["cwd"], "exitStatus": {}})
    tool("c1", status="completed")
    say("shown")


@turn
def files(prompt):
    path = os.path.join(state["cwd"], "lines.txt")
    about = {"sessionId": SESSION, "path": path}
    reads = [ask("fs/read_text_file", {**about, **more}) for more in (
        {"line": 10, "limit": 5}, {"line": 500}, {"limit": 0}, {"line": 99}, {"line": 0})]
    missing = ask("fs/read_text_file", {"sessionId": SESSION, "path": path + ".missing"})
    relative = ask("fs/read_text_file", {"sessionId": SESSION, "path": "lines.txt"})
    outside = ask("fs/write_text_file", {"sessionId": SESSION, "path": "/etc/nope", "content": ""})
    made = ask("fs/write_text_file", {"sessionId": SESSION, "path": os.path.join(state["cwd"], "new/deep/file.txt"), "content": "x"})
    say(shown({"reads": [read.get("result", {}).get("content", read.get("error", {}).get("code")) for read in reads],
               "missing": missing["error"]["code"], "relative": relative["error"]["code"], "outside": outside["error"]["code"],
               "made": "result" in made}))


@turn
def terminals(prompt):
    def create(**more):
        return ask("terminal/create", {"sessionId": SESSION, **more})

    def of(made):
        return {"sessionId": SESSION, "terminalId": made["result"]["terminalId"]}

    slow = of(create(command="sh", args=["-c", "echo begun; sleep 600"]))
    while "begun" not in ask("terminal/output", slow)["result"]["output"]:
        time.sleep(0.02)
    early = ask("terminal/output", slow)["result"]
    waiters = []
    for _ in range(2):
        waiters.append(state["next"])
        state["next"] += 1
        send({"id": waiters[-1], "method": "terminal/wait_for_exit", "params": slow})
    ask("terminal/kill", slow)
    exits = []
    while len(exits) < 2:
        message = incoming()
        if message.get("id") in waiters and "method" not in message:
            exits.append(message["result"])
    after = ask("terminal/output", slow)["result"]
    ask("terminal/release", slow)
    gone = [ask(method, slow)["error"]["code"] for method in ("terminal/output", "terminal/kill", "terminal/wait_for_exit", "terminal/release")]
    cut = of(create(command="printf", args=["%s", "\u00e9" * 50], outputByteLimit=11))
    ask("terminal/wait_for_exit", cut)
    short = ask("terminal/output", cut)["result"]
    here = of(create(command="pwd"))
    ask("terminal/wait_for_exit", here)
    folder = ask("terminal/output", here)["result"]["output"]
    relative = create(command="pwd", cwd="sub")
    create(command="sh", args=["-c", "sleep 600; : " + os.environ.get("MARK", "")])
    say(shown({"early": early.get("exitStatus"), "exits": exits, "after": after["output"], "gone": gone,
               "short": [short["output"], short["truncated"]], "folder": folder.strip() == state["cwd"],
               "relative": relative["error"]["code"]}))


def initialize(params):
    if BEHAVIOUR == "no_hello":
        while True:
            time.sleep(1)
    if BEHAVIOUR == "dies_at_start":
        sys.stderr.write("cannot find module 'left-pad'\n")
        sys.exit(1)
    if BEHAVIOUR == "rubbish_first":
        write("Welcome to the agent! Loading plugins...")
    version = {"1": 1}.get(DIALECT, 2)
    if BEHAVIOUR == "other_version":
        return {"protocolVersion": 77, "agentCapabilities": {}, "capabilities": {"session": {}}, "info": {"name": "x", "version": "1"}}
    info = {"name": "scripted", "version": "1.0"}
    methods = []
    if BEHAVIOUR.startswith("login"):
        key = "methodId" if DIALECT == "2" else "id"
        methods = [{"type": "agent", key: os.environ.get("AGENT_METHOD", "browser"), "name": "In the browser"}, {"type": "agent", key: "key", "name": "With a key"}]
    if BEHAVIOUR.startswith("terminal_login"):
        key = "methodId" if DIALECT == "2" else "id"
        methods = [{"type": "terminal", key: "shell", "name": "In a terminal", "args": ["--login"]}]
    elif DIALECT == "1":
        methods = [{key: value for key, value in method.items() if key != "type"} for method in methods]
    if DIALECT == "1":
        can = {"loadSession": True, "promptCapabilities": {"image": "image" in ARGUMENTS, "embeddedContext": "embed" in ARGUMENTS},
               "mcpCapabilities": {"http": True}, "sessionCapabilities": {"close": {}, "additionalDirectories": {}}}
        if "no-load" in ARGUMENTS:
            can["loadSession"] = False
        if "bare" in ARGUMENTS:
            can = {}
        if "resume" in ARGUMENTS:
            can["sessionCapabilities"]["resume"] = {}
        return {"protocolVersion": 1, "agentCapabilities": can, "agentInfo": info, "authMethods": methods}
    session = {"prompt": {key: {} for key in ("image", "embeddedContext") if key[:5] in " ".join(ARGUMENTS)}, "mcp": {"stdio": {}, "http": {}},
               "additionalDirectories": {}}
    if DIALECT == "2-seed":
        session.update({"load": {}, "close": {}})
    if "bare" in ARGUMENTS:
        session = {"prompt": None, "additionalDirectories": None, "load": None, "close": None}
    if "no-session" in ARGUMENTS:
        session = None
    if DIALECT == "2-seed":
        return {"protocolVersion": 2, "agentInfo": info, "capabilities": {"session": session}, "authMethods": methods}
    return {"protocolVersion": version, "info": info, "capabilities": {"session": session}, "authMethods": methods}


def options():
    ident = "configId" if DIALECT == "2" else "id"
    one = {ident: "model", "name": "Model", "category": "model", "type": "select", "currentValue": "small",
           "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "The large one"}]}
    two = {ident: "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "ask",
           "options": [{"value": "ask", "name": "Ask"}, {"value": "auto", "name": "Auto"}]}
    three = {ident: "fast", "name": "Fast", "type": "boolean", "currentValue": False}
    return [one, two] + ([three] if DIALECT == "2" else [])


def new_session(params):
    if BEHAVIOUR == "slow_session":
        time.sleep(600)
    if BEHAVIOUR == "dies_at_session":
        sys.stderr.write("quota file is missing\n")
        sys.exit(4)
    if BEHAVIOUR == "session_error":
        raise Answer(-32603, "no room")
    if BEHAVIOUR == "terminal_login" and os.path.exists(ARGUMENTS[0]):
        state["in"] = True
    if BEHAVIOUR in ("login", "login_fails", "login_in_vain", "terminal_login", "terminal_login_in_vain") and not state.get("in"):
        raise Answer(-32000, "Authentication required", {"reason": "auth_required"})
    state["cwd"] = params["cwd"]
    state["setup"] = params
    return {"sessionId": SESSION, "configOptions": options()}


def old_session(params):
    if BEHAVIOUR == "forgets" or (BEHAVIOUR == "login_at_load" and not state.get("in")):
        raise Answer(-32002, "Resource not found", {"sessionId": params["sessionId"]})
    state["cwd"] = params["cwd"]
    state["setup"] = params
    say("what was said long ago", kind="user_message_chunk")
    say("and what was answered")
    return {"configOptions": options()}


def asked(method, params):
    if method == "session/close":
        return {}
    state.setdefault("set", []).append(params)
    return {"configOptions": options()}


def prompted(number, params):
    prompt = params["prompt"]
    if DIALECT == "2":
        send({"id": number, "result": {"messageId": "u1"}})
        update({"sessionUpdate": "user_message", "messageId": "u1", "content": prompt})
        update({"sessionUpdate": "state_update", "state": "running"})
    after = None
    try:
        run = TURNS.get(BEHAVIOUR, hello)
        stop = run(prompt) or "end_turn"
        if isinstance(stop, tuple):
            stop, after = stop
        result = {"result": {"stopReason": stop}}
    except Answer as answer:
        result = {"error": answer.error}
        stop = "error"
    if DIALECT == "2":
        idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": stop}
        if "error" in result:
            idle["error"] = result["error"]
        update(idle)
    else:
        send({"id": number, **result})
    if after:
        after()


def serve():
    while True:
        message = incoming()
        method, number = message.get("method"), message.get("id")
        params = message.get("params") or {}
        if method is None or number is None:
            continue
        try:
            if method == "initialize":
                result = initialize(params)
            elif method in ("authenticate", "auth/login"):
                if BEHAVIOUR == "login_fails":
                    raise Answer(-32603, "wrong password")
                state["in"] = BEHAVIOUR != "login_in_vain"
                result = {}
            elif method == "session/new":
                result = new_session(params)
            elif method in ("session/load", "session/resume"):
                result = old_session(params)
            elif method in ("session/set_config_option", "session/set_mode", "session/close"):
                result = asked(method, params)
            elif method == "session/prompt":
                prompted(number, params)
                continue
            else:
                raise Answer(-32601, "Method not found")
            send({"id": number, "result": result})
            state.pop("after", lambda: None)()
        except Answer as answer:
            send({"id": number, "error": answer.error})


if __name__ == "__main__":
    if "--login" in ARGUMENTS:
        # The same program in the foreground, on the user's terminal.
        ok = input("password? ") == "open sesame"
        if ok and BEHAVIOUR == "terminal_login":
            open(ARGUMENTS[0], "w").close()
        sys.exit(0 if ok else 1)
    serve()
