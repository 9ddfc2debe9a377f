# Tests of ops that the emulated CUDA backend does not run, each line with its reason. CTest prints them as disabled.
set(MT_EMULATED_SKIPS)
