# bench_encode: encoding speed beside memcpy and bare simdjson. Not built by default.
add_executable(bench_encode EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/encode_bench.cc)
target_compile_options(bench_encode PRIVATE ${MT_WARNINGS})
target_link_libraries(bench_encode PRIVATE mt_data)
# bench_sample_order: orders of many documents, the index cache, blends of many members. Not built by default.
add_executable(bench_sample_order EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/sample_order_bench.cc)
target_compile_options(bench_sample_order PRIVATE ${MT_WARNINGS})
target_link_libraries(bench_sample_order PRIVATE mt_data)
