# Tests of the tree as a whole: the installed product, lints, and what scripts and tests share.
mt_script_test(install.client install/install_test.sh LABELS install
  ARGS "${CMAKE_CXX_COMPILER}" "${CMAKE_GENERATOR}" "${CMAKE_CXX_FLAGS}")

if(MT_HAVE_MPI)
  add_executable(mpi_world_probe mpi_world_probe.cc)
  target_link_libraries(mpi_world_probe PRIVATE mt_mpi_backend)
  set_target_properties(mpi_world_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endif()
