"""Rewrites the messages in the store of the coding agent as the version before wrote them; --spoil makes them unreadable."""
import json, pathlib, sqlite3, struct, sys, zlib

store = next(pathlib.Path(sys.argv[1]).rglob("store.db"))
spoil = "--spoil" in sys.argv
db = sqlite3.connect(store)
changed = 0
for rowid, seq, turn, body in db.execute("SELECT id, seq, turn, body FROM event WHERE kind = 'model'").fetchall():
    line = json.loads(body)
    if spoil:
        line["role"] = "nobody"
    elif line["role"] == "assistant":
        for field in ("text", "thought"):
            line.setdefault(field, "")
        line.setdefault("calls", [])
    body = json.dumps(line)
    crc = zlib.crc32(struct.pack("<QQ", seq, turn) + b"model\0" + body.encode())
    db.execute("UPDATE event SET body = ?, crc = ? WHERE id = ?", (body, crc, rowid))
    changed += 1
db.execute("UPDATE session SET options = NULL")
db.execute("DELETE FROM card")
db.commit()
sys.exit(0 if changed else "there is no message in the store")
