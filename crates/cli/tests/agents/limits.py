#!/usr/bin/env python3
"""A scripted agent that spends, calls, falls silent, answers in JSON or breaks the protocol; see agent.py for the words."""
import agent
from agent import ARGUMENTS, incoming, say, shown, state, tool, turn, update
import json
import time


def usage(used, amount=None, currency="USD"):
    cost = {} if amount is None else {"cost": {"amount": amount, "currency": currency}}
    update({"sessionUpdate": "usage_update", "used": used, "size": 200000, **cost})


def until_cancelled():
    while not state["cancelled"]:
        incoming()
    say(", stopped")
    return "cancelled"


@turn
def spends(prompt):
    """One usage after the other, each word of the arguments as tokens:amount; then waits for the cancel, if it is to."""
    say("spending")
    for word in ARGUMENTS[0].split(","):
        used, _, amount = word.partition(":")
        usage(int(used), float(amount) if amount else None)
    if "waits" in ARGUMENTS:
        return until_cancelled()


@turn
def spends_late(prompt):
    say("all of it")
    return "end_turn", lambda: usage(900, 0.9)


@turn
def calls(prompt):
    for number in range(int(ARGUMENTS[0])):
        tool(f"c{number}", title="Look", kind="read", status="in_progress")
        tool(f"c{number}", first=False, status="completed")
    if "waits" in ARGUMENTS:
        return until_cancelled()


@turn
def silent(prompt):
    say("thinking")
    return until_cancelled()


@turn
def slow(prompt):
    """A sign from time to time is enough."""
    for number in range(8):
        time.sleep(1)
        say(f"{number} ")


@turn
def long_command(prompt):
    made = agent.ask("terminal/create", {"sessionId": agent.SESSION, "command": "sleep", "args": ["9"]})
    about = {"sessionId": agent.SESSION, "terminalId": made["result"]["terminalId"]}
    say(shown(agent.ask("terminal/wait_for_exit", about)["result"]))


@turn
def answers(prompt):
    """Says each word as a message of its own."""
    for number, word in enumerate(ARGUMENTS):
        if number:
            tool(f"c{number}", title="Look", kind="read", status="completed")
        say(word, **({} if agent.DIALECT == "1" else {"messageId": f"m{number}"}))


@turn
def breaks(prompt):
    """Breaks the protocol in one way."""
    say("before")
    way = ARGUMENTS[0]
    if way == "line":
        agent.write("npm WARN deprecated")
    elif way == "kind":
        update({"sessionUpdate": "weather_report", "sunny": True})
    elif way == "field":
        update({"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": 7, "status": "completed"})
    elif way == "params":
        agent.send({"method": "session/update", "params": {"update": {}}})
    elif way == "method":
        agent.send({"method": "session/no_such_thing", "params": {}})
    elif way == "version":
        agent.write(json.dumps({"method": "session/update", "params": {"sessionId": agent.SESSION, "update": {
            "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": "."}}}}))
    elif way == "answer":
        agent.send({"id": 4711, "result": {}})
    elif way == "id":
        agent.send({"id": 7, "method": "session/update", "params": {"sessionId": agent.SESSION, "update": {
            "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": "."}}}})
    elif way == "many":
        for _ in range(100):
            update({"sessionUpdate": "weather_report", "sunny": True})
    elif way == "long":
        agent.write('{"jsonrpc": "2.0", "method": "session/update", "params": {"x": "' + "x" * (65 << 20) + '"}}')
    elif way == "batch":
        agent.write(json.dumps([{"jsonrpc": "2.0", "method": "session/update", "params": {}}] * 1001))
    elif way == "half":
        agent.write(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": agent.SESSION, "update": {
            "sessionUpdate": "agent_message_chunk", "messageId": "a1", "content": {"type": "text", "text": "<@>"}}}}).replace("@", "\\ud83d"))
    elif way == "entries":
        update({"sessionUpdate": "available_commands_update", "availableCommands": [0] * (1 << 18)})
    elif way == "deep":
        agent.write('{"jsonrpc": "2.0", "method": "session/update", "params": {"x": ' + "[" * 200 + "]" * 200 + "}}")
    elif way == "whole":
        update({"sessionUpdate": "session_info_update", "_meta": {"x": "y" * (9 << 20)}})
    elif way == "part":
        agent.tool("c1", title="Big", kind="read", status="completed",
                   content=[{"type": "content", "content": {"type": "text", "text": "y" * (9 << 20)}}])
    elif way == "content":
        update({"sessionUpdate": "agent_message_chunk", "content": 7})
    elif way == "elsewhere":
        update({"sessionUpdate": "agent_message_chunk", "messageId": "a", "content": {"type": "text", "text": "x"}}, session="other")
    elif way == "thousands":
        for number in range(20_000):
            agent.send({"method": f"no\x1b[2J/{number}", "params": {}})
    elif way == "extension":
        agent.send({"method": "_mine/note", "params": {"anything": 1}})
        agent.send({"method": "$/whatever", "params": {}})
    say("after")


@turn
def thinks(prompt):
    say("first thou", kind="agent_thought_chunk")
    say("ght\n\x1b[2Jsecond", kind="agent_thought_chunk")
    path = "/nowhere/a.txt"
    tool("c1", title="Edit it", kind="edit", status="completed", content=[agent.diff(path, "old", "new")])
    agent.TURNS["plan"](prompt)
    usage(5, 0.5)
    say("the answer")


if __name__ == "__main__":
    agent.serve()
