#!/usr/bin/env bash
# The lints find what they are for: each is shown a small tree with one mistake.
set -euo pipefail
lint="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
bad=0
fresh() { rm -rf "${work:?}/t"; mkdir -p "$work/t/lib/base" "$work/t/lib/ops" "$work/t/lib/comm" "$work/t/cmd/mt-x"; }
repeat() { for ((i = 0; i < $1; ++i)); do echo "$2"; done; }
finds() {  # finds "what" WORDS command...
  local what="$1" words="$2" said
  shift 2
  if said="$("$@" 2>&1)"; then echo "not found: $what"; bad=1
  elif ! grep -q -- "$words" <<< "$said"; then echo "$what: wanted '$words', found: $said"; bad=1; fi
}
passes() {
  local what="$1" said
  shift
  said="$("$@" 2>&1)" || { echo "$what: $said"; bad=1; }
}

fresh; echo '#include "ops/a.h"' > "$work/t/lib/base/x.h"
finds "an arrow up" "base (floor 0) includes ops" bash "$lint/floors.sh" "$work/t/lib"
fresh; echo '#include "comm/a.h"' > "$work/t/lib/ops/x.cc"
finds "a sibling" "ops (floor 3) includes comm" bash "$lint/floors.sh" "$work/t/lib"
fresh; echo '#include "a.h"' > "$work/t/lib/ops/x.cc"
finds "a relative include" "names no module" bash "$lint/floors.sh" "$work/t/lib"
fresh; echo '#include "base/a.h"' > "$work/t/lib/ops/x.cc"
passes "an arrow down" bash "$lint/floors.sh" "$work/t/lib"

fresh; repeat 601 '// line' > "$work/t/lib/base/x.cc"
finds "a long file" "601 lines" bash "$lint/sizes.sh" "$work/t"
fresh; repeat 201 '// line' > "$work/t/cmd/mt-x/main.cc"
finds "a long main" "the limit is 200" bash "$lint/sizes.sh" "$work/t"
long() { echo "$1"; repeat "$2" '  f();'; echo '}'; }
fresh; { echo 'namespace n {'; echo 'struct S { int a = 3; };'; long 'void g(int a) {' 99; echo '}'; } > "$work/t/lib/base/x.cc"
finds "a long function" "x.cc:3: function of 101 lines" bash "$lint/sizes.sh" "$work/t"
fresh; { echo 'class C {'; long '  int g() const {' 99; echo '};'; } > "$work/t/lib/base/x.h"
finds "a long member" "x.h:2: function of 101 lines" bash "$lint/sizes.sh" "$work/t"
fresh; { echo 'namespace n {'; long 'void g(int a) {' 98; long 'struct T {' 150; echo '}'; } > "$work/t/lib/base/x.cc"
passes "functions within the limit" bash "$lint/sizes.sh" "$work/t"

fresh; touch "$work/t/lib/base/string_util.h"
finds "an empty name" "'util' in a file name" bash "$lint/names.sh" "$work/t"
fresh; echo '#if MT_HAVE_MPI' > "$work/t/lib/base/x.h"
finds "a stray switch" "base/features.h" bash "$lint/names.sh" "$work/t"
fresh; mkdir "$work/t/lib/comm/mpi"; echo '#if MT_HAVE_MPI' > "$work/t/lib/comm/mpi/x.h"
passes "a switch in a backend folder" bash "$lint/names.sh" "$work/t"
fresh; echo "// see /ro""ot/x" > "$work/t/lib/base/x.h"
finds "a machine path" "one machine" bash "$lint/names.sh" "$work/t"

fresh; printf '#pragma once\ninline std::string f() { return ""; }\n' > "$work/t/lib/base/x.h"; mkdir "$work/t/base"
finds "a header that leans on others" "does not compile alone" \
  env MT_TEST_SOURCE="$work/t" bash "$lint/headers_alone.sh" "${CXX:-c++}" "$work/t"

mkdir -p "$work/t/man" "$work/t/bin"
cat > "$work/t/bin/mt-x" << 'TOOL'
#!/bin/sh
case "$1" in
  --dump-options) printf '%s\n' '{"tool":"mt-x","command":"","name":"lr","argument":"LR","hidden":false,"aliases":["rate"]}' ;;
  *) echo "  --lr LR   rate" ;;
esac
TOOL
chmod +x "$work/t/bin/mt-x"
manual() { env MT_TEST_SOURCE="$work/t" MT_TEST_BIN="$work/t/bin" bash "$lint/man_pages.sh" mt-x; }
page() { printf '.TH mt-x 1 2020-01-01 mt mt\n.SH NAME\nmt-x \\- x\n.SH OPTIONS\n%b' "$1" > "$work/t/man/mt-x.1"; }
finds "a tool without a page" "has no man page" manual
page '.TP\n.BI \\-\\-lr " LR" ", \\-\\-rate " LR\nthe rate\n'
passes "a page that agrees" manual
page '.TP\n\\fB\\-\\-lr\\fR \\fILR\\fR, \\fB\\-\\-rate\\fR \\fILR\\fR\nthe rate\n.TP\n.B \\-\\-old\nold\n'
finds "an option only in the page" "> --old" manual
page '.TP\n.BI \\-\\-rate " LR"\nthe rate\n'
finds "an option only in the table" "< --lr LR" manual
if command -v groff > /dev/null; then
  page '.TP\n.BI \\-\\-lr " LR" ", \\-\\-rate " LR\nthe \\*[nothing] rate\n'
  finds "wrong roff" "groff" manual
fi

example() {
  printf '.TH mt-x 1\n.SH EXAMPLES\n%b' "$1" > "$work/t/man/mt-x.1"
  env MT_TEST_BIN="$work/t/bin" MT_TEST_MPIEXEC= bash "$lint/man_examples.sh" "$work/t/man/mt-x.1"
}
passes "an example that runs" example '.\\" run: echo a > f\n.EX\nmt\\-x \\-\\-lr 3 | grep rate\ngrep \\(aqa\\(aq f\n.EE\n'
finds "an example that fails" "false" example '.EX\nfalse\n.EE\n'
passes "an example not to be run" example '.\\" no-run\n.EX\nfalse\n.EE\n.EX\ntrue\n.EE\n'
[ "$bad" -eq 0 ] && echo "every lint found its mistake"
exit "$bad"
