#!/usr/bin/env python3
"""An agent with all the bad habits of real ones in one turn: the 21 of version 1, or with `2` those of version 2.

What the client did with them is told as text at the end: a JSON object, habit by habit.
"""
import json
import os
import subprocess
import sys

sys.argv[1:] = ["habits", *sys.argv[1:]]
import agent  # noqa: E402
from agent import DIALECT, SESSION, ask, permission, say, send, state, tool, update, write  # noqa: E402

TOLD = {}


def initialize(params):
    # 1: text that is no JSON, and empty lines, before anything else.
    write("Loading plugins, please wait...")
    write("")
    # 4: notifications that belong to no session.
    send({"method": "_auth/status_update", "params": {"status": "ok"}})
    answer = plain_initialize(params)
    if DIALECT == "1":
        # 10: capabilities nobody knows. 18: some of them are lies.
        answer["agentCapabilities"].update({"providers": {}, "title": {}, "systemPrompt": {"mode": {}}})
        answer["agentCapabilities"]["sessionCapabilities"].update({"fork": {}, "subagents": {}})
    return answer


def new_session(params):
    # 4: updates for a session before the answer names it.
    update({"sessionUpdate": "available_commands_update", "availableCommands": [
        {"name": f"command-{number}", "description": "x" * 500, **({"type": "command"} if DIALECT == "2" else {})}
        for number in range(360)]})
    if DIALECT == "2":
        # An idle without a turn.
        update({"sessionUpdate": "state_update", "state": "idle"})
    answer = plain_new_session(params)
    # 10: left-over fields. 11: 318 models in one select.
    answer["models"] = {"currentModelId": "m1", "availableModels": [{"modelId": "m1", "name": "M 1"}]}
    model = answer["configOptions"][0]
    model["options"] = [{"value": f"m{number}", "name": f"Model {number}"} for number in range(318)]
    model["currentValue"] = "m7"
    if DIALECT == "1":
        # 11: mode ids that are addresses, options of a type that was not offered.
        answer["modes"] = {"currentModeId": "https://example.org/modes#ask",
                           "availableModes": [{"id": "https://example.org/modes#ask", "name": "Ask"}]}
        answer["configOptions"].append({"id": "fast", "name": "Fast", "type": "boolean", "currentValue": True})
    return answer


def habits_1(prompt):
    # 2: errors without an id, with a null id.
    write(json.dumps({"jsonrpc": "2.0", "error": {"code": -32601, "message": "unknown notification"}}))
    write(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}))
    # 3: our ids start at 0 and overlap the client's: `ask` does that.
    # 6: mode and options at the start of a turn, the prompt itself told again.
    update({"sessionUpdate": "current_mode_update", "currentModeId": "https://example.org/modes#ask"})
    say(agent.text_of(prompt), kind="user_message_chunk")
    # 7: updates and permission for calls that were never announced; one names only the id; one never ends.
    tool("ghost", first=False, status="in_progress", title="A call out of nowhere")
    TOLD["7"] = permission(call={"toolCallId": "unheard-of"})
    # 9: empty chunks that only carry _meta; text in one piece.
    update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": {"qwen": {"usage": 1}}})
    # 11: rawOutput a bare string, a diff without oldText, null results.
    path = os.path.join(state["cwd"], "new.txt")
    tool("bare", title="Bare", name="bare", kind="edit", status="completed", rawOutput="just text",
         content=[{"type": "diff", "path": path, "newText": "new\n"}], locations=None)
    # 12: several options of one kind, ids that mean nothing.
    TOLD["12"] = permission(options=[("cancel", "Yes!", "allow_once"), ("b", "Yes?", "allow_once"),
                                     ("proceed_once", "No", "reject_once")])
    # 13: requests outside the protocol that wait for an answer.
    TOLD["13"] = ask("craft/drainMidTurnQueue", {}).get("error", {}).get("code")
    send({"method": "qwen/notify/session/available", "params": {"x": 1}})
    # 14: a whole shell line as command, kill after the exit.
    made = ask("terminal/create", {"sessionId": SESSION, "command": "echo one && echo two"})
    if "result" in made:
        about = {"sessionId": SESSION, "terminalId": made["result"]["terminalId"]}
        ask("terminal/wait_for_exit", about)
        killed = ask("terminal/kill", about)
        output = ask("terminal/output", about)["result"]["output"]
        ask("terminal/release", about)
        TOLD["14"] = [output, "error" not in killed]
    else:
        TOLD["14"] = made["error"]["code"]
    # 15: the old text is read before a new file is written.
    before = ask("fs/read_text_file", {"sessionId": SESSION, "path": path})
    after = ask("fs/write_text_file", {"sessionId": SESSION, "path": path, "content": "new\n"})
    TOLD["15"] = [before.get("error", {}).get("code", before.get("result")), "ENOENT" in json.dumps(before), "result" in after]
    # 17: a failed call, then a good end all the same. 10: `usage` in the answer (see below).
    tool("bad", title="Bad", kind="execute", status="failed", rawOutput={"error": {"code": 400}})
    # 21: a child that is left behind.
    if "MARK" in os.environ:
        mark = os.environ["MARK"]
        subprocess.Popen(["sh", "-c", f"sleep 600; : {mark}"], start_new_session=True)
    say(json.dumps(TOLD, sort_keys=True))
    # 5: updates after the prompt was answered.
    return "end_turn", lambda: (
        update({"sessionUpdate": "usage_update", "used": 7, "size": 100}),
        update({"sessionUpdate": "session_info_update", "title": "Habits"}),
        update({"sessionUpdate": "available_commands_update", "availableCommands": []}),
    )


