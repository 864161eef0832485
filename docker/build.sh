#!/usr/bin/env bash
# build.sh PG [SUITE]: prints, as its last line, the name of an image for tests of PostgreSQL PG, built from this
# tree: snowflake-test:pgPG-HASH. HASH covers every file that goes in, so an unchanged tree builds nothing.
# The server image below it gets the tag snowflake:PG. Everything else that is said goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh

# inputs lists the files that an image depends on: what .dockerignore lets through, and how it is built.
inputs() {
    shopt -s nullglob
    find .dockerignore Makefile go.mod go.sum ./*.json ./*.c ./*.h bridge engine ext gen keeper test/variants docker/Dockerfile \
        docker/Dockerfile.test docker/entrypoint.sh -type f \
        ! -name '*_test.go' ! -name '*.[ao]' ! -name '*.bc' ! -name '*.so'
}

# snapshot DIR copies the inputs, so that a tree that is edited meanwhile gets no image with a mixture in it.
snapshot() { inputs | xargs -d '\n' cp -p --parents -t "$1"; }

# fingerprint prints a hash over all files here, their names, the versions and the toolchain.
fingerprint() {
    { find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum && echo "$pg $suite $(go env GOVERSION)"; } |
        sha256sum | cut -c1-12
}

# remove_others IMAGE drops the test images of the same major that earlier trees left.
remove_others() {
    docker image ls --format '{{.Repository}}:{{.Tag}}' snowflake-test | grep "^snowflake-test:pg$pg-" |
        grep -vxF "$1" | xargs -r docker image rm >/dev/null 2>&1 || true
}

pg=${1:?usage: build.sh PG [SUITE]}
suite=${2:-$(suite_of "$pg")} || die "no Debian suite is known for PostgreSQL $pg: docker/majors lists them, or name a SUITE"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
snapshot "$tree"
copy_modules "$tree"
repository=$PWD
cd "$tree"
image=snowflake-test:pg$pg-$(fingerprint)

lock_builds
if ! docker image inspect "$image" >/dev/null 2>&1; then
    "$repository/docker/base-image.sh" "$suite" >&2
    # With the same arguments each build goes on from what the one before has made.
    common=(. -f docker/Dockerfile --build-arg "SUITE=$suite" --build-arg "PG=$pg" --build-arg VARIANTS=1)
    build_image "snowflake-runtime:$pg" "${common[@]}" --target runtime
    build_image "snowflake-build:$pg" "${common[@]}" --target build
    build_image "snowflake:$pg" "${common[@]}"
    build_image "$image" . -f docker/Dockerfile.test \
        --build-arg "BUILD=snowflake-build:$pg" --build-arg "RUNTIME=snowflake-runtime:$pg"
    remove_others "$image"
fi
echo "$image"
