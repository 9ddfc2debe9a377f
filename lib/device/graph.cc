#include "device/graph.h"

#include "base/error.h"
#include "device/backend.h"

namespace mt {

struct Graph::Native {
  int device;
  void* graph;
  Native(int d, void* g) : device(d), graph(g) {}
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
  ~Native() { cuda_backend().destroy_graph(device, graph); }
};

Graph Graph::capture(Stream& stream, const std::function<void()>& work) {
  MT_CHECK(stream.native() != nullptr, "a graph of {}", device_text(stream.device()));
  const DeviceBackend& backend = cuda_backend();
  const int device = stream.device().index;
  backend.begin_capture(device, stream.native());
  try {
    work();
  } catch (...) {
    if (void* graph = backend.end_capture(device, stream.native())) backend.destroy_graph(device, graph);
    throw;
  }
  void* graph = backend.end_capture(device, stream.native());
  if (graph == nullptr)
    throw Error(Code::device, "what was launched cannot be a CUDA graph", device_text(stream.device()),
                "--cuda-graph-impl none");
  Graph g;
  g.native_ = std::make_shared<Native>(device, graph);
  return g;
}

void Graph::launch(Stream& stream) const {
  cuda_backend().launch_graph(stream.device().index, stream.native(), native_->graph);
}

}  // namespace mt
