#!/usr/bin/env python3
"""An agent that can be told something while it works, and bears no mistake of the client's. Its argument says how it takes it:
joins (current version 2, into the turn), later (the same, when the turn is over), refuses (the same, never), steers (version 1, by
the extension). `hang` begins a turn that ends with the next word that is taken, or with a cancel; `bye` ends at once."""
import json
import sys
from strict import Strict

HOW = sys.argv[1]
STRICT = Strict("1" if HOW == "steers" else "2")
running, waiting, count = None, [], 0


def send(body):
    body = {"jsonrpc": "2.0", **body}
    STRICT.sent(body)
    print(json.dumps(body), flush=True)


def update(**body):
    send({"method": "session/update", "params": {"sessionId": "s", "update": body}})


def say(text):
    global count
    count += 1
    more = {} if HOW == "steers" else {"messageId": f"a{count}"}
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text}, **more)


def insert(id, prompt):
    """The message is in the conversation: it is told, and the prompt is answered."""
    global count
    if HOW == "steers":
        return
    count += 1
    update(sessionUpdate="user_message", messageId=f"u{count}", content=prompt)
    send({"id": id, "result": {"messageId": f"u{count}"}})


def end(reason="end_turn"):
    global running
    id, running = running, None
    if HOW == "steers":
        return send({"id": id, "result": {"stopReason": reason}})
    update(sessionUpdate="state_update", state="idle", stopReason=reason)


def begin(id, prompt):
    global running
    running = id
    text = "".join(block.get("text", "") for block in prompt)
    insert(id, prompt)
    if HOW != "steers":
        update(sessionUpdate="state_update", state="running")
    say("heard " + text)
    if text != "hang":
        end()


def second(id, prompt):
    text = "".join(block.get("text", "") for block in prompt)
    if HOW == "refuses":
        return send({"id": id, "error": {"code": -32600, "message": "one at a time, please"}})
    if HOW == "later":
        waiting.append((id, prompt))
        if text == "wait":
            return
        end()
        while waiting:
            begin(*waiting.pop(0))
        return
    insert(id, prompt)
    say("took in " + text)
    if text != "more":
        end()


for line in sys.stdin:
    message = json.loads(line)
    STRICT.came(message)
    method, params, id = message.get("method"), message.get("params", {}), message.get("id")
    if method == "initialize" and HOW == "steers":
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {}, "_meta": {"steering": {"supported": True}}}})
    elif method == "initialize":
        send({"id": id, "result": {"protocolVersion": 2, "info": {"name": "now", "version": "1"}, "capabilities": {"session": {}}}})
    elif method == "session/new":
        send({"id": id, "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        (begin if running is None else second)(id, params["prompt"])
    elif method == "_session/steering":
        text = "".join(block["text"] for block in params["prompt"])
        send({"id": id, "result": {"outcome": "injected" if running is not None else "failed"}})
        if running is not None:
            say("took in " + text)
            end()
    elif method == "session/cancel":
        for one, _ in waiting:
            send({"id": one, "error": {"code": -32800, "message": "cancelled"}})
        waiting.clear()
        if running is not None:
            end("cancelled")
    elif id is not None and method != "session/prompt":
        send({"id": id, "result": {}})
