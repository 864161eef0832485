# What the scripts of this folder share: which server and which Go they work with, and as whom. Sourced from the
# top of the repository, by bash.
# shellcheck shell=bash

GO_NEEDED=1.26
SERVER_OWNER=postgres # runs private servers when root, since Postgres refuses to run as root

say() { echo "${0##*/}: $*"; }
die() { say "$@" >&2; exit 1; }

is_root() { [ "$(id -u)" = 0 ]; }

# as_root COMMAND... runs it as root, directly or through a sudo that asks no password.
as_root() {
    if is_root; then "$@"; else sudo -n "$@"; fi
}

can_be_root() { is_root || sudo -n true 2>/dev/null; }

# as_server COMMAND... runs it as the user that owns private servers, in a folder that this user can enter.
as_server() {
    if is_root; then
        (cd / && exec runuser -u "$SERVER_OWNER" -- "$@")
    else
        "$@"
    fi
}

# find_server sets PG_CONFIG and PG_MAJOR: the server that PG names, else PG_CONFIG, else the one in the path, else
# the one that the distribution ships. Whether it is installed is not said.
find_server() {
    if [ -n "${PG:-}" ]; then
        PG_MAJOR=$PG PG_CONFIG=/usr/lib/postgresql/$PG/bin/pg_config
        return
    fi
    PG_CONFIG=$(command -v "${PG_CONFIG:-pg_config}" || true)
    # Debian's own pg_config is there, but fails, on a machine that has only the tools for clusters.
    PG_MAJOR=$("${PG_CONFIG:-false}" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p' || true)
    if [ -z "$PG_MAJOR" ]; then
        PG_MAJOR=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9][0-9]*\)$/\1/p')
        PG_MAJOR=${PG_MAJOR:-15} PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR:-15}/bin/pg_config
    fi
}

# suite_of MAJOR prints the Debian suite whose server of that major the images have; fails when there is none.
suite_of() { sed -n "s/^$1 //p" docker/majors | grep .; }

# lock_builds makes the rest of a script run alone: one image is built at a time, and the second of two test programs
# finds the first one's.
lock_builds() {
    exec 9>"${TMPDIR:-/tmp}/snowflake-build.$(id -u).lock"
    flock 9
}

# build_image NAME ARGUMENTS... builds an image and forgets the one that had the name before. What is said goes to stderr.
build_image() {
    local name=$1 old
    shift
    old=$(docker image inspect -f '{{.Id}}' "$name" 2>/dev/null || true)
    docker build --force-rm -t "$name" "$@" >&2
    [ -z "$old" ] || [ "$old" = "$(docker image inspect -f '{{.Id}}' "$name")" ] ||
        docker image rm "$old" >/dev/null 2>&1 || true
}

# server_has PROGRAM, server_has_headers: what of the server is there.
server_has() { [ -x "$("$PG_CONFIG" --bindir 2>/dev/null)/$1" ]; }
server_has_headers() { [ -f "$("$PG_CONFIG" --includedir-server 2>/dev/null)/postgres.h" ]; }

# find_go sets GO to a Go toolchain and puts it first in the path: the one in GO or the path, else where the
# official archive and Debian's packages put it (sudo's path names neither). Fails when there is none.
find_go() {
    local candidate
    for candidate in "${GO:-go}" /usr/local/go/bin/go "/usr/lib/go-$GO_NEEDED/bin/go"; do
        GO=$(command -v "$candidate" || true)
        if [ -n "$GO" ]; then
            PATH=${GO%/*}:$PATH
            export GO PATH
            return 0
        fi
    done
    return 1
}

# go_version prints the version of that toolchain itself, as 1.26.3, whatever else it might fetch.
go_version() { GOTOOLCHAIN=local "$GO" env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//'; }

# at_least VERSION WANTED
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# build_and_install TARGET INSTALL-TARGET builds the library for this server and puts it where the server looks.
build_and_install() {
    local build=$1 install=$2 make=(make --no-print-directory -s "PG_CONFIG=$PG_CONFIG" "GO=$GO")
    "${make[@]}" "$build"
    if [ -w "$("$PG_CONFIG" --pkglibdir)" ] && [ -w "$("$PG_CONFIG" --sharedir)/extension" ]; then
        "${make[@]}" "$install"
    elif can_be_root; then
        as_root "${make[@]}" "$install"
    else
        die "the library is built, but this user may not install it. Run this, and then try again:
    sudo make $install PG_CONFIG=$PG_CONFIG GO=$GO"
    fi
}

# copy_modules DIR puts what the lease keeper is built of beyond the standard library into DIR/modules, in the form of a
# module proxy: so a build there downloads nothing.
copy_modules() {
    local module cache
    mkdir -p "$1/modules"
    "${GO:-go}" mod download github.com/jackc/pgx/v5
    cache=$("${GO:-go}" env GOMODCACHE)/cache/download
    for module in $("${GO:-go}" list -tags netgo,osusergo -deps -f '{{with .Module}}{{with .Version}}{{$.Module.Path}}/@v/{{.}}{{end}}{{end}}' \
        ./keeper/process | sort -u); do
        (cd "$cache" && cp -p --parents "$module".info "$module".mod "$module".zip -t "$1/modules")
    done
}
