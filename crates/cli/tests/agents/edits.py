"""An agent that asks about a file and then appends to it by itself, as agents with their own tools do; or appends before it asks; or
dies at its question once there is a file `die` above its folder; or has one command run in the client's terminal, which writes FILE, and
writes other files itself before and after; or appends and then works on without end; or asks, and changes FILE, `a.txt` and `sneaked`
while its question stands. usage: edits.py
ask-then-append|append-then-ask|ask-then-die|around-a-command|append-then-work|ask-and-write FILE"""

import json
import os
import sys
import time


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def append(to=None):
    with open(os.path.join(where, to or name), "a", encoding="utf-8") as file:
        file.write("agent\n")


how, name = sys.argv[1:]
where = ""
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif method == "session/new":
        where = message["params"]["cwd"]
        send({"id": number, "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        prompt = number
        if how == "around-a-command":
            append("before.txt")
            command = {"command": "sh", "args": ["-c", f"echo command >> {name}; echo command >> before.txt"]}
            send({"id": "run", "method": "terminal/create", "params": {"sessionId": "s", **command}})
            continue
        if how.startswith("append-then"):
            append()
        if how == "append-then-work":
            words = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "at work\n"}}
            send({"method": "session/update", "params": {"sessionId": "s", "update": words}})
            continue
        call = {"toolCallId": "t", "title": f"Append to {name}", "kind": "edit", "locations": [{"path": os.path.join(where, name)}]}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]
        update = {"sessionUpdate": "tool_call", "status": "pending", **call}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        send({"id": "ask", "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": call, "options": options}})
        if how == "ask-and-write":
            time.sleep(1)  # Sooner, nobody can have answered: it counts as the agent's.
            for to in (None, "a.txt", "sneaked"):
                append(to)
        if how == "ask-then-die":
            while not os.path.exists(os.path.join(where, "..", "die")):
                time.sleep(0.05)
            sys.exit(3)
    elif number == "run":
        wait = {"sessionId": "s", "terminalId": message["result"]["terminalId"]}
        send({"id": "wait", "method": "terminal/wait_for_exit", "params": wait})
    elif number == "wait":
        append("after.txt")
        send({"id": prompt, "result": {"stopReason": "end_turn"}})
    elif number == "ask":
        allowed = message["result"]["outcome"].get("optionId") == "yes"
        if allowed:
            append()
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" if allowed else "failed"}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        send({"id": prompt, "result": {"stopReason": "end_turn"}})
    elif number is not None and method:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
