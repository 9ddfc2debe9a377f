#!/usr/bin/env bash
# Installs the packages the project builds and runs with, on Debian 12 and Ubuntu 24.04: the one list, used by
# examples/quickstart.sh and tests/run.sh.
#
#   install-packages.sh [--no-install] [build|tests]
#
# "build" (default) is what the tools need, "tests" adds what the tests need. Only what is missing is installed; with
# --no-install missing packages are named and the status is 1.
set -euo pipefail

build_packages=(
  g++ cmake ninja-build ccache pkg-config git make
  libmpich-dev mpich libdnnl-dev ocl-icd-opencl-dev libboost-program-options-dev libboost-context-dev libsqlite3-dev sqlite3
  nlohmann-json3-dev libsimdjson-dev libpcre2-dev libhwloc-dev libzstd-dev zlib1g-dev liblzma-dev libbz2-dev
  libxxhash-dev libutf8proc-dev libfmt-dev bible-kjv
)
test_packages=(libgtest-dev libbenchmark-dev groff man-db)

install=yes
wanted=("${build_packages[@]}")
for argument in "$@"; do
  case "$argument" in
    --no-install) install=no ;;
    build) ;;
    tests) wanted+=("${test_packages[@]}") ;;
    *) echo "install-packages: unknown argument '$argument'" >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query > /dev/null; then
  echo "install-packages: no dpkg here; please install yourself: ${wanted[*]}" >&2
  exit 0
fi

is_installed() {
  # A package that others provide (pkg-config is pkgconf on Ubuntu) counts by the program it brings.
  [ "$1" = pkg-config ] && command -v pkg-config > /dev/null && return 0
  dpkg-query -W -f '${db:Status-Status}\n' "$1" 2> /dev/null | grep -qx installed
}

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-packages: all ${#wanted[@]} packages are there"
  exit 0
fi
if [ "$install" = no ]; then
  echo "install-packages: missing (not installed, by --no-install): ${missing[*]}" >&2
  exit 1
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "install-packages: missing: ${missing[*]}; become root or install sudo, then run again" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "install-packages: installing ${missing[*]}"
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update > /dev/null
available=()
for package in "${missing[@]}"; do
  # Names differ between releases. What the archive does not know is left out here; CMake or a test names what it lacks.
  if apt-cache show "$package" > /dev/null 2>&1; then available+=("$package")
  else echo "install-packages: this release has no package '$package'; going on without it" >&2; fi
done
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends "${available[@]}"
