#!/usr/bin/env bash
# build-upgrade.sh OLD NEW: prints, as its last line, the name of an image for tests that has the servers of two majors
# and the extension for both. Built once for each pair of test images.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/common.sh

old=$(docker/build.sh "${1:?usage: build-upgrade.sh OLD NEW}" | tail -n 1)
new=$(docker/build.sh "${2:?usage: build-upgrade.sh OLD NEW}" | tail -n 1)
image=snowflake-test:pg$2-${new##*-}-from-pg$1-${old##*-}
lock_builds
if ! docker image inspect "$image" >/dev/null 2>&1; then
    build_image "$image" . -f docker/Dockerfile.upgrade --build-arg "OLD=$old" --build-arg "NEW=$new"
fi
echo "$image"
