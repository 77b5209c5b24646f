#!/usr/bin/env python3
"""An agent with the bad habits of real ones: habits.py HABITS [DIALECT [WORD...]].

HABITS are their numbers in version 1, or the names of those of version 2, with commas between; `all` are those that fit into one
good turn. What the client did with them is told as text at the end: a JSON object, habit by habit. A word says which of several
forms a habit takes.
"""
import fcntl
import json
import os
import subprocess
import sys
import time

WANTED, WORDS = sys.argv[1].split(","), sys.argv[3:]
sys.argv[1:] = ["habits", *sys.argv[2:]]
import agent  # noqa: E402
from agent import DIALECT, SESSION, Answer, ask, incoming, permission, say, send, state, tool, update, write  # noqa: E402

# These end the turn badly, or not at all, or are about more than one turn.
ALONE = {"16", "17", "19", "20", "cancel", "error", "reason"}
# Version 2 has neither files nor terminals of the client's.
ONLY_1 = {"14", "15"}
ONLY_2 = {"codex", "crow", "claude", "subject", "option", "cancel", "error"}
TOLD, PLAYED = {}, {}


def habit(number, place="turn"):
    """Plays a part of a habit at a place."""
    def add(run):
        PLAYED.setdefault(place, []).append((number, run))
        return run
    return add


def wanted(number):
    if WANTED == ["all"]:
        return number not in ALONE and not (number in ONLY_1 and DIALECT != "1") and not (number in ONLY_2 and DIALECT != "2")
    return number in WANTED


def play(place, *arguments):
    for number, run in PLAYED.get(place, []):
        if wanted(number):
            run(*arguments)


def path(name):
    return os.path.join(state["cwd"], name)


# Lines and ids

@habit("1", "hello")
def text_before_anything():
    write("Loading plugins, please wait...\r")
    write("")


@habit("1")
def text_in_the_turn(prompt, number):
    write("\x1b[33mwarn\x1b[0m: \x1b[2Jsomething is deprecated")
    write("")
    write("\r")


@habit("2", "hello")
def an_error_for_nobody():
    write(json.dumps({"jsonrpc": "2.0", "error": {"code": -32601, "message": "unknown notification"}}))


@habit("2")
def errors_without_an_id(prompt, number):
    write(json.dumps({"jsonrpc": "2.0", "error": {"code": -32601, "message": "unknown notification"}}))
    write(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}))


@habit("3")
def the_same_ids(prompt, number):
    # Until one of ours was the id of the prompt that is open.
    last = number if isinstance(number, int) else 10
    TOLD["3"] = []
    while state["next"] <= last:
        TOLD["3"].append(ask("_mine/ping", {})["error"]["code"])


# Order

@habit("4", "hello")
def news_before_any_session():
    send({"method": "_auth/status_update", "params": {"status": "ok"}})


@habit("4", "session")
def updates_before_the_session_has_a_name(answer):
    update({"sessionUpdate": "available_commands_update", "availableCommands": [command("early")]})
    update({"sessionUpdate": "usage_update", "used": 1, "size": 100})
    say("too early")


@habit("5", "after")
def updates_behind_the_answer():
    update({"sessionUpdate": "usage_update", "used": 7, "size": 100})
    update({"sessionUpdate": "session_info_update", "title": "Habits"})
    update({"sessionUpdate": "available_commands_update", "availableCommands": []})


@habit("6")
def everything_again(prompt, number):
    if DIALECT == "1":
        update({"sessionUpdate": "current_mode_update", "currentModeId": "https://example.org/modes#ask"})
    update({"sessionUpdate": "config_option_update", "configOptions": agent.options()})
    say(agent.text_of(prompt), kind="user_message_chunk", **({} if DIALECT == "1" else {"messageId": "u9"}))


@habit("7")
def calls_out_of_nowhere(prompt, number):
    tool("ghost", first=False, status="in_progress", title="A call out of nowhere")
    TOLD["7"] = permission(call={"toolCallId": "unheard-of"})
    tool("unheard-of", first=False, title="Heard of late", status="completed")
    # And one that never ends.
    tool("endless", title="An endless one", kind="read", status="in_progress")


