#!/usr/bin/env bash
# package.sh [SUITE]: builds the Debian packages of this tree on a Debian of that suite (bookworm) and prints, as its
# last line, the name of an image in which they are installed: snowflake-package:SUITE. The packages themselves are in
# its folder /packages. Everything else that is said goes to stderr.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh
suite=${1:-bookworm}
image=snowflake-package:$suite

# A tree that is edited meanwhile gets no package with a mixture in it.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cp -rp --parents CHANGELOG.md LICENSE META.json Makefile README.md bridge.c bridge debian docker docs engine ext gen go.mod \
    go.sum keeper test/expected test/sql "$tree"
copy_modules "$tree"
find "$tree" \( -name '*.[ao]' -o -name '*.bc' -o -name '*.so' -o -name '*_test.go' \) -delete

lock_builds
docker/base-image.sh "$suite" >&2
common=("$tree" -f docker/Dockerfile.package --build-arg "SUITE=$suite")
build_image "snowflake-package-build:$suite" "${common[@]}" --target build
build_image "$image" "${common[@]}"
echo "$image"
