# Finds every library the project uses. What was found is printed by mt_summary() at the end of the configure step.

# ccache must be told that a precompiled header may stand in for the text, or it misses every time.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime;${CCACHE}")
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
find_package(BZip2 REQUIRED)
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)

# oneDNN 2.6 (Debian 12) and 3.x (Ubuntu 24.04, a user's own build). Debian's package file asks for OpenCL headers that
# the package itself does not pull in; the library and its header are enough then.
find_package(dnnl CONFIG QUIET)
if(NOT TARGET DNNL::dnnl)
  find_path(DNNL_INCLUDE_DIR dnnl.hpp PATH_SUFFIXES oneapi/dnnl REQUIRED)
  find_library(DNNL_LIBRARY dnnl REQUIRED)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION "${DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
endif()
if(NOT dnnl_VERSION)
  find_file(DNNL_VERSION_HEADER NAMES oneapi/dnnl/dnnl_version.h dnnl_version.h)
  set(dnnl_VERSION "found")
  if(DNNL_VERSION_HEADER)
    file(STRINGS "${DNNL_VERSION_HEADER}" lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
    string(REPLACE ";" "." dnnl_VERSION "${numbers}")
  endif()
endif()

# OpenMP is optional: everything is right without it, ops only run on one thread.
if(MT_OPENMP)
  find_package(OpenMP COMPONENTS CXX)
  if(NOT OpenMP_CXX_FOUND)
    message(WARNING "OpenMP was not found for this compiler: ops will use one thread (clang needs libomp-dev)")
    set(MT_OPENMP OFF)
  endif()
endif()

include(MtBackends)
