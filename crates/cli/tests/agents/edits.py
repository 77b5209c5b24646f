"""An agent that asks about a file and then appends to it by itself, as agents with their own tools do. usage: edits.py ask-then-append FILE"""

import json
import os
import sys


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


name = sys.argv[2]
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
        call = {"toolCallId": "t", "title": f"Append to {name}", "kind": "edit", "locations": [{"path": os.path.join(where, name)}]}
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"}]
        update = {"sessionUpdate": "tool_call", "status": "pending", **call}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        send({"id": "ask", "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": call, "options": options}})
    elif number == "ask":
        allowed = message["result"]["outcome"].get("optionId") == "yes"
        if allowed:
            with open(os.path.join(where, name), "a", encoding="utf-8") as file:
                file.write("agent\n")
        update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" if allowed else "failed"}
        send({"method": "session/update", "params": {"sessionId": "s", "update": update}})
        send({"id": prompt, "result": {"stopReason": "end_turn"}})
    elif number is not None and method:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
