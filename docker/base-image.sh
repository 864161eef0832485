#!/usr/bin/env bash
# base-image.sh SUITE: makes sure that the images which a build starts from exist:
# debian:SUITE-slim and golang:1.26-bookworm.
#
# The engine's own copy is used when it has one, else the registry's. A machine that reaches no registry
# builds stand-ins from what it has: its Debian mirror (needs root and debootstrap) and its Go toolchain.
set -euo pipefail

GO_VERSION=1.26
suite=${1:?usage: base-image.sh SUITE}

say() { echo "base-image: $*" >&2; }
die() { say "$*"; exit 1; }

# ensure IMAGE COMMAND...: has the image from the engine, from the registry, or from COMMAND.
ensure() {
    local image=$1
    shift
    docker image inspect "$image" >/dev/null 2>&1 && return
    say "pulling $image"
    timeout 60 docker pull -q "$image" >/dev/null 2>&1 && return
    say "$image cannot be pulled: building it here"
    "$@" "$image"
}

# mirror prints the address of the Debian mirror that this machine's apt uses.
# shellcheck disable=SC2016 # apt expands $(SITE)
mirror() {
    local site
    site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
    # Before the first apt-get update apt does not know the origins: then the first source has to do.
    [ -n "$site" ] || site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | sed -n 1p)
    [ -n "$site" ] || die "apt names no Debian mirror"
    echo "$site"
}

# build_debian IMAGE makes a minimal Debian of $suite, without docs, translations and package lists.
build_debian() {
    [ "$(id -u)" = 0 ] || die "debootstrap needs root"
    command -v debootstrap >/dev/null || die "debootstrap is not installed"
    local root
    root=$(mktemp -d)
    # shellcheck disable=SC2064 # the directory of now
    trap "rm -rf --one-file-system '$root'" EXIT
    # The script is named because debootstrap knows no suite younger than itself; "sid" fits them all.
    debootstrap --variant=minbase "$suite" "$root" "$(mirror)" /usr/share/debootstrap/scripts/sid >&2
    configure_apt "$root"
    copy_certificates "$root"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/* "$root"/etc/resolv.conf \
        "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/locale/*
    tar -C "$root" --numeric-owner --exclude='./dev/*' -c . |
        docker import --change 'CMD ["bash"]' - "$1" >/dev/null
}

# configure_apt ROOT keeps apt lean, unattended and, like this machine's, behind its proxy if it has one.
configure_apt() {
    cat >"$1/etc/apt/apt.conf.d/90image" <<-'END'
	Acquire::Languages "none";
	// A test suite is frozen now and then: its Release file outlives its own date.
	Acquire::Check-Valid-Until "false";
	APT::Install-Recommends "false";
	APT::Keep-Downloaded-Packages "false";
	DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
	END
    apt-config dump | grep -Ei '^Acquire::https?::proxy' >>"$1/etc/apt/apt.conf.d/90image" || true
    cat >"$1/etc/dpkg/dpkg.cfg.d/90image" <<-'END'
	force-unsafe-io
	path-exclude=/usr/share/doc/*
	path-exclude=/usr/share/info/*
	path-exclude=/usr/share/locale/*
	path-exclude=/usr/share/man/*
	END
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" # packages start no services
    chmod 755 "$1/usr/sbin/policy-rc.d"
}

# copy_certificates ROOT lets programs in the image trust whom this machine trusts.
copy_certificates() {
    local bundle=etc/ssl/certs/ca-certificates.crt local_dir=usr/local/share/ca-certificates
    [ -f "/$bundle" ] && install -D -m 644 "/$bundle" "$1/$bundle"
    [ -d "/$local_dir" ] && mkdir -p "$1/$local_dir" && cp -RL "/$local_dir/." "$1/$local_dir"
    return 0
}

# build_golang IMAGE packs this machine's toolchain as /usr/local/go, all that the Dockerfile takes from it. Tests
# and the tools' own sources stay out: they are most of the files, and no build reads them.
build_golang() {
    local goroot
    case $(go env GOVERSION) in
        "go$GO_VERSION" | "go$GO_VERSION".*) ;;
        *) die "Go $GO_VERSION is needed, here is $(go env GOVERSION)" ;;
    esac
    goroot=$(go env GOROOT)
    tar -C "$goroot" --dereference --numeric-owner --owner=0 --group=0 --exclude=./api --exclude=./doc \
        --exclude=./misc --exclude=./test --exclude='./src/cmd' --exclude='*_test.go' --exclude=testdata \
        --transform='s,^\.,usr/local/go,' -c . |
        docker import --change 'ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
            - "$1" >/dev/null
}

ensure "debian:$suite-slim" build_debian
ensure "golang:$GO_VERSION-bookworm" build_golang
