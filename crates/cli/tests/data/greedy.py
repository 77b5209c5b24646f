"""An agent that takes what it is told to: `eat N` takes N MiB, `fork N` starts N processes, all else is said back."""
import json
import subprocess
import sys

held = []


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        say({"id": number, "result": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}})
    elif method == "session/new":
        say({"id": number, "result": {"sessionId": "greedy"}})
    elif method == "session/prompt":
        words = message["params"]["prompt"][-1]["text"]
        what, _, count = words.partition(" ")
        if what == "eat":
            held.append(bytearray(int(count) << 20))
        elif what == "fork":
            for _ in range(int(count)):
                held.append(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        if what in ("eat", "fork"):
            # What looks at it looks four times a second.
            say({"method": "session/update", "params": {"sessionId": "greedy", "update": {
                "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "took it"}}}})
            sys.stdin.readline()
        say({"method": "session/update", "params": {"sessionId": "greedy", "update": {
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"heard: {words[-20:]}"}}}})
        say({"id": number, "result": {"stopReason": "end_turn"}})
