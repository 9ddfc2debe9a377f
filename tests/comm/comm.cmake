# The communication tests: once in process (mt_tests), and once more on every rank of MPI jobs of several sizes.
mt_tests(comm LINK mt_comm FILTER "-Nccl*:*/nccl*" EMULATED EMULATED_FILTER "Staged.*:*/staged*:Nccl*:*/nccl*")
if(MT_HAVE_MPI)
  target_sources(test_comm PRIVATE comm/mpi/messages_test.cc)
  target_link_libraries(test_comm PRIVATE mt_mpi_backend)
  foreach(ranks 1 2 3 4 8)
    mt_script_test(comm.mpi.${ranks} comm/mpi.sh ARGS "$<TARGET_FILE:test_comm>" ${ranks} LABELS mpi)
  endforeach()
  mt_script_test(comm.mpi.3.cut comm/mpi.sh ARGS "$<TARGET_FILE:test_comm>" 3 MT_TEST_CHUNK=104 LABELS mpi)
  foreach(failure ATimeOut AMessageThatNeverComes RanksThatCallDifferent RanksThatDisagree)
    mt_script_test(comm.mpi.failure.${failure} comm/mpi.sh LABELS mpi ARGS "$<TARGET_FILE:test_comm>" 3
      MT_TEST_FAILURES=1 MT_TEST_TIMEOUT_S=3 "GTEST_FILTER=*${failure}*")
  endforeach()
endif()
