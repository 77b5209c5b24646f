"""What a real agent would not bear from a client. A scripted agent that is kind hides a client's mistakes, so the first one ends it.

Only what depends on what came before: the shape of each message is judged elsewhere, by the published schemas.
"""
import os
import sys
from collections import Counter

STATUS = 70
# Each with the key of what must be there beside the session.
OF_A_SESSION = {"session/prompt": "prompt", "session/set_mode": "modeId", "session/set_config_option": "configId",
                "session/set_model": "modelId", "session/close": None, "session/cancel": None}
CAPABILITY_OF = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
NOT_IN = {"1": {"auth/login", "auth/logout"}, "2": {"authenticate", "logout", "session/load", "session/set_mode", "session/set_model"}}


class Strict:
    def __init__(self, dialect):
        self.dialect = dialect
        self.hello = None
        self.open = {}
        self.asked = Counter()
        self.questions = {}
        self.sessions, self.prompting = set(), set()

    def broken(self, why, message):
        sys.stderr.write(f"strict agent: {why}: {str(message)[:300]}\n")
        sys.stderr.flush()
        os._exit(STATUS)

    def came(self, message):
        """Judges what the client sent."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return self.broken("no JSON-RPC 2.0", message)
        if "method" not in message:
            return self.answered(message)
        method, number, params = message["method"], message.get("id"), message.get("params") or {}
        if number is None:
            if method != "session/cancel" and not method.startswith(("$/", "_")):
                self.broken("an unknown notification", message)
            if method == "session/cancel":
                # Whoever cancels answers what is still asked with `cancelled`.
                for question in self.questions.values():
                    question["cancelled"] |= question["session"] == params.get("sessionId")
            return
        if number in self.open:
            self.broken("an id that is in use", message)
        if method in NOT_IN.get(self.dialect, ()):
            self.broken(f"not a method of dialect {self.dialect}", message)
        if method == "initialize":
            if self.hello is not None:
                self.broken("a second initialize", message)
        elif self.hello is None:
            self.broken("before initialize was answered", message)
        if method in ("session/new", "session/load", "session/resume"):
            if not os.path.isabs(params.get("cwd", "")):
                self.broken("cwd is not absolute", message)
            if self.dialect != "2" and method != "session/resume" and not isinstance(params.get("mcpServers"), list):
                self.broken("no list of MCP servers", message)
        if method in OF_A_SESSION:
            if params.get("sessionId") not in self.sessions:
                self.broken("a session that is not open", message)
            key = OF_A_SESSION[method]
            if key and key not in params:
                self.broken(f"`{key}` is missing", message)
        if method == "session/prompt":
            self.prompt(params, message)
        self.open[number] = (method, params)

    def prompt(self, params, message):
        if not params["prompt"]:
            self.broken("an empty prompt", message)
        if self.dialect != "2" and params["sessionId"] in self.prompting:
            self.broken("a prompt while one is answered", message)
        self.prompting.add(params["sessionId"])
        for block in params["prompt"]:
            wants = CAPABILITY_OF.get(block["type"])
            if wants and not self.can(wants):
                self.broken(f"content that was not offered: {wants}", message)

    def can(self, what):
        if self.dialect == "1":
            return (self.hello.get("agentCapabilities") or {}).get("promptCapabilities", {}).get(what)
        session = (self.hello.get("capabilities") or {}).get("session") or {}
        return (session.get("prompt") or {}).get(what) is not None

    def answered(self, message):
        number = message.get("id")
        if number is None and "error" in message:
            return
        if not self.asked[number]:
            self.broken("an answer to nothing", message)
        self.asked[number] -= 1
        if ("result" in message) == ("error" in message):
            self.broken("neither an answer nor an error, or both", message)
        question = self.questions.pop(number, None)
        if question and "result" in message:
            outcome = (message["result"] or {}).get("outcome") or {}
            if outcome.get("outcome") == "selected":
                if question["cancelled"]:
                    self.broken("an option chosen after the cancel", message)
                if outcome.get("optionId") not in question["options"]:
                    self.broken("an option that was not offered", message)
            elif outcome.get("outcome") != "cancelled":
                self.broken("no outcome", message)

    def sent(self, message):
        """Takes note of what the agent itself sent."""
        if not isinstance(message, dict):
            return
        number, params = message.get("id"), message.get("params") or {}
        if "method" in message and number is not None:
            self.asked[number] += 1
            if message["method"] == "session/request_permission":
                options = [option.get("optionId") for option in params.get("options", [])]
                self.questions[number] = {"session": params.get("sessionId"), "options": options, "cancelled": False}
        elif "method" in message:
            body = params.get("update") or {}
            if body.get("sessionUpdate") == "state_update" and body.get("state") == "idle":
                self.prompting.discard(params.get("sessionId"))
        elif number in self.open:
            method, asked = self.open.pop(number)
            failed = "error" in message
            if method == "session/prompt" and (self.dialect != "2" or failed):
                self.prompting.discard(asked["sessionId"])
            if failed:
                return
            # Some agents answer with `null` where there is nothing to tell.
            result = message.get("result") or {}
            if method == "initialize":
                self.hello = result
            elif method in ("session/new", "session/load", "session/resume"):
                self.sessions.add(result.get("sessionId") or asked.get("sessionId"))
            elif method == "session/close":
                self.sessions.discard(asked["sessionId"])
