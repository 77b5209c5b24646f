#!/bin/sh
# Builds the driver and the peers as they are published, then runs the driver with the given arguments.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
# Stays in the caller's directory, so that paths in the arguments mean what the caller meant.
build() {
    cargo build --manifest-path "$root/Cargo.toml" --profile dist --quiet -p tieline-bench --no-default-features "$@"
}

# One library at a time: cargo merges the features of everything it builds together.
build --bin bench --bin flood-agent --bin floor-agent --bin floor-client
build --features sdk --bin sdk-agent --bin sdk-client
if [ -f "$here/src/bin/echo-agent.rs" ]; then
    build --features ours --bin echo-agent --bin echo-client
fi

exec "${CARGO_TARGET_DIR:-$root/target}/dist/bench" "$@"
