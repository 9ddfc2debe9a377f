# bench_gemm, bench_attention, bench_ops: kernels beside the machine's limits. Not built by default.
if(MT_OPENMP)
  foreach(bench gemm attention op)
    string(REPLACE op ops name ${bench})
    add_executable(bench_${name} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/${bench}_bench.cc)
    target_include_directories(bench_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_compile_options(bench_${name} PRIVATE ${MT_WARNINGS})
    target_link_libraries(bench_${name} PRIVATE mt_ops)
  endforeach()
endif()

# bench_gpu: the same ops on a GPU; bench_gpu_emulated: the same program on the emulated one, to see that it runs.
foreach(suffix "" _emulated)
  add_executable(bench_gpu${suffix} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/gpu_bench.cc)
  target_compile_options(bench_gpu${suffix} PRIVATE ${MT_WARNINGS})
  target_link_libraries(bench_gpu${suffix} PRIVATE mt_ops)
endforeach()
set_target_properties(bench_gpu_emulated PROPERTIES EXCLUDE_FROM_ALL FALSE)  # the nightly gpu.sh starts it
target_sources(bench_gpu_emulated PRIVATE $<TARGET_OBJECTS:mt_cuda_emulated>)
target_link_libraries(bench_gpu_emulated PRIVATE mt_cuda_emulation)
