# A rank fails in each of the ways it can (tests/drills/mt-train.sh).
if(MT_HAVE_MPI)
  foreach(drill throw kill stop term-training term-evaluation config)
    mt_script_test(drill.mt-train.${drill}.4 drills/mt-train.sh ARGS ${drill} 4 LABELS mpi)
  endforeach()
  foreach(drill throw kill)
    mt_script_test(drill.mt-train.${drill}.2 drills/mt-train.sh ARGS ${drill} 2 LABELS mpi)
  endforeach()
endif()
