# Sourced first by drills that kill: runs the script again where it sees only its own processes and its own /dev/shm, so
# that whatever a dead job leaves behind is seen. Where that is not allowed (needs root) the drill runs without, and says so.
#   nothing_left [memory]   fail if a process is there; with "memory" also if a job's status page still has a name. Files
#                           that the MPI library had open when it was killed (mpich_*, ucx_*) are not ours to remove
if [ -z "${MT_TEST_ALONE:-}" ]; then
  if unshare -m -p -f --mount-proc true 2> /dev/null; then
    exec unshare -m -p -f --mount-proc bash -c 'mount -t tmpfs none /dev/shm && MT_TEST_ALONE=yes exec bash "$0" "$@"' "$0" "$@"
  fi
  echo "no new namespaces here: what is left behind in processes and /dev/shm is not looked at"
  export MT_TEST_ALONE=no
fi

# "pid parent name" of training processes and launchers; zombies are nobody.
left_processes() { ps -eo pid=,ppid=,stat=,comm= | awk '$3 !~ /^Z/ && $4 ~ /^(mt-train|hydra|mpiexec|orted|prte)/ { print $1, $2, $4 }'; }
nothing_left() {
  [ "$MT_TEST_ALONE" = yes ] || return 0
  local i
  for i in $(seq 100); do  # watchers and launchers have ten seconds to notice
    [ -z "$(left_processes)" ] && break
    sleep 0.1
  done
  [ -z "$(left_processes)" ] || fail "processes stay behind: $(left_processes)"
  [ -z "${1:-}" ] || [ -z "$(ls /dev/shm | grep '^mt-')" ] || fail "left in /dev/shm: $(ls /dev/shm)"
}
