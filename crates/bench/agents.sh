#!/bin/sh
# Measures `tieline agent` beside another agent: from process start to the answer of `initialize`, and memory when idle.
# The other agents come from npm, into target/agents: AGENTS="opencode-ai @google/gemini-cli" crates/bench/agents.sh
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
agents=${AGENTS-opencode-ai}

cargo build --manifest-path "$root/Cargo.toml" --profile dist --quiet -p tieline-cli
mkdir -p "$target/agents"
if [ -n "$agents" ]; then
    # shellcheck disable=SC2086
    npm install --prefix "$target/agents" --no-audit --no-fund --loglevel=error $agents
fi

exec python3 - "$target" <<'PY'
import json, os, select, signal, statistics, subprocess, sys, tempfile, time

target = sys.argv[1]
bin = os.path.join(target, "agents", "node_modules", ".bin")
AGENTS = [
    ("tieline agent", [os.path.join(target, "dist", "tieline"), "agent"], 20),
    ("opencode acp", [os.path.join(bin, "opencode"), "acp"], 3),
    ("gemini --acp", [os.path.join(bin, "gemini"), "--acp"], 3),
]
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}
DEADLINE, SETTLE = 60, 2


def tree(root):
    """The process and everything below it."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo.extend(pid for pid, parent in parents.items() if parent == found[-1])
    return found


def memory(pid, field):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(field + ":")) / 1024


def measure(command):
    """Milliseconds to the answer; then, when it is idle, MiB resident, and its share of shared pages counted once."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_STATE_HOME": home, "XDG_CONFIG_HOME": home}
        start = time.perf_counter()
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                 env=env, cwd=home, start_new_session=True)
        try:
            agent.stdin.write(json.dumps(HELLO).encode() + b"\n")
            agent.stdin.flush()
            buffer = b""
            while True:
                line, end, rest = buffer.partition(b"\n")
                if end:
                    buffer = rest
                    try:
                        answer = json.loads(line)
                    except ValueError:
                        continue
                    if answer.get("id") == 0 and "method" not in answer:
                        if "result" not in answer:
                            raise RuntimeError(f"refused: {answer}")
                        break
                    continue
                left = start + DEADLINE - time.perf_counter()
                if left <= 0 or not select.select([agent.stdout], [], [], left)[0]:
                    raise RuntimeError(f"no answer in {DEADLINE} s")
                news = os.read(agent.stdout.fileno(), 65536)
                if not news:
                    raise RuntimeError("ended without an answer")
                buffer += news
            took = (time.perf_counter() - start) * 1000
            time.sleep(SETTLE)
            pids = tree(agent.pid)
            return took, sum(memory(pid, "Rss") for pid in pids), sum(memory(pid, "Pss") for pid in pids)
        finally:
            for pid in reversed(tree(agent.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            agent.wait()


print("| agent | version | starts | initialize, ms: median | best | idle, MiB resident | proportional |")
print("|---|---|---:|---:|---:|---:|---:|")
for name, command, starts in AGENTS:
    if not os.path.exists(command[0]):
        continue
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, timeout=DEADLINE).stdout.split()
    try:
        runs = [measure(command) for _ in range(starts)]
    except RuntimeError as error:
        print(f"| {name} | {version[-1] if version else '?'} | {error} |")
        continue
    times, resident, share = zip(*runs)
    print(f"| `{name}` | {version[-1] if version else '?'} | {starts} | {statistics.median(times):.1f} | {min(times):.1f} "
          f"| {statistics.median(resident):.1f} | {statistics.median(share):.1f} |", flush=True)
PY
