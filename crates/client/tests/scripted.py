# An agent for tests of live sessions and of the server. It does what the last words of a prompt say, and ends at the first thing that a real
# agent would not bear. HOW says how it takes sessions up again (resume, load, or not at all), COUNT is a file for how much it has sent.
import json, os, sys
HOW, COUNT = sys.argv[1], sys.argv[2]
waiting, asked, terminals, number, sessions = {}, {}, {}, 100, set()
def send(body): print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
def say(session, text): send({"method": "session/update", "params": {"sessionId": session, "update": {
    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}}})
def end(id, reason="end_turn"): send({"id": id, "result": {"stopReason": reason}})
for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message.get("method"), message.get("params", {}), message.get("id")
    session = params.get("sessionId")
    if method == "initialize":
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": HOW == "load",
            "sessionCapabilities": {"resume": {}} if HOW == "resume" else {}}}})
    elif method == "session/new":
        sessions.add(f"s{os.getpid()}-{len(sessions)}")
        send({"id": id, "result": {"sessionId": f"s{os.getpid()}-{len(sessions) - 1}"}})
    elif method in ("session/resume", "session/load"):
        sessions.add(session)
        if method == "session/load":
            say(session, "told again")
        send({"id": id, "result": {}})
    elif method == "session/prompt":
        assert session in sessions and session not in waiting, "a prompt at the wrong time"
        texts = [block["text"] for block in params["prompt"] if "text" in block]
        words = texts[-1]
        if words.endswith("ask"):
            number += 1
            asked[number] = (id, session)
            send({"id": number, "method": "session/request_permission", "params": {"sessionId": session,
                "toolCall": {"toolCallId": "c1", "title": "Do it", "kind": "execute", "rawInput": {"command": "make"}},
                "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                            {"optionId": "no", "name": "No", "kind": "reject_once"}]}})
        elif words.startswith(("read ", "write ", "run ")):
            number += 1
            asked[number] = (id, session)
            what, rest = words.split(" ", 1)
            path, _, text = rest.partition(" ")
            method = {"read": "fs/read_text_file", "write": "fs/write_text_file", "run": "terminal/create"}[what]
            more = {"read": {"path": path}, "write": {"path": path, "content": text}, "run": {"command": path}}[what]
            send({"id": number, "method": method, "params": {"sessionId": session, **more}})
        elif words.endswith("wait"):
            if words.endswith("work and wait"):
                say(session, "working")
            waiting[session] = id
        elif words.endswith("die"):
            say(session, "half a sen")
            if words.endswith("work and die"):
                send({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": "tool_call",
                    "toolCallId": "c9", "title": "Work", "kind": "execute", "status": "in_progress"}}})
            os._exit(3)
        elif words.endswith("fail"):
            send({"id": id, "error": {"code": -32603, "message": "the model is away"}})
        elif words.endswith("flood"):
            for at in range(20000):
                say(session, "x" * 10000)
                if at % 100 == 0:
                    open(COUNT, "w").write(str(at))
            end(id)
        else:
            say(session, "heard: " + ("a record, " if "earlier conversation" in texts[0] else "") + words)
            end(id)
    elif method == "session/cancel" and session in waiting:
        end(waiting.pop(session), "cancelled")
    elif method is None and id in asked:
        prompt, session = asked.pop(id)
        result = message.get("result") or {}
        if "terminalId" in result:
            asked[number := number + 1] = (prompt, session)
            terminals[session] = result["terminalId"]
            send({"id": number, "method": "terminal/wait_for_exit", "params": {"sessionId": session, **result}})
            continue
        if "error" in message:
            say(session, "refused: " + message["error"]["message"])
        elif "exitCode" in result:
            say(session, f"exit: {result['exitCode']}")
            release = {"sessionId": session, "terminalId": terminals.pop(session)}
            send({"id": (number := number + 1), "method": "terminal/release", "params": release})
        elif "outcome" in result:
            say(session, "answer: " + result["outcome"].get("optionId", "none"))
        else:
            say(session, "did: " + result.get("content", ""))
        end(prompt)
