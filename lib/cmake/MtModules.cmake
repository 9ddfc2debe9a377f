# The four kinds of target: mt_module (a folder of lib), mt_tool (a program), mt_tests (a test binary), mt_summary.

# Optional views and numbers are left out of initialisers; kernel tables turn that warning on.
set(MT_WARNINGS -Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND MT_WARNINGS -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)  # false on "literal" + std::string (GCC bug 105651)
endif()
if(MT_WERROR)
  list(APPEND MT_WARNINGS -Werror)
endif()
set(MT_COMPILE_OPTIONS ${MT_WARNINGS} -ffp-contract=off)
if(MT_OPENMP)  # everywhere, since a precompiled header is of use only where the flags are those it was made with
  list(APPEND MT_COMPILE_OPTIONS ${OpenMP_CXX_FLAGS})
endif()
# Tests compile a third faster at -O1; what they measure or exercise is the library, which keeps its own flags.
set(MT_TEST_OPTIONS ${MT_COMPILE_OPTIONS} $<$<CONFIG:Release>:-O1>)
set(MT_INCLUDES "${CMAKE_SOURCE_DIR}/lib" "${CMAKE_BINARY_DIR}/generated")

# Two precompiled headers, one for lib and tools, one for tests; they halve what a source costs. GCC warns and takes the
# text where a target's flags differ; clang makes that an error, so it goes without.
set(MT_PCH_DEFAULT OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MT_PCH_DEFAULT ON)
endif()
option(MT_PCH "Use precompiled headers" ${MT_PCH_DEFAULT})

