#!/usr/bin/env bash
# Installs the build to a fresh prefix and builds a client through pkg-config and through find_package(mt).
set -euo pipefail
here="$MT_TEST_SOURCE/tests/install"
cxx="$1"
generator="$2"
flags="${3:-}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$MT_TEST_BUILD" --prefix "$work/prefix" > "$work/log" || { cat "$work/log"; fail "cmake --install"; }
test -f "$work/prefix/include/mt/base/features.h" || fail "base/features.h is not installed"
for page in "$MT_TEST_SOURCE"/man/*.[157]; do
  [ -e "$page" ] || continue
  test -f "$work/prefix/share/man/man${page##*.}/$(basename "$page")" || fail "$page is not installed"
done

export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
# shellcheck disable=SC2046,SC2086
"$cxx" $flags "$here/client.cc" -o "$work/client" $(pkg-config --cflags --libs mt)
want="2d06800538d394c2 bf16"
got="$("$work/client")"
[ "$got" = "$want" ] || fail "pkg-config client: wanted '$want', found '$got'"

cmake -S "$here" -B "$work/build" -G "$generator" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$flags" \
  -DCMAKE_PREFIX_PATH="$work/prefix" > "$work/log" 2>&1 || { cat "$work/log"; fail "find_package(mt)"; }
cmake --build "$work/build" > "$work/log" 2>&1 || { cat "$work/log"; fail "client build"; }
got="$("$work/build/client")"
[ "$got" = "$want" ] || fail "CMake client: wanted '$want', found '$got'"

for tool in "$work/prefix"/bin/*; do
  [ -e "$tool" ] || continue
  "$tool" --version > /dev/null || fail "$tool --version"
done
echo "install: headers, mt.pc, the CMake package and the tools work from $work/prefix"
