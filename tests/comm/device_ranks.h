#pragma once
// Ranks that are threads of this process, each on a device of the kind under test, and how the host sees their numbers.

#include <functional>
#include <span>
#include <vector>

#include "comm/staged.h"
#include "comm/world.h"
#include "device/host_side.h"
#include "device/test_device.h"

namespace mt::test {

inline Device rank_device(const Communicator& world) { return device_of_rank(device_name(), world.rank()); }

using DeviceBody = std::function<void(Communicator& world)>;
inline void on_device_ranks(int n, const DeviceBody& body) {
  CommOptions options;
  options.timeout_s = 60;
  comm::run_local_ranks(n, options, [&](std::unique_ptr<Communicator> world) {
    if (on_cpu()) return body(*world);
    body(*comm::staged(*world, rank_device(*world)));
  });
}

// Elements of a contiguous view, whose dtype is T's.
template <class T = float>
std::vector<T> elements(Stream& stream, const View& v) {
  MT_CHECK(v.dtype == dtype_of<T> && v.contiguous(), "elements of {}", dtype_name(v.dtype));
  HostSide side(stream, v.data, v.bytes());
  side.fetch();
  return {side.as<T>(), side.as<T>() + v.size()};
}
template <class T>
T element(Stream& stream, const View& v) {
  return elements<T>(stream, v).at(0);
}
template <class T>
void set_elements(Stream& stream, const View& v, std::span<const T> values) {
  MT_CHECK(v.dtype == dtype_of<T> && v.contiguous() && v.size() == static_cast<std::int64_t>(values.size()), "{} elements",
           values.size());
  upload_bytes(stream, v.data, values.data(), v.bytes());
}

}  // namespace mt::test
