# The CUDA backend compiled by the host's compiler against this folder: the same .cu files, no nvcc, no GPU.
find_package(Boost REQUIRED COMPONENTS context)

file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/*/cuda/*.cu")
file(GLOB emulation_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cc")
set_source_files_properties(${cuda_sources} PROPERTIES LANGUAGE CXX)

# What whoever links the objects needs beside them.
add_library(mt_cuda_emulation INTERFACE)
target_link_libraries(mt_cuda_emulation INTERFACE Boost::context)

# How sources are compiled that contain kernels.
add_library(mt_cuda_emulated_flags INTERFACE)
target_include_directories(mt_cuda_emulated_flags INTERFACE "${CMAKE_CURRENT_LIST_DIR}")
target_compile_definitions(mt_cuda_emulated_flags INTERFACE MT_CUDA_EMULATED=1)
target_compile_options(mt_cuda_emulated_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
  -Wno-unknown-pragmas -Wno-attributes -ffp-contract=off -fno-strict-aliasing $<$<CONFIG:Release>:-O2>)
if(MT_WERROR)
  target_compile_options(mt_cuda_emulated_flags INTERFACE -Werror)
endif()

add_library(mt_cuda_emulated OBJECT ${cuda_sources} ${emulation_sources})
target_link_libraries(mt_cuda_emulated PRIVATE mt_cuda_emulated_flags mt_ops Boost::context)

# The NCCL communicator, compiled against this folder too.
file(GLOB nccl_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/comm/nccl/*.cc")
add_library(mt_nccl_emulated OBJECT ${nccl_sources})
target_link_libraries(mt_nccl_emulated PRIVATE mt_cuda_emulated_flags mt_comm)

# Tools of a user once more, with the emulated device: what scripts start in place of the tool of that name.
foreach(tool mt-train mt-eval)
  if(TARGET ${tool})
    get_target_property(links ${tool} LINK_LIBRARIES)
    add_executable(${tool}-emulated $<TARGET_OBJECTS:${tool}> $<TARGET_OBJECTS:mt_cuda_emulated>
      $<TARGET_OBJECTS:mt_nccl_emulated>)
    target_link_libraries(${tool}-emulated PRIVATE ${links} mt_cuda_emulation)
    set_target_properties(${tool}-emulated PROPERTIES OUTPUT_NAME ${tool}
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/emulated-cuda")
  endif()
endforeach()

# What the emulation finds, shown to it.
file(GLOB self_tests CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/self_test/*.cc")
add_executable(test_cuda_emulation ${self_tests} $<TARGET_OBJECTS:mt_cuda_emulated>)
target_link_libraries(test_cuda_emulation PRIVATE mt_cuda_emulated_flags mt_ops mt_cuda_emulation GTest::gtest
  GTest::gtest_main)
target_include_directories(test_cuda_emulation PRIVATE "${CMAKE_SOURCE_DIR}/tests")
mt_discover_tests(test_cuda_emulation PREFIX cuda. LABELS emulated)
# fp8 on devices that have none of it, only scales of tensors, or no scales of 128; cuDNN's attention on none and on Blackwell.
foreach(capability 80 89 100)
  add_test(NAME cuda.test_ops_emulated.capability_${capability}
    COMMAND test_ops_emulated --gtest_brief=1 --gtest_filter=Fp8*:CudaEqualsCpu.Fp8:CudnnAttention.*)
  set_tests_properties(cuda.test_ops_emulated.capability_${capability} PROPERTIES LABELS "unit;emulated" TIMEOUT 600
    ENVIRONMENT "MT_EMULATION_CAPABILITY=${capability};MT_TEST_DEVICE=cuda;${MT_TEST_ENVIRONMENT}")
endforeach()
# Once more with threads, blocks and streams in other orders.
foreach(seed 1 2 3)
  foreach(binary test_cuda_emulation test_device_emulated)
    add_test(NAME cuda.${binary}.seed_${seed} COMMAND ${binary} --gtest_brief=1)
    set_tests_properties(cuda.${binary}.seed_${seed} PROPERTIES LABELS "unit;emulated" TIMEOUT 600
      ENVIRONMENT "MT_EMULATION_SEED=${seed};MT_TEST_DEVICE=cuda;${MT_TEST_ENVIRONMENT}")
  endforeach()
endforeach()

# Every barrier and wait of the kernels left out in turn, and the script for a real GPU run on the emulated one.
mt_script_test(cuda.mutants cuda_emulation/mutate.sh ARGS "${CMAKE_BINARY_DIR}" LABELS "nightly;emulated")
set_tests_properties(cuda.mutants PROPERTIES TIMEOUT 3600)
mt_script_test(cuda.gpu_script gpu.sh ARGS --small --build "${CMAKE_BINARY_DIR}" --json
  "${CMAKE_CURRENT_BINARY_DIR}/gpu.json" LABELS "nightly;emulated")
