#!/usr/bin/env python3
"""An agent that tries to fill its client's memory: flood.py WAY DIALECT MEGABYTES THOUSANDS.

Each way sends about so many megabytes, or so many thousand small updates, in one turn. It writes prepared lines, so that it is not
what takes the time.
"""
import base64
import json
import os
import sys
import time

import agent
from agent import DIALECT, OUT, SESSION, say, turn

MEGABYTES, THOUSANDS = (int(word) for word in agent.ARGUMENTS[:2])
BIG = "x" * 900 + " y\n" * 33 + "z" * 25  # About a kilobyte, with lines.
MEGABYTE = BIG * 1024
MARK = "@NUMBER@"


def lines(body, count, start=0):
    """Sends an update so many times; the mark in it becomes the number."""
    update = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": SESSION, "update": body}}
    parts = (json.dumps(update) + "\n").encode().split(MARK.encode())
    for number in range(start, start + count):
        OUT.write(str(number).encode().join(parts))
    OUT.flush()


def text(words):
    return {"type": "content", "content": {"type": "text", "text": words}}


def call(number=MARK, status="completed", **fields):
    kind = "tool_call" if DIALECT == "1" else "tool_call_update"
    return {"sessionUpdate": kind, "toolCallId": f"call{number}", "title": f"Call {number}", "kind": "read", "status": status, **fields}


