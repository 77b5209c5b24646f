"""Damages a session store that nobody has open: `version N`, `page TABLE`, `row SQL`."""
import sqlite3, sys

path, what, value = sys.argv[1:4]
db = sqlite3.connect(path)
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
if what == "version":
    db.execute(f"PRAGMA user_version = {value}")
elif what == "row":
    if db.execute(value).rowcount < 1:
        sys.exit("no row is like that")
db.commit()
roots = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [value]).fetchall()
db.close()
if what == "page":
    with open(path, "r+b") as file:
        file.seek((roots[0][0] - 1) * 4096)
        file.write(bytes(4096))