function(mt_pch name)  # the remaining arguments are compile options
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/${name}.cc" CONTENT "")
  add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/generated/${name}.cc")
  target_compile_options(${name} PRIVATE ${ARGN} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_link_libraries(${name} PRIVATE fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
endfunction()
if(MT_PCH)
  mt_pch(mt_pch_lib ${MT_COMPILE_OPTIONS})
  target_precompile_headers(mt_pch_lib PRIVATE <algorithm> <filesystem> <functional> <map> <memory> <span> <string>
    <vector> <fmt/format.h> <nlohmann/json.hpp>)
  if(MT_TESTS)
    find_package(GTest REQUIRED)
    mt_pch(mt_pch_tests ${MT_TEST_OPTIONS})
    target_link_libraries(mt_pch_tests PRIVATE GTest::gtest)
    target_precompile_headers(mt_pch_tests PRIVATE <algorithm> <filesystem> <functional> <map> <memory> <span> <string>
      <vector> <fmt/format.h> <nlohmann/json.hpp> <gtest/gtest.h>)
  endif()
endif()

function(mt_use_pch target pch)
  if(MT_PCH)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
endfunction()

# mt_module(NAME DEPENDS modules... LINK libraries... SOURCES files... [NO_PCH]): one static library for lib/NAME.
# Sources are *.cc of the folder; those of backend folders are named by SOURCES. A module of headers alone is INTERFACE.
function(mt_module name)
  cmake_parse_arguments(A "NO_PCH" "" "DEPENDS;LINK;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  set(deps ${A_DEPENDS})
  list(TRANSFORM deps PREPEND mt_)
  if(sources OR A_SOURCES)
    set(scope PUBLIC)
    add_library(mt_${name} STATIC ${sources} ${A_SOURCES})
    target_compile_options(mt_${name} PRIVATE ${MT_COMPILE_OPTIONS})
    set_property(GLOBAL APPEND PROPERTY MT_MODULES ${name})
    if(NOT A_NO_PCH)
      mt_use_pch(mt_${name} mt_pch_lib)
    endif()
  else()
    set(scope INTERFACE)
    add_library(mt_${name} INTERFACE)
  endif()
  foreach(dir ${MT_INCLUDES})
    target_include_directories(mt_${name} ${scope} $<BUILD_INTERFACE:${dir}>)
  endforeach()
  target_include_directories(mt_${name} ${scope} $<INSTALL_INTERFACE:include/mt>)
  target_compile_features(mt_${name} ${scope} cxx_std_20)
  target_link_libraries(mt_${name} ${scope} ${deps} fmt::fmt nlohmann_json::nlohmann_json Threads::Threads ${A_LINK})
  set_property(GLOBAL APPEND PROPERTY MT_EXTERNAL ${A_LINK})
  install(TARGETS mt_${name} EXPORT mtTargets ARCHIVE DESTINATION lib)
endfunction()

# mt_tool(NAME LINK modules...): the program cmd/NAME.
function(mt_tool name)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc")
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/cmd")
  target_compile_options(${name} PRIVATE ${MT_COMPILE_OPTIONS})
  target_link_libraries(${name} PRIVATE ${A_LINK})
  mt_use_pch(${name} mt_pch_lib)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  set_property(GLOBAL APPEND PROPERTY MT_TOOLS ${name})
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# What every test finds in its environment.
set(MT_TEST_ENVIRONMENT "MT_TEST_BIN=${CMAKE_BINARY_DIR}/bin;MT_TEST_SOURCE=${CMAKE_SOURCE_DIR}"
  "MT_TEST_BUILD=${CMAKE_BINARY_DIR}" "MT_TEST_MPIEXEC=${MT_TEST_MPIEXEC}")

# mt_tests(FOLDER LINK modules... [LABELS l...] [NO_PCH] [FILTER f] [EMULATED [EMULATED_FILTER f]]): one GoogleTest binary
# for tests/FOLDER, whose tests are those of GoogleTest's filter. EMULATED: the same objects linked once more, with the CUDA backend that runs on tests/cuda_emulation/ in
# place of whichever lib/ was built with; its tests (those of GoogleTest's filter) run on that device as cuda.*.
function(mt_tests folder)
  cmake_parse_arguments(A "NO_PCH;EMULATED" "FILTER;EMULATED_FILTER" "LINK;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*.cc")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  target_include_directories(test_${folder} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_options(test_${folder} PRIVATE ${MT_TEST_OPTIONS})
  target_link_libraries(test_${folder} PRIVATE ${A_LINK} GTest::gtest GTest::gtest_main)
  if(NOT A_NO_PCH)
    mt_use_pch(test_${folder} mt_pch_tests)
  endif()
  mt_discover_tests(test_${folder} FILTER "${A_FILTER}" LABELS ${A_LABELS})
  if(A_EMULATED)
    add_executable(test_${folder}_emulated $<TARGET_OBJECTS:test_${folder}> $<TARGET_OBJECTS:mt_cuda_emulated>)
    if(NOT A_LINK MATCHES "^mt_(device|ops)$")  # those below comm
      target_sources(test_${folder}_emulated PRIVATE $<TARGET_OBJECTS:mt_nccl_emulated>)
    endif()
    target_link_libraries(test_${folder}_emulated PRIVATE ${A_LINK} mt_ops mt_cuda_emulation GTest::gtest
      GTest::gtest_main)
    set(MT_TEST_ENVIRONMENT "MT_TEST_DEVICE=cuda;${MT_TEST_ENVIRONMENT}")
    mt_discover_tests(test_${folder}_emulated PREFIX cuda. LABELS emulated ${A_LABELS} FILTER ${A_EMULATED_FILTER})
  endif()
endfunction()

# The tests of a binary, one by one, with labels and environment.
function(mt_discover_tests binary)
  cmake_parse_arguments(A "" "PREFIX;FILTER" "LABELS" ${ARGN})
  gtest_discover_tests(${binary} DISCOVERY_TIMEOUT 60 TEST_PREFIX "${A_PREFIX}" TEST_FILTER "${A_FILTER}" TEST_LIST ${binary}_list
    PROPERTIES TIMEOUT 600)
  # gtest_discover_tests cannot pass properties that are lists; CTest reads this file after its own.
  set(labels unit ${A_LABELS})
  set(properties "${CMAKE_CURRENT_BINARY_DIR}/${binary}_properties.cmake")
  file(CONFIGURE OUTPUT "${properties}" @ONLY CONTENT "foreach(test IN LISTS @binary@_list)
  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"@labels@\" ENVIRONMENT \"@MT_TEST_ENVIRONMENT@\")
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${properties}")
endfunction()

# mt_script_test(NAME script.sh [ARGS a...] [LABELS l...]): a bash script as a test; exit status 77 is a skip.
function(mt_script_test name script)
  cmake_parse_arguments(A "" "" "ARGS;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND bash "${CMAKE_SOURCE_DIR}/tests/${script}" ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "${MT_TEST_ENVIRONMENT}")
endfunction()

function(mt_summary)
  get_property(modules GLOBAL PROPERTY MT_MODULES)
  get_property(tools GLOBAL PROPERTY MT_TOOLS)
  list(JOIN modules " " modules)
  list(JOIN tools " " tools)
  set(used_0 "no ")
  set(used_1 "yes")
  set(omp "no   ops use one thread")
  if(MT_OPENMP)
    set(omp "yes  ${OpenMP_CXX_VERSION}")
  endif()
  set(cache "no   install ccache for faster rebuilds")
  if(CCACHE)
    set(cache "yes  ${CCACHE}")
  endif()
  message(STATUS "mt ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}
     MPI      ${used_${MT_HAVE_MPI}}  ${MT_MPI_NOTE}
     CUDA     ${used_${MT_HAVE_CUDA}}  ${MT_CUDA_NOTE}
     NCCL     ${used_${MT_HAVE_NCCL}}  ${MT_NCCL_NOTE}
     cuDNN    ${used_${MT_HAVE_CUDNN}}  ${MT_CUDNN_NOTE}
     OpenMP   ${omp}
     oneDNN   yes  ${dnnl_VERSION}
     ccache   ${cache}
     tests    ${MT_TESTS}
     modules  ${modules}
     tools    ${tools}")
endfunction()
