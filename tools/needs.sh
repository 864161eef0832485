#!/usr/bin/env bash
# needs.sh [build|test|bench]...: installs what is missing on a Debian or Ubuntu machine (build, when nothing is
# named):
#   build   compiler, linker tools, the server and its headers: all that make, make install and make demo use
#   test    also what the test suite starts or runs: a false clock, a pooler, process tools, patch (for the
#           builds with a fault in them), a maker of base images
#   bench   the same as build
# The server is the one that PG (a major, as in PG=15) or PG_CONFIG names, else the one in the path, else the one
# that the distribution ships. Go is never fetched: when it is missing or too old this says so.
#
# The machine's own clusters are left alone. Only what is missing is installed, nothing else is upgraded, and
# while apt runs two files tell Debian's packages to make no cluster and to start no service. Both are removed
# afterwards, so the machine's administrator meets no setting that was not there before.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/common.sh

missing=()
aside=()

# need PACKAGE COMMAND...: the package is missing unless the command succeeds.
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

# program NAME: whether there is one, also where only root's path looks.
program() { PATH=$PATH:/usr/sbin:/sbin command -v "$1"; }

library() { compgen -G "/usr/lib/*/$1" || compgen -G "/usr/lib/$1"; }

list_missing() {
    local kind
    missing=()
    find_server
    for kind in "$@"; do
        case $kind in
            build | bench) need_build ;;
            test) need_build && need_test ;;
            *) die "nothing is known about what \"$kind\" needs: there are build, test and bench" ;;
        esac
    done
}

need_build() {
    need make program make
    need gcc program gcc
    need libc6-dev test -f /usr/include/stdlib.h
    need binutils program objcopy
    need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
    need "postgresql-$PG_MAJOR" server_has initdb
    need "postgresql-server-dev-$PG_MAJOR" server_has_headers
}

need_test() {
    need faketime program faketime
    need libfaketime library faketime/libfaketime.so.1
    need pgbouncer program pgbouncer
    need patch program patch
    need procps program ps
    # Base images are made here only where there is an engine, and no registry, to have them from.
    if program docker >/dev/null; then
        need debootstrap program debootstrap
    fi
}

# set_aside FILE CONTENT MODE writes a file of the machine's for as long as this script runs; one that is there stays.
set_aside() {
    [ ! -e "$1" ] || return 0
    as_root mkdir -p "${1%/*}"
    aside+=("$1")
    printf '%s\n' "$2" | as_root tee "$1" >/dev/null
    as_root chmod "$3" "$1"
}

put_back() { [ ${#aside[@]} = 0 ] || as_root rm -f "${aside[@]}"; }

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -qq install -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 ||
        { cat "$log" >&2 && die "apt-get could not install $*"; }
}

install_missing() {
    local log
    program apt-get >/dev/null ||
        die "this is no Debian or Ubuntu: install what these packages hold in your system's way: ${missing[*]}"
    can_be_root || die "some packages are missing, and this user may not install them. Run this, and then try again:
    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}"
    log=$(mktemp)
    say "updating the package lists"
    as_root apt-get -qq update >"$log" 2>&1 || say "apt-get update failed, going on: $(tail -n 1 "$log")"
    list_missing "$@" # which server the distribution ships is known only now
    say "installing ${missing[*]}"
    trap put_back EXIT
    set_aside /usr/sbin/policy-rc.d $'#!/bin/sh\nexit 101' 755
    if ! server_has initdb; then
        # This brings the folder of the next file, which must stand before any server is installed.
        program pg_createcluster >/dev/null || apt_install postgresql-common
        set_aside /etc/postgresql-common/createcluster.d/snowflake-needs.conf 'create_main_cluster = off' 644
    fi
    apt_install "${missing[@]}"
    rm -f "$log"
    list_missing "$@"
    [ ${#missing[@]} = 0 ] || die "still missing after installing (is PG_CONFIG=$PG_CONFIG right?): ${missing[*]}"
}

# check_go dies unless a new enough Go is there.
check_go() {
    local found=none
    if find_go; then
        found=$(go_version)
        at_least "$found" "$GO_NEEDED" && return
        found="$found in $GO"
    fi
    die "Go $GO_NEEDED or later is needed, found: $found
    Install the package golang-$GO_NEEDED-go (or golang-go, where that is $GO_NEEDED or later), or the archive from
    https://go.dev/dl/ in /usr/local/go. Or set GO to the path of one that is installed."
}

[ $# -gt 0 ] || set -- build
list_missing "$@"
[ ${#missing[@]} = 0 ] || install_missing "$@"
check_go
