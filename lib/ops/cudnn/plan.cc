#include "ops/cudnn/graph.h"

#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace mt::ops::cuda {

namespace {

using namespace mt::ops::cudnn;

[[noreturn]] void fail(const char* what, const std::string& why, int device) {
  throw Error(Code::device, fmt::format("cuDNN: {} failed: {}", what, why), fmt::format("cuda:{}", device),
              "this is a fault of the driver, of cuDNN or of mt; --attention-backend flash goes without it");
}

// A handle has one stream at a time, and one caller.
struct Handle {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

Handle& handle_of(int device) {
  static std::mutex& mutex = *new std::mutex;  // kept to the end: the driver may be gone before static objects are
  static auto& handles = *new std::map<int, Handle>;
  const std::lock_guard lock(mutex);
  Handle& h = handles[device];
  if (h.handle == nullptr) {
    const cudnnStatus_t status = fe::detail::create_handle(&h.handle);
    if (status != CUDNN_STATUS_SUCCESS) fail("cudnnCreate", fe::detail::get_error_string(status), device);
  }
  return h;
}

class GraphPlan final : public SdpaPlan {
 public:
  GraphPlan(const Sdpa& sdpa, std::shared_ptr<Graph> graph) : sdpa_(sdpa), graph_(std::move(graph)) {
    std::int64_t bytes = 0;
    auto e = graph_->get_workspace_size(bytes);
    if (e.is_bad()) fail("get_workspace_size", e.get_message(), sdpa.device);
    bytes_ = static_cast<std::size_t>(bytes);
  }
  std::size_t workspace_bytes() const override { return bytes_; }

  void run(void* stream, const SdpaMemory& m) const override {
    std::unordered_map<std::int64_t, void*> pointers;
    for (int t = 0; t < kSdpaTensors; ++t) {
      const auto i = static_cast<std::size_t>(t);
      if (m.data[i] == nullptr) continue;
      pointers[uid_of(t)] = m.data[i];
      if (sdpa_.packed) pointers[firsts_uid_of(t)] = m.firsts[i];
    }
    if (sdpa_.packed) {
      pointers[kQueryLengthsUid] = m.query_lengths;
      pointers[kKeyLengthsUid] = m.key_lengths;
    }
    Handle& h = handle_of(sdpa_.device);
    const std::lock_guard lock(h.mutex);
    const cudnnStatus_t status = fe::detail::set_stream(h.handle, static_cast<cudaStream_t>(stream));
    if (status != CUDNN_STATUS_SUCCESS) fail("cudnnSetStream", fe::detail::get_error_string(status), sdpa_.device);
    auto e = graph_->execute(h.handle, pointers, m.workspace);
    if (e.is_bad()) fail("attention", e.get_message(), sdpa_.device);
  }

 private:
  Sdpa sdpa_;
  std::shared_ptr<Graph> graph_;
  std::size_t bytes_ = 0;
};

}  // namespace

const std::string& why_no_sdpa() { return library_fault(); }

std::string sdpa_library() {
  if (!library_fault().empty()) return "no cuDNN";
  const std::size_t v = fe::detail::get_backend_version();
  return fmt::format("cuDNN {}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::unique_ptr<SdpaPlan> make_sdpa_plan(const Sdpa& sdpa, std::string& why) {
  Handle& h = handle_of(sdpa.device);
  const std::lock_guard lock(h.mutex);
  try {
    auto graph = sdpa_graph(sdpa);
    auto e = graph->build(h.handle, {fe::HeurMode_t::A});
    if (e.is_good()) return std::make_unique<GraphPlan>(sdpa, std::move(graph));
    why = e.get_message();
  } catch (const std::runtime_error& e) {  // the library has no function of that name
    why = e.what();
  }
  return nullptr;
}

std::string why_no_sdpa_engine(const Sdpa& sdpa, const std::string& device_properties) {
  if (!library_fault().empty()) return library_fault();
  lend_driver();
  auto device = std::make_shared<fe::DeviceProperties>();
  auto e = device->deserialize(std::vector<std::uint8_t>(device_properties.begin(), device_properties.end()));
  const auto graph = sdpa_graph(sdpa);
  graph->set_device_properties(device);
  if (e.is_good()) e = graph->validate();
  if (e.is_good()) e = graph->build_operation_graph();
  if (e.is_good()) e = graph->create_execution_plans({fe::HeurMode_t::A});
  if (e.is_good()) e = graph->check_support();
  return e.is_good() ? "" : e.get_message();
}

}  // namespace mt::ops::cuda
