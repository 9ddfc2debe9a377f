#!/usr/bin/env bash
# Objects built for one instruction class may define weak symbols only inside their own namespace: the linker keeps one
# copy of a weak symbol, and a copy with AVX-512 code must never be the one an older processor runs.
# vector_symbols.sh CLASS OBJECT...
set -euo pipefail
class="$1"
shift
weak="$(nm -C --defined-only "$@" | grep -E '^[0-9a-f]+ [VWu] ' | grep -v "mt::ops::cpu::$class::" || true)"
[ -z "$weak" ] || { echo "$weak"; exit 1; }
