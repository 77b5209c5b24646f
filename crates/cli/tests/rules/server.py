"""An MCP server whose tools do what their arguments say: see `call`. As strict as real ones: what comes too early or twice ends it."""

import json
import sys
import threading

LOCK = threading.Lock()
ANSWERS = {}
CAME = threading.Condition()
TOOLS = ["give", "page", "needs_page", "form", "done"]


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(dict(message, jsonrpc="2.0")) + "\n")
        sys.stdout.flush()


def ask(number, params):
    """Asks the user, and gives what came back as a text."""
    send({"id": f"q{number}", "method": "elicitation/create", "params": params})
    with CAME:
        CAME.wait_for(lambda: f"q{number}" in ANSWERS, 60)
        answer = ANSWERS.pop(f"q{number}", {})
    return {"content": [{"type": "text", "text": json.dumps(answer.get("result", answer), sort_keys=True)}]}


def page(arguments):
    return {"mode": "url", "message": "Please log in.", "elicitationId": arguments["id"], "url": arguments["url"]}


def call(number, name, arguments):
    if name == "give":
        # Gives these blocks back.
        result = {"content": arguments["content"]}
    elif name == "page":
        result = ask(number, page(arguments))
    elif name == "needs_page":
        # A call that works only after a page was visited.
        data = {"elicitations": [page(arguments)]}
        return send({"id": number, "error": {"code": -32042, "message": "A page first", "data": data}})
    elif name == "form":
        schema = {"type": "object", "properties": arguments["properties"]}
        result = ask(number, {"mode": "form", "message": arguments["message"], "requestedSchema": schema})
    else:
        # The user is done with a page.
        send({"method": "notifications/elicitation/complete", "params": {"elicitationId": arguments["id"]}})
        result = {"content": [{"type": "text", "text": "told"}]}
    send({"id": number, "result": result})


state = "new"
for line in sys.stdin:
    message = json.loads(line)
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    early = method not in ("initialize", "ping", None) and state == "new"
    unready = method in ("tools/list", "tools/call") and state != "ready"
    if message.get("jsonrpc") != "2.0" or early or unready or (method == "initialize" and state != "new"):
        sys.exit(f"strict server: {method} in state {state}")
    if method == "notifications/initialized":
        state = "ready"
    elif method == "initialize":
        state = "greeted"
        if not {"protocolVersion", "capabilities", "clientInfo"} <= params.keys():
            sys.exit(f"strict server: initialize with {list(params)}")
        about = {"name": "scripted", "version": "1"}
        hello = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
        send({"id": number, "result": hello})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
        send({"id": number, "result": {"tools": tools}})
    elif method == "tools/call" and params.get("name") not in TOOLS:
        send({"id": number, "error": {"code": -32602, "message": f"Unknown tool: {params.get('name')}"}})
    elif method == "tools/call":
        work = (number, params["name"], params.get("arguments") or {})
        threading.Thread(target=call, args=work, daemon=True).start()
    elif method is None:
        if not isinstance(number, str) or ("result" in message) == ("error" in message):
            sys.exit(f"strict server: an answer to nothing: {line}")
        with CAME:
            ANSWERS[number] = message
            CAME.notify_all()
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
