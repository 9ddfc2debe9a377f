#pragma once
// cuDNN's frontend, with the library opened when it is first asked for.
//
// Told to load dynamically, the frontend asks dlopen for a CUDA runtime of its own beside the one linked here, and for
// cuDNN through a handle it is given. Both questions come to library.cc. To be included before anything of the frontend,
// only inside ops/cudnn/.
// Code: ops/cudnn/library.cc.

#include <dlfcn.h>

#include <string>
#include <unordered_map>

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING

namespace mt::ops::cudnn {

void* open_for_frontend(const char* name, int flags);
void* find_for_frontend(void* handle, const char* name);

// "" or why there is no cuDNN.   cost  the first time, opening the library
const std::string& library_fault();
// Where there is no driver, what the toolkit has to link against in its place: the library asks whether one is there before it
// says what it has. For tests.
void lend_driver();

}  // namespace mt::ops::cudnn

#define dlopen(name, flags) ::mt::ops::cudnn::open_for_frontend(name, flags)
#define dlsym(handle, name) ::mt::ops::cudnn::find_for_frontend(handle, name)
#include <cudnn_frontend.h>
#undef dlopen
#undef dlsym
