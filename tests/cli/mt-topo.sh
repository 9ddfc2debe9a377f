#!/usr/bin/env bash
# mt-topo as people run it. Group lists are Megatron's worked examples, written down by hand.
source "$(dirname "${BASH_SOURCE[0]}")/expect.sh"
# One group name as a line of "0,1 2,3 ...".
groups() { mt-topo groups "$@" | tail -n +2 | cut -f 2 | paste -sd ' '; }
same() { [ "$1" = "$2" ] || fail "'$1' is not '$2'"; }

# 16 ranks, tp 2, pp 2, so dp 4; eight ranks a host.
sixteen=(--world-size 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
same "$(groups "${sixteen[@]}" --group tp)" "0,1 2,3 4,5 6,7 8,9 10,11 12,13 14,15"
same "$(groups "${sixteen[@]}" --group dp)" "0,2,4,6 1,3,5,7 8,10,12,14 9,11,13,15"
same "$(groups "${sixteen[@]}" --group pp)" "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"
expect 0 "" mt-topo groups "${sixteen[@]}" --ranks-per-host 8
[ "$(head -1 out.txt)" = "$(printf 'group\tranks\thosts')" ] || fail "$(head -1 out.txt)"
says $'dp\t9,11,13,15\tone host' $'pp\t7,15\t2 hosts' $'tp\t14,15\tone host'
expect 0 "" mt-topo groups "${sixteen[@]}" --ranks-per-host 4 --group dp --json
says '{"group":"dp","ranks":[0,2,4,6],"hosts":2}'

# 16 ranks, tp 2, cp 2, dp 2, pp 2; experts over 4, so edp 2.
sixteen+=(--context-parallel-size 2 --expert-model-parallel-size 4 --expert-tensor-parallel-size 1)
same "$(groups "${sixteen[@]}" --group cp | cut -d ' ' -f 1-3)" "0,2 1,3 4,6"
same "$(groups "${sixteen[@]}" --group dp | cut -d ' ' -f 1-5)" "0,4 1,5 2,6 3,7 8,12"
same "$(groups "${sixteen[@]}" --group dp-cp | cut -d ' ' -f 1-2)" "0,2,4,6 1,3,5,7"
same "$(groups "${sixteen[@]}" --group ep | cut -d ' ' -f 1-2)" "0,1,2,3 4,5,6,7"
same "$(groups "${sixteen[@]}" --group edp | cut -d ' ' -f 1-5)" "0,4 1,5 2,6 3,7 8,12"

# The other order Megatron knows: pipeline ranks are neighbours of tensor-parallel groups.
same "$(groups --world-size 8 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
  --rank-order tp-cp-ep-pp-dp --group pp)" "0,2 1,3 4,6 5,7"

# Eight data-parallel ranks in two optimizer instances.
eight=(--world-size 16 --tensor-model-parallel-size 2 --num-distributed-optimizer-instances 2)
same "$(groups "${eight[@]}" --group intra-partial-dp-cp)" "0,2,4,6 8,10,12,14 1,3,5,7 9,11,13,15"
same "$(groups "${eight[@]}" --group inter-partial-dp-cp)" "0,8 2,10 4,12 6,14 1,9 3,11 5,13 7,15"
expect 3 "3 optimizer instances do not divide dp·cp 8 and edp 8 (--num-distributed-optimizer-instances 2 or 4)" \
  mt-topo groups --world-size 8 --num-distributed-optimizer-instances 3

# Refusals, each with what would do.
expect 3 "world size 6 is not divisible by tp·cp·pp = 4 (--world-size 4 or 8)" \
  mt-topo groups --world-size 6 --tensor-model-parallel-size 4
expect 3 "ep·etp·pp = 3" mt-topo groups --world-size 8 --expert-model-parallel-size 3
expect 3 "names 2 of 5 axes" mt-topo groups --world-size 4 --rank-order tp-dp
expect 3 "'xp' is no axis" mt-topo groups --world-size 4 --rank-order tp-xp-ep-dp-pp
expect 3 "'tp' is there twice" mt-topo groups --world-size 4 --rank-order tp-tp-ep-dp-pp
expect 3 "pipeline ranks are 2 apart for dense layers and 1 for experts" mt-topo groups --world-size 8 \
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --expert-tensor-parallel-size 1 --rank-order tp-cp-ep-pp-dp
expect 2 "at least 1" mt-topo groups --world-size 4 --tensor-model-parallel-size 0
[ "$(groups --world-size 1000000 --tensor-model-parallel-size 1000 --group dp | wc -w)" = 1000 ] || fail "groups of a large world"
for world in 0 -1 1000001 2147483647; do expect 2 "found $world" mt-topo groups --world-size "$world"; done
expect 2 "found -2" mt-topo groups --pipeline-model-parallel-size -2
expect 2 "need 4294967296 ranks" mt-topo groups --tensor-model-parallel-size 65536 --pipeline-model-parallel-size 65536
expect 2 "--ranks-per-host" mt-topo groups --world-size 4 --ranks-per-host 0
expect 2 "there is no group 'pt'" mt-topo groups --world-size 4 --group pt
expect 2 "did you mean --world-size?" mt-topo groups --world-sise 4
expect 2 "did you mean groups?" mt-topo group
expect 2 "a command is required" mt-topo

# The machine: a made-up one, and this one.
if HWLOC_SYNTHETIC="pack:2 l3:1 core:4 pu:2" mt-topo show > out.txt 2> err.txt; then
  says $'packages\t2' $'cores\t8' $'hardware_threads\t16'
else
  fail "$(cat err.txt)"
fi
expect 0 "" mt-topo show --json
grep -q '"usable_cores":[1-9]' out.txt || fail "$(cat out.txt)"
expect 0 "" env MT_MAX_CPU_ISA=SSE41 mt-topo show
says $'cpu_isa\tSSE41'
[ ! -s err.txt ] || fail "a known variable is warned of: $(cat err.txt)"
expect 0 "MT_WORLDSIZE in the environment is no option" env MT_WORLDSIZE=4 mt-topo groups
expect 2 "use SSE41, AVX2, AVX512 or AVX512_BF16" env MT_MAX_CPU_ISA=AVX3 mt-topo show

expect 5 "standard output" sh -c 'mt-topo groups --world-size 4 > /dev/full'
[ -z "$(ls | grep -v '^\(out\|err\).txt$')" ] || fail "looking left files: $(ls)"
echo ok
