#!/usr/bin/env python3
"""An agent for the tests of the chat: does what each prompt says, on the first version of the protocol. It can load sessions."""
import json
import os
import sys
import threading

waiting, number = {}, 100


def send(body):
    print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)


def update(session, **body):
    send({"method": "session/update", "params": {"sessionId": session, "update": body}})


def say(session, text):
    update(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def end(id, reason="end_turn"):
    send({"id": id, "result": {"stopReason": reason}})


def request(method, params):
    """Asks the client, and gives what it answers. What else comes meanwhile is passed over, but a cancel."""
    global number
    number += 1
    send({"id": number, "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", {})
        if message.get("method") == "session/cancel":
            return {}
    sys.exit()


def prompt(id, session, text):
    word, _, rest = text.partition(" ")
    if word == "plan":
        steps = [("Look", "completed"), ("Change it", "in_progress"), ("Test it", "pending")]
        entries = [{"content": step, "priority": "medium", "status": status} for step, status in steps]
        update(session, sessionUpdate="plan", entries=entries)
    elif word == "terminal":
        made = request("terminal/create", {"sessionId": session, "command": "sh", "args": ["-c", rest]})
        update(session, sessionUpdate="tool_call", toolCallId="t1", title="Run it", kind="execute", status="in_progress",
               content=[{"type": "terminal", "terminalId": made["terminalId"]}])
        request("terminal/wait_for_exit", {"sessionId": session, "terminalId": made["terminalId"]})
        update(session, sessionUpdate="tool_call_update", toolCallId="t1", status="completed")
    elif word == "ask":
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]
        call = {"toolCallId": "c1", "title": "Do it", "kind": "execute", "rawInput": {"command": rest}}
        answer = request("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})
        say(session, "answer: " + answer.get("outcome", {}).get("optionId", "none"))
    elif word == "late":
        threading.Timer(1, lambda: open(rest, "w").write("by the agent\n")).start()
    elif word == "long":
        say(session, "x" * int(rest) + " the end of it")
    elif word == "tree":
        update(session, sessionUpdate="tool_call", toolCallId="p1", title="A helper", kind="think", status="in_progress")
        update(session, sessionUpdate="tool_call", toolCallId="p2", title="Its own step", kind="read", status="completed",
               _meta={"parentToolCallId": "p1"})
    else:
        say(session, "heard " + text)
    if word == "die":
        update(session, sessionUpdate="tool_call", toolCallId="d1", title="Work", kind="execute", status="in_progress")
        os._exit(3)
    if word == "hang":
        waiting[session] = id
    elif word != "stuck":
        end(id)


for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message.get("method"), message.get("params", {}), message.get("id")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}})
    elif method == "session/new":
        send({"id": id, "result": {"sessionId": f"s{os.getpid()}"}})
    elif method == "session/load":
        send({"id": id, "result": {}})
    elif method == "session/prompt":
        prompt(id, params["sessionId"], "".join(block.get("text", "") for block in params["prompt"]))
    elif method == "session/cancel" and params["sessionId"] in waiting:
        end(waiting.pop(params["sessionId"]), "cancelled")