def habits_2(prompt):
    # Codex: running and a notice come before anything; a notice with a severity nobody knows.
    update({"sessionUpdate": "notice", "severity": "peculiar", "title": "Just so you know"})
    # Crow: commands without `input.type`.
    update({"sessionUpdate": "available_commands_update", "availableCommands": [
        {"name": "go", "description": "Goes", "input": {"hint": "where"}}]})
    # Terminals before anything refers to them: as chunks, and again as a replacement.
    update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t1", "data": "b25lCg=="})
    update({"sessionUpdate": "terminal_update", "terminalId": "t1", "command": "echo one", "cwd": state["cwd"],
            "output": {"data": "b25lCg=="}, "exitStatus": {}})
    tool("c1", title="Run", kind="execute", status="paused", content=[{"type": "terminal", "terminalId": "t1"}])
    update({"sessionUpdate": "state_update", "state": "requires_action"})
    TOLD["permission"] = permission(subject={"type": "command", "command": "make all", "cwd": state["cwd"]})
    TOLD["unknown subject"] = permission(subject={"type": "_dream", "about": "sheep"})
    update({"sessionUpdate": "state_update", "state": "running", "background": []})
    tool("c1", status="cancelled")
    update({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"})
    # fs methods are not part of version 2.
    TOLD["fs"] = ask("fs/read_text_file", {"sessionId": SESSION, "path": "/etc/hostname"}).get("error", {}).get("code")
    # A message in chunks, then the same as a whole.
    text = json.dumps(TOLD, sort_keys=True)
    say(text[:5], messageId="m1")
    update({"sessionUpdate": "agent_message", "messageId": "m1", "content": [{"type": "text", "text": text}]})
    update({"sessionUpdate": "usage_update", "used": 7, "size": 100})


def prompted(number, params):
    if DIALECT == "2":
        # Codex: running, a notice and the user's words before the prompt is answered.
        update({"sessionUpdate": "state_update", "state": "running"})
        update({"sessionUpdate": "user_message_chunk", "messageId": "u1", "content": params["prompt"][0]})
        send({"id": number, "result": {"messageId": "u1"}})
        habits_2(params["prompt"])
        return update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})
    stop, after = habits_1(params["prompt"])
    # 10: `usage` in the prompt result.
    send({"id": number, "result": {"stopReason": stop, "usage": {"inputTokens": 3}}})
    after()


def leave():
    # 21: not every agent stops at the end of its input.
    import time

    while True:
        time.sleep(1)


plain_initialize, plain_new_session = agent.initialize, agent.new_session
agent.initialize, agent.new_session, agent.prompted = initialize, new_session, prompted
if DIALECT == "1":
    agent.leave = leave
# 8, 16, 19, 20 are about sessions, codes and second prompts: see the tests of `--resume` and of errors.
agent.serve()
