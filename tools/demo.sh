#!/usr/bin/env bash
# demo.sh [stop]: builds and installs the extension, starts a private server and shows what the extension does.
# The server listens on a unix socket alone. Its folder is .demo/server in this repository where the server's user
# can work there, else one in the folder for temporary files; .demo/folder says which, .demo/pg_config whose server
# it is. A second run begins anew. "stop" ends the server and removes its folder.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

SESSIONS=8 ROWS_OF_EACH=12500
LONGEST_SOCKET=107 # bytes that Linux has for the path of a socket, less the final zero

# Headings stand out where somebody watches.
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

# The server

pg_ctl() { as_server "$("$PG_CONFIG" --bindir)/pg_ctl" -s -w -D "$folder/data" "$@"; }
psql() { "$("$PG_CONFIG" --bindir)/psql" -X -v ON_ERROR_STOP=1 -P pager=off -h "$folder" -U postgres "$@"; }

# new_folder sets folder to a new folder of the server's user, with a path short enough for a socket.
new_folder() {
    mkdir -p .demo
    folder=$PWD/.demo/server
    mkdir -m 700 "$folder"
    give_to_server
    if ! is_usable; then
        rmdir "$folder"
        folder=$(mktemp -d "${TMPDIR:-/tmp}/snowflake-demo.XXXXXX")
        give_to_server
        is_usable || die "the server cannot work in $folder: set TMPDIR to a folder with a short path that all may enter"
    fi
    echo "$folder" >.demo/folder
    echo "$PG_CONFIG" >.demo/pg_config
}

give_to_server() { ! is_root || chown "$SERVER_OWNER:" "$folder"; }

is_usable() {
    local socket=$folder/.s.PGSQL.5432
    [ ${#socket} -le $LONGEST_SOCKET ] && as_server test -w "$folder"
}

start_server() {
    as_server "$("$PG_CONFIG" --bindir)/initdb" -D "$folder/data" -U postgres -A trust -N -E UTF8 --locale=C.UTF-8 >/dev/null
    cat <<-END | as_server tee -a "$folder/data/postgresql.conf" >/dev/null
	listen_addresses = ''
	unix_socket_directories = '$folder'
	cluster_name = 'snowflake demo'
	END
    pg_ctl -l "$folder/log" start || { cat "$folder/log" >&2 && die "the server did not start"; }
    psql -q -d postgres -c 'CREATE DATABASE demo'
}

# remove_server ends the server of an earlier run, with the programs that it was started with, and removes its folder.
remove_server() {
    [ -d .demo ] || return 0
    local PG_CONFIG folder
    if [ -s .demo/folder ] && [ -s .demo/pg_config ]; then
        folder=$(cat .demo/folder) PG_CONFIG=$(cat .demo/pg_config)
        ! pg_ctl status >/dev/null 2>&1 || pg_ctl -m fast stop
        case $folder in "$PWD/.demo/server" | */snowflake-demo.??????) rm -rf "$folder" ;; esac
    fi
    rm -rf .demo
}

# The tour

heading() { printf '\n%s-- %s%s\n' "$bold" "$*" "$plain"; }

# show STATEMENT prints it as it would look in psql, and runs it.
show() {
    printf '\n'
    sed "1s/^/demo=# /; 1!s/^/demo-# /" <<<"$1"
    psql -d demo -c "$1"
}

ask() { psql -q -A -t -d demo -c "$1"; }

# fill_table inserts from all sessions at once; each then stays connected, asleep, until end_sessions.
fill_table() {
    local i insert="INSERT INTO orders (shop) SELECT %s FROM generate_series(1, $ROWS_OF_EACH)"
    # shellcheck disable=SC2059 # the format is the statement
    printf "\nshop 1=# $insert;\n   ...\nshop $SESSIONS=# $insert;\n" 1 $SESSIONS
    for ((i = 1; i <= SESSIONS; i++)); do
        # shellcheck disable=SC2059
        PGAPPNAME="shop $i" psql -d demo -c "$(printf "$insert" "$i")" -c 'SELECT pg_sleep(600)' >/dev/null 2>&1 &
    done
    until [ "$(ask "SELECT count(*) FROM pg_stat_activity WHERE $is_shop AND query LIKE '%pg_sleep%'")" = $SESSIONS ]; do
        [ "$(jobs -rp | wc -l)" = $SESSIONS ] || die "a session failed: see $folder/log"
        sleep 0.1
    done
}

end_sessions() {
    ask "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $is_shop" >/dev/null
    wait || true
}

is_shop="application_name LIKE 'shop %'"

tour() {
    heading "A table whose ids are made by its DEFAULT"
    show "CREATE EXTENSION snowflake;"
    show "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_next(), shop integer NOT NULL);"

    heading "100,000 rows from 8 sessions at once"
    fill_table
    show "SELECT count(*), count(DISTINCT id) FROM orders;"

    heading "Each of these sessions holds a worker id of its own, for as long as it is connected"
    show "SELECT worker_id, pid, application, last_id_at FROM snowflake_workers ORDER BY worker_id;"
    end_sessions

    heading "What an id says: the first order of each shop"
    show "SELECT DISTINCT ON (shop) shop, id, created_at, worker_id, sequence
FROM orders, snowflake_parse(id)
ORDER BY shop, id;"

    heading "Ids sort by time, so a span of time is a range of the primary key"
    show "SELECT count(*), min(id), max(id) FROM orders
WHERE snowflake_between(id, now() - interval '2 seconds', now());"
    show "EXPLAIN (COSTS off) SELECT * FROM orders
WHERE snowflake_between(id, now() - interval '2 seconds', now());"

    heading "UUIDv7, for keys that outside systems see"
    show "CREATE TABLE events (id uuid PRIMARY KEY DEFAULT public.uuidv7(), what text NOT NULL);"
    show "INSERT INTO events (what) VALUES ('opened'), ('paid'), ('sent');"
    show "SELECT id, uuidv7_timestamp(id), what FROM events ORDER BY id;"
}

say_how_to_go_on() {
    local program
    program=$("$PG_CONFIG" --bindir)/psql
    ! type -P psql >/dev/null || program=psql
    cat <<-END

	${bold}The server is running.${plain} Open psql on it:

	    $program -h $folder -U postgres demo

	Stop it and remove all that it has (so does the next make demo):

	    make demo-stop
	END
}

clean_up() {
    local status=$?
    jobs -p | xargs -r kill 2>/dev/null || true
    [ $status = 0 ] || say "the demo did not come to its end; make demo-stop removes what there is" >&2
}

case ${1:-start} in
    start)
        tools/needs.sh build
        find_server
        find_go
        say "building and installing for $("$PG_CONFIG" --version)"
        build_and_install all install
        remove_server
        trap clean_up EXIT
        new_folder
        start_server
        tour
        say_how_to_go_on
        ;;
    stop)
        [ -d .demo ] || { say "there is no demo server" && exit; }
        remove_server
        say "stopped and removed"
        ;;
    *) die "usage: demo.sh [stop]" ;;
esac
