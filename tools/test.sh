#!/usr/bin/env bash
# test.sh: installs what is missing, builds and installs the extension, and runs every test this machine can run:
# the form of the code, the tests that need no server, and the integration suite of test/ once on each backend
# (local: servers made by initdb; docker: servers in containers). It ends with what ran, what did not and why, and
# the closing lines of go test. It fails when a test failed, or when a backend that SNOWFLAKE_REQUIRE_BACKENDS names
# ("local docker") could not run. TESTFLAGS adds flags to each go test of the suite, such as "-run Clock".
#
# PG=17 runs the suite against that major instead, in containers that docker/ builds; PG=all against every major
# that there are images of.
# shellcheck disable=SC2317 # check calls by name
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

FUZZ_TIME=5s # for each target

report=()
failed=0
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

heading() { printf '\n== %s\n' "$*"; }
passed() { report+=("ran:     $*"); }
broke() { report+=("FAILED:  $*") failed=1; }
left_out() { report+=("not run: $*"); }

# check WHAT COMMAND... runs one part and notes how it ended.
check() {
    local what=$1
    shift
    heading "$what"
    if "$@"; then passed "$what"; else broke "$what"; fi
}

# run_go_test ARGUMENTS... runs go test, shows a line for each test and what was skipped and why, and after a failure
# all that was said; it keeps the lines that close go test's output.
run_go_test() {
    local output status=0
    output=$(mktemp)
    { "$GO" test -v "$@" 2>&1 || touch "$output.failed"; } | tee "$output" |
        grep --line-buffered -E '^(--- |ok|FAIL|panic:|backend )|^ +--- (FAIL|SKIP)|NOT RUN' || true
    [ ! -e "$output.failed" ] || { status=1 && cat "$output"; }
    grep -E '^(ok|FAIL|--- FAIL|--- SKIP|panic:)' "$output" >>"$lines" || true
    rm -f "$output" "$output.failed"
    return "$status"
}

formatted() {
    local bad
    bad=$(find . -name '*.go' -not -path './build/*' -exec gofmt -l {} +)
    [ -z "$bad" ] || { printf 'gofmt would change:\n%s\n' "$bad" && return 1; }
}

fuzz() {
    local package target
    for package in "${units[@]}"; do
        for target in $("$GO" test -list '^Fuzz' "$package" | grep '^Fuzz'); do
            echo "$target"
            run_go_test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZ_TIME" "$package" || return 1
        done
    done
}

# why_not BACKEND prints why it cannot run here; nothing when it can.
why_not() {
    case $1 in
        local) server_has initdb || echo "there is no server in $("$PG_CONFIG" --bindir)" ;;
        docker)
            command -v docker >/dev/null || { echo "docker is not installed" && return; }
            docker info >/dev/null 2>&1 || echo "docker info fails: $(docker info 2>&1 | grep -m 1 -iE 'error|cannot|denied')"
            ;;
    esac
}

# integrate_on BACKEND WHAT runs the suite on a backend, or notes why it cannot.
integrate_on() {
    local backend=$1 what=$2 reason
    reason=$(why_not "$backend")
    if [ -z "$reason" ]; then
        # shellcheck disable=SC2086 # flags are words
        SNOWFLAKE_TEST_BACKEND=$backend check "$what" \
            run_go_test -count=1 -p 1 -timeout 30m ${TESTFLAGS:-} "${integrations[@]}"
    elif [[ " ${SNOWFLAKE_REQUIRE_BACKENDS:-} " == *" $backend "* ]]; then
        broke "$what: it is required, but $reason"
    else
        left_out "$what: $reason"
    fi
}

integrate() {
    local major
    for major in $majors; do
        SNOWFLAKE_TEST_PG=$major integrate_on docker "integration tests, PostgreSQL $major in containers"
    done
    [ -n "$majors" ] || integrate_on local "integration tests, backend local"
    [ -n "$majors" ] || integrate_on docker "integration tests, backend docker"
}

majors=${PG:-}
[ "$majors" != all ] || majors="13 15 17 18"
unset PG # the machine's own server stays the one that is built for here
tools/needs.sh test
find_server
find_go
export PG_CONFIG
heading "building and installing for $("$PG_CONFIG" --version)"
build_and_install all install
build_and_install variants install-variants

mapfile -t integrations < <("$GO" list ./test/...)
mapfile -t units < <("$GO" list ./... | grep -v '/test\(/\|$\)')
check "go vet" "$GO" vet ./...
check "gofmt" formatted
check "unit tests" run_go_test -timeout 10m "${units[@]}"
check "fuzzing, $FUZZ_TIME each" fuzz
integrate

heading "what ran"
printf '%s\n' "${report[@]}"
printf '\n'
cat "$lines"
exit "$failed"
