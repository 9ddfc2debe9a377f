# bench_train_step: a whole step beside the machine's limit. Not built by default.
if(MT_OPENMP)
  add_executable(bench_train_step EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/train_step_bench.cc)
  target_include_directories(bench_train_step PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_options(bench_train_step PRIVATE ${MT_WARNINGS})
  target_link_libraries(bench_train_step PRIVATE mt_engine mt_plan)
endif()

# bench_async_save: how long a save beside training keeps it. Not built by default.
add_executable(bench_async_save EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/async_save_bench.cc)
target_include_directories(bench_async_save PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(bench_async_save PRIVATE ${MT_WARNINGS})
target_link_libraries(bench_async_save PRIVATE mt_engine)