@habit("8", "load")
def a_history_behind_the_answer():
    say("what was said long ago", kind="user_message_chunk", **({} if DIALECT == "1" else {"messageId": "u0"}))
    say("and what was answered", **({} if DIALECT == "1" else {"messageId": "a0"}))
    tool("old", title="An old call", kind="read", status="completed")


@habit("9")
def text_in_one_piece(prompt, number):
    update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": {"qwen": {"usage": 1}},
            **({} if DIALECT == "1" else {"messageId": "a1"})})


# Shape

@habit("10", "capabilities")
def capabilities_nobody_knows(answer):
    if DIALECT == "1":
        answer["agentCapabilities"].update({"providers": {}, "title": {}, "systemPrompt": {"mode": {}}})
        answer["agentCapabilities"]["sessionCapabilities"].update({"fork": {}, "subagents": {}})
    else:
        answer["capabilities"].update({"providers": {}, "systemPrompt": {"mode": {}}})
        answer["capabilities"]["session"].update({"fork": {}, "subagents": {}})


@habit("10", "session")
def fields_nobody_knows(answer):
    answer["models"] = {"currentModelId": "m1", "availableModels": [{"modelId": "m1", "name": "M 1"}]}
    answer["sessionId"] = SESSION


@habit("10")
def calls_with_a_name(prompt, number):
    tool("named", title="Named", name="mcp__named", kind="read", status="completed", cost={"usd": 1})


@habit("10", "end")
def usage_in_the_answer(result):
    result.update({"usage": {"inputTokens": 3}, "models": None})


def command(name, size=1):
    return {"name": name, "description": "x" * size, **({"type": "command"} if DIALECT == "2" else {})}


@habit("11", "session")
def lists_without_end(answer):
    update({"sessionUpdate": "available_commands_update", "availableCommands": [command(f"command-{n}", 500) for n in range(360)]})
    model = answer["configOptions"][0]
    model["options"] = [{"value": f"m{number}", "name": f"Model {number}"} for number in range(318)]
    model["currentValue"] = "m7"
    if DIALECT == "1":
        answer["modes"] = {"currentModeId": "https://example.org/modes#ask",
                           "availableModes": [{"id": "https://example.org/modes#ask", "name": "Ask"}]}
        answer["configOptions"].append({"id": "quick", "name": "Quick", "type": "boolean", "currentValue": True})


@habit("11")
def odd_outputs(prompt, number):
    tool("bare", title="Bare", kind="edit", status="completed", rawOutput="just text", locations=None,
         content=[{"type": "diff", "path": path("new.txt"), "newText": "new\n"}] if DIALECT != "2" else None)
    tool("raw", title="Raw", kind="execute", status="completed", rawOutput={"stdout": "only here"}, content=[])


@habit("12")
def options_of_one_kind(prompt, number):
    TOLD["12"] = permission(options=[("cancel", "Yes!", "allow_once"), ("b", "Yes?", "allow_once"),
                                     ("proceed_once", "No", "reject_once")])


@habit("13")
def requests_outside_the_protocol(prompt, number):
    TOLD["13"] = ask("craft/drainMidTurnQueue", {}).get("error", {}).get("code")
    send({"method": "qwen/notify/session/available", "params": {"x": 1}})


@habit("14")
def a_shell_line_as_command(prompt, number):
    made = ask("terminal/create", {"sessionId": SESSION, "command": "echo one && echo two"})
    if "error" in made:
        TOLD["14"] = made["error"]["code"]
        return
    about = {"sessionId": SESSION, "terminalId": made["result"]["terminalId"]}
    ask("terminal/wait_for_exit", about)
    killed = ask("terminal/kill", about)
    output = ask("terminal/output", about)["result"]["output"]
    ask("terminal/release", about)
    TOLD["14"] = [output, "error" not in killed]


@habit("15")
def a_look_before_a_file_is_made(prompt, number):
    about = {"sessionId": SESSION, "path": path("new.txt")}
    before = ask("fs/read_text_file", about)
    after = ask("fs/write_text_file", {**about, "content": "new\n"})
    TOLD["15"] = [before.get("error", {}).get("code", before.get("result")), "ENOENT" in json.dumps(before), "result" in after]


@habit("16")
def codes_of_their_own(prompt, number):
    raise Answer(int(WORDS[0]), json.dumps({"error": {"code": 400, "message": "API key not valid"}}))


