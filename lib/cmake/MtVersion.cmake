# Run at every build (cmake -P): writes version.cc only when the text changed, so nothing is rebuilt for nothing.
# Needs SOURCE_DIR, MT_VERSION, INPUT, OUTPUT.
find_package(Git QUIET)
set(MT_VERSION_DESCRIBE "")
if(GIT_FOUND AND EXISTS "${SOURCE_DIR}/.git")
  execute_process(COMMAND "${GIT_EXECUTABLE}" -c "safe.directory=*" describe --always --dirty --tags
    WORKING_DIRECTORY "${SOURCE_DIR}" OUTPUT_VARIABLE MT_VERSION_DESCRIBE
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
configure_file("${INPUT}" "${OUTPUT}" @ONLY)
