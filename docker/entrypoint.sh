#!/usr/bin/env bash
# entrypoint.sh [POSTGRES OPTIONS...]: makes the cluster in $PGDATA on the first start, then runs the server. SIGTERM
# and SIGINT end it in order (Postgres's fast shutdown: sessions are ended and everything is written).
#
#   POSTGRES_PASSWORD           the superuser's password, or
#   POSTGRES_PASSWORD_FILE      a file that holds it
#   POSTGRES_HOST_AUTH_METHOD   scram-sha-256 unless set; "trust" lets anyone in and needs no password
#   SNOWFLAKE_IN_TEMPLATE1      anything: every database has the extension, for it is created in template1 (and
#                               in postgres) on the first start
#
# The files of /docker-entrypoint-initdb.d (*.sql, *.sh, in the order of their names) run once, on the first
# start. A first start that fails leaves nothing behind, so that the next one begins anew.
set -euo pipefail

method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}

say() { echo "entrypoint: $*" >&2; }

# password prints the superuser's password, or nothing.
password() {
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
        cat "$POSTGRES_PASSWORD_FILE"
    else
        printf '%s' "${POSTGRES_PASSWORD:-}"
    fi
}

# make_cluster runs initdb, which cleans up behind itself when it fails.
make_cluster() {
    local secret args=(--username=postgres --encoding=UTF8 --locale=C.UTF-8 --auth-local=peer --auth-host="$method")
    secret=$(password)
    if [ -n "$secret" ]; then
        initdb "${args[@]}" --pwfile=<(printf '%s\n' "$secret")
    elif [ "$method" = trust ]; then
        initdb "${args[@]}"
    else
        say "no password for the superuser: set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE," \
            "or POSTGRES_HOST_AUTH_METHOD=trust to let anyone in"
        exit 1
    fi
}

# open_to_network lets clients in from everywhere, each by $method.
open_to_network() {
    echo "host all all all $method" >>"$PGDATA/pg_hba.conf"
    echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
}

# run_init_files OPTIONS... runs the files of /docker-entrypoint-initdb.d on a server with the options of the
# real one, but out of the network's reach.
run_init_files() {
    local file
    pg_ctl start -w -o "$(printf '%q ' "$@" -c listen_addresses=)"
    if [ -n "${SNOWFLAKE_IN_TEMPLATE1:-}" ]; then
        psql -X -v ON_ERROR_STOP=1 -d template1 -c 'CREATE EXTENSION snowflake'
        psql -X -v ON_ERROR_STOP=1 -d postgres -c 'CREATE EXTENSION snowflake'
    fi
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sql) say "running $file" && psql -X -v ON_ERROR_STOP=1 -d postgres -f "$file" ;;
            *.sh) say "running $file" && bash "$file" ;;
        esac
    done
    pg_ctl stop -w -m fast
}

# undo takes back a first start that failed half way.
undo() {
    pg_ctl stop -w -m immediate >/dev/null 2>&1 || true
    find "$PGDATA" -mindepth 1 -delete
    say "the first start failed: $PGDATA was emptied again"
}

# serve runs the server until it ends, and hands on the signals that this process gets.
serve() {
    local server status=0
    postgres "$@" &
    server=$!
    trap 'kill -INT $server' TERM INT
    trap 'kill -HUP $server' HUP
    trap 'kill -QUIT $server' QUIT
    while kill -0 $server 2>/dev/null; do # a signal ends the wait
        wait $server && status=0 || status=$?
    done
    exit $status
}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    make_cluster
    trap undo EXIT
    trap 'exit 1' INT TERM
    open_to_network
    run_init_files "$@"
    trap - EXIT INT TERM
fi
serve "$@"