@habit("16", "take up")
def codes_for_sessions_nobody_knows():
    if WORDS[0] != "accepted":
        raise Answer(int(WORDS[0]), "no such thing")


@habit("17")
def a_model_that_failed(prompt, number):
    if WORDS[0] == "error":
        raise Answer(-32603, "the model can't be reached")
    if WORDS[0] == "text":
        say("Error: the model can't be reached")
    if WORDS[0] == "rejected":
        tool("c1", title="Do it", kind="execute", status="pending")
        permission()
        tool("c1", first=False, status="failed", rawOutput={"error": {"code": 400}})
    TOLD["stop"] = WORDS[1] if len(WORDS) > 1 else "end_turn"


@habit("18", "capabilities")
def capabilities_that_are_lies(answer):
    if DIALECT == "1":
        answer["agentCapabilities"]["sessionCapabilities"].update({"close": {}, "resume": {}})


@habit("18", "ask")
def methods_that_are_not_there(method):
    if method in ("session/close", "session/resume") and (method, DIALECT) != ("session/resume", "2"):
        raise Answer(-32601, "Method not found")
    if method == "session/set_config_option":
        # Not a word about the options.
        state["answer"] = {}


@habit("19")
def a_second_prompt(prompt, number):
    form = WORDS[0]
    say("working; ")
    second = None
    while second is None and form in ("queued", "refused", "never"):
        message = incoming()
        if message.get("method") == "session/prompt":
            second = message["id"]
    if form == "refused":
        send({"id": second, "error": {"code": -32600, "message": "a prompt is running"}})
    if form == "queued":
        send({"id": second, "result": {"messageId": "u2"}})
    if form == "errors":
        raise Answer(-32603, "another prompt came")
    if form == "cancels":
        TOLD["stop"] = "cancelled"