@turn
def calls(prompt):
    """Many calls with a megabyte each, some of which never end."""
    lines(call(content=[text(MEGABYTE)]), MEGABYTES // 2)
    lines(call(status="in_progress", content=[text(MEGABYTE)]), MEGABYTES - MEGABYTES // 2, 10**6)


@turn
def small_calls(prompt):
    lines(call(content=[text(BIG * 10)], locations=[{"path": "/tmp/" + "p" * 400 + MARK}]), MEGABYTES * 100)


@turn
def replaced(prompt):
    lines(call("one", "in_progress", content=[text(MEGABYTE + MARK)]), MEGABYTES)


@turn
def huge(prompt):
    """One message of nearly the size limit, in one call, again and again."""
    for number in range(max(MEGABYTES // 48, 1)):
        lines(call(number, "in_progress", content=[text(MEGABYTE * 48)]), 1)


@turn
def many_blocks(prompt):
    """One call with as many parts as fit into one message."""
    lines(call("one", "in_progress", content=[text("")] * (MEGABYTES * 14_000 // 10)), 1)


@turn
def chunks(prompt):
    """One call to whose content more and more is added."""
    lines(call("one", "in_progress"), 1)
    lines({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "callone", "content": text(BIG)}, MEGABYTES * 1000)


@turn
def raw_input(prompt):
    lines(call(status="in_progress", rawInput={"command": MEGABYTE, "path": "/tmp/x"}), MEGABYTES)


@turn
def raw_output(prompt):
    lines(call(rawOutput={"text": MEGABYTE}), MEGABYTES)


@turn
def raw_tree(prompt):
    lines(call("one", rawInput=[[]] * (MEGABYTES * 25_000), rawOutput={"a": [0] * (MEGABYTES * 25_000)}), 1)


@turn
def diffs(prompt):
    lines(call(content=[agent.diff("/tmp/f" + MARK, "a", MEGABYTE)]), MEGABYTES)


@turn
def many_diffs(prompt):
    """One call with many small changes, each of another file, whose texts have a line break."""
    lines(call("one", content=[agent.diff(f"/tmp/f{number}", "a\n", "b\n") for number in range(MEGABYTES * 600)]), 1)


@turn
def many_links(prompt):
    link = {"type": "content", "content": {"type": "resource_link", "uri": "a:", "name": "\n"}}
    lines(call("one", content=[link] * (MEGABYTES * 600)), 1)


def ask(count, parts):
    """Asks so many questions at once, each about so many small changes, and takes the answers later."""
    for number in range(count):
        diffs = [agent.diff(f"/tmp/f{part}", "a\n", "b\n") for part in range(parts)]
        about = {"toolCallId": f"q{number}", "title": "Edit", "kind": "edit", "content": diffs}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": SESSION, "toolCall": about, "options": options}
        if DIALECT == "2":
            params = {"sessionId": SESSION, "title": "Edit", "subject": {"type": "tool_call", "toolCall": about}, "options": options}
        message = {"jsonrpc": "2.0", "id": f"q{number}", "method": "session/request_permission", "params": params}
        OUT.write((json.dumps(message) + "\n").encode())
    OUT.flush()
    left = {f"q{number}" for number in range(count)}
    while left:
        left.discard(json.loads(agent.IN.readline()).get("id"))


@turn
def questions(prompt):
    ask(MEGABYTES // 5, MEGABYTES * 400)


@turn
def long_questions(prompt):
    """As many parts as a question may have."""
    ask(MEGABYTES // 5, 9000)


@turn
def titles(prompt):
    lines(call(status="in_progress", title=MARK + BIG * 4), THOUSANDS * 1000)


@turn
def paths(prompt):
    locations = [{"path": "/tmp/" + "d" * 200 + f"/{number}"} for number in range(1000)]
    lines(call(locations=locations), MEGABYTES * 4)


@turn
def metas(prompt):
    lines(call(_meta={"x": MEGABYTE, MARK: 1}), MEGABYTES // 2)
    lines({"sessionUpdate": "session_info_update", "_meta": {MARK: MEGABYTE}}, MEGABYTES - MEGABYTES // 2)


@turn
def plan(prompt):
    entries = [{"content": f"Step {number} {BIG[:300]}", "priority": "high", "status": "pending"} for number in range(1000)]
    body = {"sessionUpdate": "plan", "entries": entries}
    if DIALECT != "1":
        body = {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "plan" + MARK, "entries": entries}}
    lines(body, MEGABYTES * 2)


@turn
def plans(prompt):
    entries = [{"content": "Step " + MARK, "priority": "high", "status": "pending"}]
    body = {"sessionUpdate": "plan", "entries": entries}
    if DIALECT != "1":
        body = {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "plan" + MARK, "entries": entries}}
    lines(body, THOUSANDS * 1000)


@turn
def tiny(prompt):
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    lines(chunk if DIALECT == "1" else {**chunk, "messageId": "one"}, THOUSANDS * 10_000)


@turn
def two_messages(prompt):
    """Chunks of two messages in turn, so that none goes on where the last one ended."""
    for number in range(THOUSANDS * 500):
        for kind in ("agent_message_chunk", "agent_thought_chunk"):
            lines({"sessionUpdate": kind, "messageId": f"m{number % 2}", "content": {"type": "text", "text": "x"}}, 1)


@turn
def messages(prompt):
    lines({"sessionUpdate": "agent_message_chunk", "messageId": "m" + MARK + BIG, "content": {"type": "text", "text": "x"}}, THOUSANDS * 1000)


@turn
def whole_messages(prompt):
    lines({"sessionUpdate": "agent_message", "messageId": "one", "content": [{"type": "text", "text": MARK + MEGABYTE}]}, MEGABYTES)


@turn
def pictures(prompt):
    image = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 250_000}
    lines({"sessionUpdate": "agent_message_chunk", "messageId": "one", "content": image}, MEGABYTES)


@turn
def strangers(prompt):
    """Updates that nobody knows."""
    lines({"sessionUpdate": "_weather", "number": MARK, "of": MEGABYTE}, MEGABYTES // 2)
    lines({"sessionUpdate": "_weather", "number": MARK}, THOUSANDS * 1000)


@turn
def commands(prompt):
    names = [{"name": f"command{number}", "description": BIG[:300]} for number in range(3000)]
    lines({"sessionUpdate": "available_commands_update", "availableCommands": names}, MEGABYTES)


@turn
def options(prompt):
    values = [{"value": f"value{number}", "name": BIG[:300]} for number in range(3000)]
    option = {"type": "select", "id": "one", "configId": "one", "name": "One", "currentValue": "value1", "options": values}
    lines({"sessionUpdate": "config_option_update", "configOptions": [option]}, MEGABYTES)


@turn
def usage(prompt):
    lines({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.1, "currency": "USD"}}, THOUSANDS * 1000)


@turn
def terminals(prompt):
    """Many terminals with a megabyte of output each."""
    data = base64.b64encode(MEGABYTE.encode()).decode()
    lines({"sessionUpdate": "terminal_update", "terminalId": "t" + MARK, "command": "yes", "output": {"data": data}}, MEGABYTES)


@turn
def output(prompt):
    """One terminal whose output goes on."""
    data = base64.b64encode(BIG.encode()).decode()
    lines({"sessionUpdate": "terminal_output_chunk", "terminalId": "t" + MARK[:0], "data": data}, MEGABYTES * 1000)


@turn
def small_terminals(prompt):
    data = base64.b64encode(BIG.encode()).decode()
    lines({"sessionUpdate": "terminal_output_chunk", "terminalId": "t" + MARK, "data": data}, THOUSANDS * 1000)


@turn
def notices(prompt):
    lines({"sessionUpdate": "notice", "severity": "warning", "title": MARK + BIG}, THOUSANDS * 1000)


@turn
def compactions(prompt):
    summary = [{"type": "text", "text": MEGABYTE}]
    lines({"sessionUpdate": "compaction_update", "compactionId": "c" + MARK, "status": "completed", "summary": summary}, MEGABYTES)


@turn
def reads(prompt):
    """Asks for a long file again and again, and takes the answers much later."""
    path = os.path.join(agent.state["cwd"], "long.txt")
    with open(path, "w") as file:
        file.write(MEGABYTE * 4)
    count = MEGABYTES // 4
    for number in range(count):
        params = {"sessionId": SESSION, "path": path}
        OUT.write((json.dumps({"jsonrpc": "2.0", "id": f"r{number}", "method": "fs/read_text_file", "params": params}) + "\n").encode())
    OUT.flush()
    time.sleep(3)
    left = {f"r{number}" for number in range(count)}
    while left:
        left.discard(json.loads(agent.IN.readline()).get("id"))


@turn
def bad(prompt):
    """Updates that can't be read, and lines that are no messages, each another."""
    lines({"sessionUpdate": "agent_message_chunk", "content": 7, MARK: 1}, THOUSANDS * 500)
    for number in range(THOUSANDS * 500):
        OUT.write(b"rubbish %d\n" % number)
    OUT.flush()


@turn
def elsewhere(prompt):
    """Updates for sessions that are not open."""
    body = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": BIG}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "other" + MARK, "update": body}}
    parts = (json.dumps(message) + "\n").encode().split(MARK.encode())
    for number in range(THOUSANDS * 1000):
        OUT.write(str(number).encode().join(parts))
    OUT.flush()


if __name__ == "__main__":
    run = agent.TURNS[agent.BEHAVIOUR]

    def played(prompt):
        run(prompt)
        say("done")

    agent.TURNS[agent.BEHAVIOUR] = played
    agent.serve()
