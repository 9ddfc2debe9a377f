#include "probe/machine.h"

#include <memory>

#include <hwloc.h>
#include <unistd.h>

#include "base/error.h"
#include "device/device.h"

namespace mt {

namespace {

struct Destroy {
  void operator()(hwloc_topology_t t) const { hwloc_topology_destroy(t); }
};

void add_cache(Json& j, hwloc_topology_t t, const char* key, hwloc_obj_type_t type) {
  if (const hwloc_obj_t cache = hwloc_get_obj_by_type(t, type, 0); cache && cache->attr)
    j[key] = cache->attr->cache.size;
}

}  // namespace

Json machine_json() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error(Code::device, "hwloc does not start");
  const std::unique_ptr<hwloc_topology, Destroy> topology(raw);
  if (hwloc_topology_load(raw) != 0) throw Error(Code::device, "hwloc cannot read this machine");
  const auto count = [&](hwloc_obj_type_t type) { return hwloc_get_nbobjs_by_type(raw, type); };
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  Json j{{"host", host},
         {"packages", count(HWLOC_OBJ_PACKAGE)},
         {"numa_nodes", count(HWLOC_OBJ_NUMANODE)},
         {"cores", count(HWLOC_OBJ_CORE)},
         {"hardware_threads", count(HWLOC_OBJ_PU)},
         {"usable_cores", usable_cores()}};
  if (const hwloc_obj_t root = hwloc_get_root_obj(raw)) j["memory_bytes"] = root->total_memory;
  add_cache(j, raw, "l1d_bytes", HWLOC_OBJ_L1CACHE);
  add_cache(j, raw, "l2_bytes", HWLOC_OBJ_L2CACHE);
  add_cache(j, raw, "l3_bytes", HWLOC_OBJ_L3CACHE);
  j["cpu_isa"] = cpu_isa_name(cpu_isa());
  if (const hwloc_obj_t package = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PACKAGE, 0))
    if (const char* model = hwloc_obj_get_info_by_name(package, "CPUModel")) j["cpu_model"] = model;
  return j;
}

}  // namespace mt