def lock():
    """A lock that ends with us (`process`), or only with the session (`session`)."""
    file = open(os.path.join(os.environ["AGENT_STATE"], SESSION), "a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    file.seek(0)
    if WORDS[0] == "session":
        if file.read():
            return False
        file.write("held")
        file.flush()
    state["lock"] = file
    return True


@habit("20", "session")
def a_session_is_locked(answer):
    lock()


@habit("20", "take up")
def a_session_that_another_has():
    if WORDS[0] == "fresh" and not os.path.exists(os.path.join(os.environ["AGENT_STATE"], "prompted")):
        raise Answer(-32002, "Resource not found")
    if not lock():
        raise Answer(-32003, f"Session {SESSION} is in use by another process")


@habit("20")
def a_session_is_kept_from_its_first_prompt(prompt, number):
    open(os.path.join(os.environ["AGENT_STATE"], "prompted"), "w").close()


@habit("20", "ask")
def a_lock_is_let_go(method):
    if method == "session/close" and "lock" in state:
        state["lock"].truncate(0)
        state["lock"].close()


@habit("21")
def a_child_is_left_behind(prompt, number):
    if "MARK" in os.environ:
        subprocess.Popen(["sh", "-c", f"sleep 600; : {os.environ['MARK']}"], start_new_session=True)


@habit("21", "leave")
def the_end_of_input_is_no_end():
    while True:
        time.sleep(1)


# Version 2

@habit("codex", "asked")
def codex_works_before_it_answers(prompt):
    update({"sessionUpdate": "state_update", "state": "running"})
    update({"sessionUpdate": "notice", "severity": "peculiar", "title": "Just so you know"})
    update({"sessionUpdate": "user_message_chunk", "messageId": "u1", "content": prompt[0]})


@habit("codex")
def codex_tells_terminals_in_chunks(prompt, number):
    update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t1", "data": "Y2h1bmsK"})
    update({"sessionUpdate": "terminal_update", "terminalId": "t1", "command": "echo chunk", "cwd": state["cwd"], "exitStatus": {}})


@habit("crow", "session")
def crow_is_idle_before_there_is_a_session(answer):
    update({"sessionUpdate": "state_update", "state": "idle"})
    update({"sessionUpdate": "available_commands_update", "availableCommands": [
        {"name": "go", "description": "Goes", "input": {"hint": "where"}}]})


@habit("crow")
def crow_tells_terminals_twice(prompt, number):
    update({"sessionUpdate": "terminal_output_chunk", "terminalId": "t2", "data": "b25lCg=="})
    update({"sessionUpdate": "terminal_update", "terminalId": "t2", "command": "echo one", "cwd": state["cwd"],
            "output": {"data": "b25lCg=="}, "exitStatus": {}})
    tool("c1", title="Run", kind="execute", status="paused", content=[{"type": "terminal", "terminalId": "t2"}])
    tool("c1", status="cancelled")


@habit("claude")
def claude_tells_everything_at_once(prompt, number):
    update({"sessionUpdate": "terminal_update", "terminalId": "t3", "command": "echo whole", "cwd": state["cwd"],
            "output": {"data": "d2hvbGUK"}, "exitStatus": {"exitCode": 0}})
    say("half a ", messageId="m1")
    text = [{"type": "text", "text": word} for word in ("three ", "parts")]
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    update({"sessionUpdate": "agent_message", "messageId": "m1", "content": [text[0], link, text[1]]})
    say("taken back", messageId="m2")
    update({"sessionUpdate": "agent_message", "messageId": "m2", "content": None})
    update({"sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed"})


@habit("subject")
def questions_about_anything(prompt, number):
    update({"sessionUpdate": "state_update", "state": "requires_action"})
    TOLD["command"] = permission(subject={"type": "command", "command": "make all", "cwd": state["cwd"]})
    TOLD["subject"] = permission(subject={"type": "_dream", "about": "sheep"})
    update({"sessionUpdate": "state_update", "state": "running", "background": []})


@habit("option", "ask")
def options_only_by_id(method):
    if method == "session/set_config_option" and state["params"].get("type") != "id":
        raise Answer(-32602, "Invalid params")


@habit("cancel")
def a_cancel_that_takes_its_time(prompt, number):
    say("working; ")
    while not state["cancelled"]:
        incoming()
    update({"sessionUpdate": "usage_update", "used": 9, "size": 100})
    say("and gone")
    TOLD["stop"] = "cancelled"


@habit("error")
def an_end_that_is_an_error(prompt, number):
    say("so far; ")
    raise Answer(-32000 - int(WORDS[0]), "the model is overloaded")


@habit("reason", "end")
def an_answer_without_a_reason(result):
    result.clear()


# The agent

def initialize(params):
    play("hello")
    answer = plain["initialize"](params)
    play("capabilities", answer)
    return answer


def new_session(params):
    answer = plain["new_session"](params)
    play("session", answer)
    return answer


def old_session(params):
    play("take up")
    state["cwd"] = params["cwd"]
    state["after"] = lambda: play("load")
    # 11: nothing at all is an answer, too. 10: the id once more.
    return None if wanted("11") else {"sessionId": SESSION, "configOptions": agent.options()} if wanted("10") else {}


def asked(method, params):
    """A request that is not about the beginning or a prompt."""
    state["params"], state["answer"] = params, None if wanted("11") else {"configOptions": agent.options()}
    play("ask", method)
    return state.pop("answer")


def prompted(number, params):
    prompt = params["prompt"]
    early = DIALECT == "2" and wanted("codex")
    if early:
        play("asked", prompt)
    if DIALECT == "2":
        send({"id": number, "result": {"messageId": "u1"}})
    if DIALECT == "2" and not early:
        update({"sessionUpdate": "user_message", "messageId": "u1", "content": prompt})
        update({"sessionUpdate": "state_update", "state": "running"})
    result, error, stop = {}, None, "end_turn"
    try:
        play("turn", prompt, number)
        stop = TOLD.pop("stop", stop)
        if not wanted("17") and stop == "end_turn":
            say(json.dumps(TOLD, sort_keys=True), **({} if DIALECT == "1" else {"messageId": "told"}))
        result["stopReason"] = stop
        play("end", result)
    except Answer as answer:
        error, stop = answer.error, "error"
    if DIALECT == "2":
        update({"sessionUpdate": "state_update", "state": "idle", "stopReason": stop, **({"error": error} if error else {})})
    else:
        send({"id": number, **({"error": error} if error else {"result": result})})
    play("after")


def leave():
    play("leave")
    sys.exit(0)


plain = {"initialize": agent.initialize, "new_session": agent.new_session}
agent.initialize, agent.new_session, agent.old_session = initialize, new_session, old_session
agent.prompted, agent.asked, agent.leave = prompted, asked, leave
agent.serve()
