# bench_ckpt: checkpoint write and read beside dd with the same sync mode. Not built by default.
add_executable(bench_ckpt EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/ckpt_bench.cc)
target_include_directories(bench_ckpt PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(bench_ckpt PRIVATE ${MT_WARNINGS})
target_link_libraries(bench_ckpt PRIVATE mt_ckpt mt_device)
