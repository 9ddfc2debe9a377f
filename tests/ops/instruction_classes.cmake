# The ops' tests again with the kernels of lesser processors, and the symbols of those kernels looked at.
foreach(isa SSE41 AVX2 AVX512)
  string(REPLACE AVX512 AVX512_CORE onednn_isa ${isa})
  add_test(NAME ops_with_${isa} COMMAND test_ops --gtest_brief=1)
  set_tests_properties(ops_with_${isa} PROPERTIES LABELS "unit;isa" TIMEOUT 600
    ENVIRONMENT "MT_MAX_CPU_ISA=${isa};DNNL_MAX_CPU_ISA=${onednn_isa};OMP_NUM_THREADS=2;MT_TEST_SOURCE=${CMAKE_SOURCE_DIR}")
endforeach()

if(TARGET mt_ops_avx512)
  foreach(class avx2 avx512)
    add_test(NAME vector_symbols_${class} COMMAND_EXPAND_LISTS
      COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/vector_symbols.sh ${class} $<TARGET_OBJECTS:mt_ops_${class}>)
    set_tests_properties(vector_symbols_${class} PROPERTIES LABELS lint)
  endforeach()
endif()
