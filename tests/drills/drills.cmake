# A rank fails in each of the ways it can (tests/drills/mt-train.sh).
if(MT_HAVE_MPI)
  foreach(drill throw kill stop term-training term-evaluation config)
    mt_script_test(drill.mt-train.${drill}.4 drills/mt-train.sh ARGS ${drill} 4 LABELS mpi)
  endforeach()
  foreach(drill throw kill)
    mt_script_test(drill.mt-train.${drill}.2 drills/mt-train.sh ARGS ${drill} 2 LABELS mpi)
  endforeach()
endif()

# kill -9 at random moments, and at every file operation of a save: a sample always, everything in the full run.
mt_script_test(drill.kill_anywhere.50 drills/kill_anywhere.sh ARGS 50 LABELS "cli;mpi")
mt_script_test(drill.kill_anywhere.500 drills/kill_anywhere.sh ARGS 500 LABELS "nightly;mpi")
foreach(mode wait async)
  mt_script_test(drill.kill_in_save.threads.${mode} drills/kill_in_save.sh ARGS threads ${mode} LABELS nightly)
  mt_script_test(drill.kill_in_save.mpi.${mode} drills/kill_in_save.sh ARGS mpi ${mode} LABELS "nightly;mpi")
endforeach()
mt_script_test(drill.kill_in_save.sample drills/kill_in_save.sh ARGS threads async 6 LABELS cli)
mt_script_test(drill.kill_in_save.sample.mpi drills/kill_in_save.sh ARGS mpi async 12 LABELS "cli;mpi")
