"""An MCP server over streamable HTTP that forgets sessions, and sends what is `long` if that is its argument."""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOLS = ["count", "forget"]
SEEN = {"GET": 0, "initialize": 0}
SESSION = {"id": 0, "version": None}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json", **headers):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def is_known(self):
        # The version that was agreed on goes with every request, as the protocol wants it.
        agreed = self.headers.get("MCP-Protocol-Version") == SESSION["version"]
        return agreed and self.headers.get("Mcp-Session-Id") == str(SESSION["id"])

    def do_DELETE(self):
        self.answer(200, "")

    def do_GET(self):
        if not self.is_known():
            return self.answer(400, "Bad Request: No valid session ID provided", "text/plain")
        SEEN["GET"] += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if sys.argv[1] == "long":
            # Whoever breaks off here gets it again.
            self.wfile.write(b"id: 1\ndata: " + b"x" * (17 << 20) + b"\n\n")
        TOOLS.append("grown")
        change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        self.wfile.write(b"data: " + json.dumps(change).encode() + b"\n\n")
        self.wfile.flush()
        time.sleep(3600)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, method = message.get("id"), message.get("method")
        accepts = self.headers.get("Accept", "")
        if "application/json" not in accepts or "text/event-stream" not in accepts:
            return self.answer(406, "Not Acceptable", "text/plain")
        if self.headers.get("Content-Type", "").split(";")[0] != "application/json":
            return self.answer(415, "Unsupported Media Type", "text/plain")
        if number is None:
            return self.answer(202, "")
        if method == "initialize":
            SEEN["initialize"] += 1
            SESSION["id"] += 1
            info = {"name": "web", "version": "1"}
            version = SESSION["version"] = message["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}}
            result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        elif not self.is_known():
            return self.answer(400, "Bad Request: No valid session ID provided", "text/plain")
        elif method == "tools/list":
            schema = {"type": "object", "properties": {}}
            result = {"tools": [{"name": name, "inputSchema": schema} for name in dict.fromkeys(TOOLS)]}
        elif method == "tools/call":
            if message["params"]["name"] == "forget":
                SESSION["id"] += 1
                TOOLS.append("after")
            result = {"content": [{"type": "text", "text": "seen " + json.dumps(SEEN)}]}
        else:
            result = {}
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
        self.answer(200, text, Mcp_Session_Id=str(SESSION["id"]))


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
