# Tests of the tree as a whole: the installed product, faults, lints, and what scripts and tests share.

# The fault shim (tests/fault/README.md). Sanitizers insist on being loaded first, so there is none under them.
set(fault_lib)
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_library(mt_fault SHARED fault/shim/fault_shim.cc)
  target_link_libraries(mt_fault PRIVATE ${CMAKE_DL_LIBS})
  target_compile_options(mt_fault PRIVATE ${MT_WARNINGS})
  target_compile_definitions(mt_fault PRIVATE _GNU_SOURCE)
  set_target_properties(mt_fault PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  set(fault_lib "${CMAKE_BINARY_DIR}/libmt_fault.so")
endif()
list(APPEND MT_TEST_ENVIRONMENT "MT_TEST_FAULT_LIB=${fault_lib}")
add_executable(write_atomic fault/shim/write_atomic.cc)
target_link_libraries(write_atomic PRIVATE mt_base)
set_target_properties(write_atomic PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

mt_script_test(install.client install/install_test.sh LABELS install
  ARGS "${CMAKE_CXX_COMPILER}" "${CMAKE_GENERATOR}" "${CMAKE_CXX_FLAGS}")

if(MT_HAVE_MPI)
  add_executable(mpi_world_probe mpi_world_probe.cc)
  target_link_libraries(mpi_world_probe PRIVATE mt_mpi_backend)
  set_target_properties(mpi_world_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endif()

# Lints (tests/lint/), and the test that each finds its mistake.
get_property(tools GLOBAL PROPERTY MT_TOOLS)
set(mpi_flags)
if(MT_HAVE_MPI)
  get_target_property(mpi_includes mt_mpi_backend INTERFACE_INCLUDE_DIRECTORIES)
  if(mpi_includes)
    list(TRANSFORM mpi_includes PREPEND -I OUTPUT_VARIABLE mpi_flags)
  endif()
endif()
mt_script_test(lint.self_test lint/self_test.sh LABELS lint)
mt_script_test(lint.floors lint/floors.sh LABELS lint)
mt_script_test(lint.sizes lint/sizes.sh LABELS lint)
mt_script_test(lint.names lint/names.sh LABELS lint)
mt_script_test(lint.headers_alone lint/headers_alone.sh LABELS lint
  ARGS "${CMAKE_CXX_COMPILER}" "${CMAKE_BINARY_DIR}/generated" ${mpi_flags})
set_tests_properties(lint.headers_alone PROPERTIES PROCESSORS 2)
mt_script_test(lint.man_pages lint/man_pages.sh LABELS "lint;man" ARGS ${tools})
mt_script_test(lint.linkage lint/linkage.sh LABELS lint ARGS ${tools})
file(GLOB pages CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/man/*.1")
foreach(page ${pages})
  get_filename_component(tool "${page}" NAME_WE)
  mt_script_test(man.examples.${tool} lint/man_examples.sh LABELS man ARGS "${page}")
endforeach()
