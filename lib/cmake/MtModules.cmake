# mt_module(NAME DEPENDS modules... LINK libraries...): one static library for lib/NAME.
# Sources are *.cc of the folder; backend folders are added by the module's own CMakeLists.

set(MT_WARNINGS -Wall -Wextra -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND MT_WARNINGS -Wno-missing-field-initializers)  # optional views are left out; kernel tables turn it on
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND MT_WARNINGS -Wno-restrict)  # false reports on "literal" + std::string (GCC bug 105651)
  endif()
endif()
if(MT_WERROR)
  list(APPEND MT_WARNINGS -Werror)
endif()

function(mt_module name)
  cmake_parse_arguments(A "" "" "DEPENDS;LINK;SOURCES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cc")
  add_library(mt_${name} STATIC ${sources} ${A_SOURCES})
  target_include_directories(mt_${name} PUBLIC "${CMAKE_SOURCE_DIR}/lib")
  target_compile_options(mt_${name} PRIVATE ${MT_WARNINGS} -ffp-contract=off)
  set(deps)
  foreach(d ${A_DEPENDS})
    list(APPEND deps mt_${d})
  endforeach()
  target_link_libraries(mt_${name} PUBLIC ${deps} fmt::fmt nlohmann_json::nlohmann_json Threads::Threads ${A_LINK})
endfunction()

# mt_tool(NAME LINK modules...): the program cmd/NAME.
function(mt_tool name)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc")
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/cmd")
  target_compile_options(${name} PRIVATE ${MT_WARNINGS})
  target_link_libraries(${name} PRIVATE ${A_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

# mt_tests(FOLDER LINK modules... [LABELS l...]): one GoogleTest binary for tests/FOLDER.
function(mt_tests folder)
  cmake_parse_arguments(A "" "" "LINK;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*.cc")
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  target_include_directories(test_${folder} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  target_compile_options(test_${folder} PRIVATE ${MT_WARNINGS} -ffp-contract=off)
  target_link_libraries(test_${folder} PRIVATE ${A_LINK} GTest::gtest GTest::gtest_main)
  gtest_discover_tests(test_${folder} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "unit;${A_LABELS}" TIMEOUT 600
    ENVIRONMENT "MT_TEST_BIN=${CMAKE_BINARY_DIR}/bin;MT_TEST_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()
