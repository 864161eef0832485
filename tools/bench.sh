#!/usr/bin/env bash
# bench.sh [FLAGS]: installs what is missing, builds and installs the extension, and measures it: go run ./bench FLAGS.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

tools/needs.sh bench
find_server
find_go
export PG_CONFIG
say "building and installing for $("$PG_CONFIG" --version)"
build_and_install all install
build_and_install variants install-variants
"$GO" run ./bench "$@"
