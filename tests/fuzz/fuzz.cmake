# With clang and -DMT_FUZZ=ON (preset "fuzz"): a libFuzzer program a target, fuzz_<name> in the build's bin.
#   TMPDIR=/dev/shm build/fuzz/bin/fuzz_token_index -max_total_time=600 -close_fd_mask=2 NEW tests/fuzz/corpus/token_index
option(MT_FUZZ "Build the libFuzzer programs (clang, library compiled with -fsanitize=fuzzer-no-link)" OFF)
if(MT_FUZZ)
  foreach(target tokenizer_json sentencepiece_model token_index text_lines pickle torch_file torch_metadata gguf
          manifest safetensors_header packed_file)
    add_executable(fuzz_${target} EXCLUDE_FROM_ALL fuzz/entry/fuzz_entry.cc fuzz/tokenizer_fuzz.cc
      fuzz/token_index_fuzz.cc fuzz/text_lines_fuzz.cc
      fuzz/pickle_fuzz.cc fuzz/torch_file_fuzz.cc fuzz/gguf_fuzz.cc fuzz/checkpoint_fuzz.cc)
    target_include_directories(fuzz_${target} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
    target_compile_definitions(fuzz_${target} PRIVATE MT_FUZZ_TARGET=${target})
    target_compile_options(fuzz_${target} PRIVATE ${MT_TEST_OPTIONS})
    target_link_libraries(fuzz_${target} PRIVATE mt_data mt_foreign)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer)
    set_target_properties(fuzz_${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
  endforeach()
endif()
