#!/usr/bin/env bash
# test.sh: installs what is missing, builds and installs the extension, and runs every test this machine can run:
# the form of the code, the tests that need no server, and the integration suite of test/ once on each backend
# (local: servers made by initdb; docker: servers in containers). It ends with what ran, what did not and why, and
# the closing lines of go test. It fails when a test failed, or when a backend that SNOWFLAKE_REQUIRE_BACKENDS names
# ("local docker") could not run. TESTFLAGS adds flags to each go test of the suite, such as "-run Clock".
#
# PG=17 runs the suite against that major instead, in containers that docker/ builds. PG=all runs the matrix: the
# local servers, and containers of every major in docker/majors, two at a time.
# shellcheck disable=SC2317 # check calls by name
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

FUZZ_TIME=5s # for each target

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
touch "$results"/{report,rows,skips,failures,lines}

heading() { printf '\n== %s\n' "$*"; }
passed() { echo "ran:     $*" >>"$results/report"; }
broke() { echo "FAILED:  $*" >>"$results/report"; }
left_out() { echo "not run: $*" >>"$results/report"; }

# check WHAT COMMAND... runs one part and notes how it ended.
check() {
    local what=$1
    shift
    heading "$what"
    if "$@"; then passed "$what"; else broke "$what"; fi
}

# run_go_test ARGUMENTS... runs go test, shows a line for each test and what was skipped and why, and after a failure
# all that was said; it keeps that in $output, for who sets it, and the lines that close go test's output.
run_go_test() {
    local output=${output:-$results/output} status=0
    rm -f "$output.failed"
    { "$GO" test -v "$@" 2>&1 || touch "$output.failed"; } | tee "$output" |
        grep --line-buffered -E '^(--- |ok|FAIL|panic:|backend )|^ +--- (FAIL|SKIP)|NOT RUN' |
        sed -u "s/^/${prefix:-}/" || true
    [ ! -e "$output.failed" ] || { status=1 && cat "$output"; }
    grep -E '^(ok|FAIL|--- FAIL|panic:)' "$output" | sed "s/^/${prefix:-}/" >>"$results/lines" || true
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

# integrate_on BACKEND MAJOR SUITE runs the integration suite, or notes why it cannot.
integrate_on() {
    local backend=$1 major=$2 suite=$3 what="integration tests, PostgreSQL $2, backend $1" reason
    reason=$(why_not "$backend")
    if [ -z "$reason" ]; then
        local prefix="$major $backend: " output="$results/$major-$backend" start=$SECONDS
        # shellcheck disable=SC2086 # flags are words
        SNOWFLAKE_TEST_BACKEND=$backend SNOWFLAKE_TEST_PG=$major check "$what" \
            run_go_test -count=1 -p 1 -timeout 30m ${TESTFLAGS:-} "${integrations[@]}"
        sum_up "$output" "$major" "$suite" "$backend" $((SECONDS - start))
    elif [[ " ${SNOWFLAKE_REQUIRE_BACKENDS:-} " == *" $backend "* ]]; then
        broke "$what: it is required, but $reason"
    else
        left_out "$what: $reason"
    fi
}

# sum_up OUTPUT MAJOR SUITE BACKEND SECONDS adds a row to the table, why tests were skipped: what each said last, and
# what those that failed said, but for the logs of their servers.
sum_up() {
    local run passed skipped
    run=$(grep -cE '^--- (PASS|FAIL|SKIP)' "$1" || true)
    passed=$(grep -c '^--- PASS' "$1" || true)
    skipped=$(grep -c '^--- SKIP' "$1" || true)
    printf '%-5s  %-9s  %-7s  %5d  %6d  %6d  %7d  %7s\n' "$2" "$3" "$4" "$run" "$passed" $((run - passed - skipped)) \
        "$skipped" "$(printf '%d:%02d' $(($5 / 60)) $(($5 % 60)))" >>"$results/rows"
    awk -v where="$2 $4" '
        /^=== (RUN|NAME)/ { name = $3 }
        /^ +[a-z_0-9]+\.go:[0-9]+: / { others = /: the log of server /; if (!others) { said[name] = $0; sub(/^ +/, "", said[name]) } }
        /^    / && !/^ *---/ && !others && ++lines[name] <= 60 { all[name] = all[name] "\n" substr($0, 1, 400) }
        /^ *--- SKIP/ { print "skipped on " where ": " $3 ": " said[$3] }
        /^ *--- FAIL/ { print "failed on " where ": " $3 ":" all[$3] >>failures }' failures="$results/failures" "$1" >>"$results/skips"
}

# leave_room_for JOBS waits until fewer than so many parts run.
leave_room_for() { while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n || true; done; }

integrate() {
    local majors=$wanted at_once=1 major suite
    case $wanted in
        "") majors=$PG_MAJOR ;;
        all) majors=$(cut -d' ' -f1 docker/majors) at_once=2 && export SNOWFLAKE_TEST_MATRIX=1 ;;
    esac
    if [[ $wanted =~ ^(all)?$ ]]; then
        # shellcheck disable=SC1091
        integrate_on local "$PG_MAJOR" "$(. /etc/os-release && echo "${VERSION_CODENAME:-$ID}")" &
    fi
    for major in $majors; do
        leave_room_for $at_once
        if suite=$(suite_of "$major"); then
            integrate_on docker "$major" "$suite" &
        else
            left_out "integration tests, PostgreSQL $major, backend docker: docker/majors names no suite for it"
        fi
    done
    wait
}

wanted=${PG:-}
[[ $wanted =~ ^(all)?$ ]] || suite_of "$wanted" >/dev/null ||
    die "PG=$wanted: there are images of these majors: $(cut -d' ' -f1 docker/majors | xargs), and all"
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
cat "$results/report" - "$results/lines" <<<""
if [ -s "$results/rows" ]; then
    printf '\n%-5s  %-9s  %-7s  %5s  %6s  %6s  %7s  %7s\n' major suite backend run passed failed skipped minutes
    sort -n "$results/rows"
    echo
    sort "$results/skips"
    cat "$results/failures"
fi
! grep -q '^FAILED' "$results/report"
