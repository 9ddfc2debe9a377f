// NCCL for ranks that are threads of this process.
#include "nccl.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/dtype.h"

using mt::emulation::stop;

namespace {

enum class Kind : std::uint8_t { all_reduce, reduce, reduce_scatter, all_gather, broadcast, send, recv };
constexpr const char* kKindNames[] = {"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclAllGather",
                                      "ncclBroadcast", "ncclSend",   "ncclRecv"};

struct Task {
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root_or_peer;
  bool in_graph = false, done = false;
  std::uint64_t number = 0;  // among the collectives, or the messages of this pair
};

struct Launch;
struct Part {
  std::shared_ptr<Launch> launch;
  Task* task = nullptr;
};

// A communicator over its ranks.
struct World {
  std::vector<ncclComm*> ranks;
  int joined = 0;
  std::map<std::uint64_t, std::vector<Part>> collectives;
  std::map<std::pair<int, int>, std::map<std::uint64_t, std::pair<Part, Part>>> messages;  // sender's, receiver's
};

std::map<std::string, std::weak_ptr<World>>& worlds() {
  static auto& w = *new std::map<std::string, std::weak_ptr<World>>;
  return w;
}

[[noreturn]] void stop_with(const char* format, const char* a, const char* b = "", long x = 0, long y = 0) {
  char text[400];
  std::snprintf(text, sizeof text, format, a, b, x, y);
  stop(text);
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclFloat32: return 4;
    default: return 8;
  }
}

// Element by element around the ring, beginning behind the rank whose share of the elements it is in.
template <class T>
void reduce_as(std::vector<const void*> sources, void* to, std::size_t count, ncclRedOp_t op) {
  const std::size_t n = sources.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * n / count + 1;
    T best = static_cast<const T*>(sources[first % n])[i];
    for (std::size_t hop = 1; hop < n; ++hop) {
      const T next = static_cast<const T*>(sources[(first + hop) % n])[i];
      if constexpr (std::is_same_v<T, mt::bf16> || std::is_same_v<T, mt::f16>) {
        const float a = mt::to_f32(best), b = mt::to_f32(next);
        best = mt::from_f32<T>(op == ncclSum ? a + b : std::max(a, b));
      } else {
        best = op == ncclSum ? static_cast<T>(best + next) : std::max(best, next);
      }
    }
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(T), &best, sizeof(T));
  }
}

void reduce(const std::vector<const void*>& sources, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclFloat64: return reduce_as<double>(sources, to, count, op);
    case ncclFloat32: return reduce_as<float>(sources, to, count, op);
    case ncclBfloat16: return reduce_as<mt::bf16>(sources, to, count, op);
    case ncclFloat16: return reduce_as<mt::f16>(sources, to, count, op);
    case ncclInt64: return reduce_as<std::int64_t>(sources, to, count, op);
    case ncclInt32: return reduce_as<std::int32_t>(sources, to, count, op);
    case ncclInt8: return reduce_as<std::int8_t>(sources, to, count, op);
  }
}

using Bytes = std::vector<std::byte>;

void carry_out(const std::vector<Part>& parts);

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0, device = 0;
  bool aborted = false, destroyed = false;
  ncclResult_t error = ncclSuccess;
  std::uint64_t calls = 0, launches = 0, finished = 0, collectives = 0;
  std::atomic<int> graphs{0};  // operations that live in graphs
  std::map<int, std::uint64_t> sent, received;
  std::shared_ptr<Launch> pending;
  cudaStream_t pending_on = nullptr;
  int asked = 0;
};

namespace {

// What one call, or one group of calls, does on one communicator.
struct Launch final : mt::emulation::Together, std::enable_shared_from_this<Launch> {
  ncclComm* comm = nullptr;
  std::vector<Task> tasks;
  bool reached = false;  // everything before it in its stream is done
  bool stuck = false;
  bool noted = false;    // for a graph: it is never carried out itself
  std::uint64_t order = 0;  // among those of its communicator

  Launch() = default;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() override {
    if (noted) --comm->graphs;
  }
  std::shared_ptr<mt::emulation::Together> again() override;

  bool advance() override {
    reached = true;
    for (Task& t : tasks)
      if (!comm->aborted && !stuck && !t.done) move(t);
    return comm->aborted || is_done();
  }

  bool given_up() const override { return comm->aborted; }

  void move(Task& t) {
    const std::shared_ptr<World> world = comm->world;
    std::vector<Part> parts;
    if (t.kind == Kind::send || t.kind == Kind::recv) {
      const bool sends = t.kind == Kind::send;
      const std::pair pair = sends ? std::pair{comm->rank, t.root_or_peer} : std::pair{t.root_or_peer, comm->rank};
      const auto& [from, to] = world->messages[pair][t.number];
      parts = {from, to};
    } else {
      parts = world->collectives[t.number];
    }
    for (const Part& p : parts)
      if (!p.launch) return;  // not called yet
    for (const Part& p : parts) check(t, *p.task);
    for (const Part& p : parts) {
      if (p.launch->stuck || p.launch->comm->aborted) return;
      if (p.launch->reached) continue;
      if (!mt::emulation::bring_to_front(*p.launch, *this)) return;
      if (t.done || comm->aborted) return;  // threads went on meanwhile
      p.launch->reached = true;
    }
    for (const Part& p : parts)
      if (p.launch->comm->aborted) return;
    for (const Part& p : parts)
      if (p.launch->order != p.launch->comm->finished)
        stop_with("%s%s runs before what was called on its communicator first", kKindNames[static_cast<int>(t.kind)]);
    carry_out(parts);
    for (const Part& p : parts) {
      p.task->done = true;
      if (p.launch->is_done()) ++p.launch->comm->finished;
    }
    forget(t);
  }

  bool is_done() const {
    return std::all_of(tasks.begin(), tasks.end(), [](const Task& t) { return t.done; });
  }

  void check(const Task& mine, const Task& theirs) const {
    const bool message = mine.kind == Kind::send || mine.kind == Kind::recv;
    if (!message && mine.kind != theirs.kind)
      stop_with("ranks of one communicator call %s and %s", kKindNames[static_cast<int>(mine.kind)],
                kKindNames[static_cast<int>(theirs.kind)]);
    if (mine.count * size_of(mine.type) != theirs.count * size_of(theirs.type) || mine.type != theirs.type)
      stop_with("ranks call %s%s with %ld and %ld elements, or of different types", kKindNames[static_cast<int>(mine.kind)],
                "", static_cast<long>(mine.count), static_cast<long>(theirs.count));
    if (mine.in_graph != theirs.in_graph)
      stop_with("ranks call %s%s, some inside a graph and some not", kKindNames[static_cast<int>(mine.kind)]);
    if (!message && (mine.op != theirs.op || mine.root_or_peer != theirs.root_or_peer))
      stop_with("ranks call %s%s with different reductions or roots", kKindNames[static_cast<int>(mine.kind)]);
  }

  void forget(const Task& t) {
    World& w = *comm->world;
    if (t.kind == Kind::send) w.messages[{comm->rank, t.root_or_peer}].erase(t.number);
    else if (t.kind == Kind::recv) w.messages[{t.root_or_peer, comm->rank}].erase(t.number);
    else w.collectives.erase(t.number);
  }
};

Bytes bytes_at(const void* data, std::size_t n) {
  const auto* p = static_cast<const std::byte*>(data);
  return n == 0 ? Bytes() : Bytes(p, p + n);
}

// Everything is read before anything is written: outputs may be parts of inputs.
void move_data(const std::vector<Part>& parts) {
  const Task& first = *parts[0].task;
  const std::size_t n = parts.size(), bytes = first.count * size_of(first.type);
  if (bytes == 0) return;
  std::vector<const void*> sources;
  for (const Part& p : parts) sources.push_back(p.task->in);
  const auto give = [&](std::size_t r, const Bytes& what) { std::memcpy(parts[r].task->out, what.data(), what.size()); };
  switch (first.kind) {
    case Kind::send:
    case Kind::recv: {
      give(1, bytes_at(first.in, bytes));
      break;
    }
    case Kind::broadcast: {
      const Bytes what = bytes_at(sources[static_cast<std::size_t>(first.root_or_peer)], bytes);
      for (std::size_t r = 0; r < n; ++r) give(r, what);
      break;
    }
    case Kind::all_gather: {
      Bytes all;
      for (const void* s : sources) {
        const Bytes one = bytes_at(s, bytes);
        all.insert(all.end(), one.begin(), one.end());
      }
      for (std::size_t r = 0; r < n; ++r) give(r, all);
      break;
    }
    case Kind::all_reduce:
    case Kind::reduce: {
      Bytes sum(bytes);
      reduce(sources, sum.data(), first.count, first.type, first.op);
      for (std::size_t r = 0; r < n; ++r)
        if (first.kind == Kind::all_reduce || r == static_cast<std::size_t>(first.root_or_peer)) give(r, sum);
      break;
    }
    case Kind::reduce_scatter: {
      Bytes sum(bytes * n);
      reduce(sources, sum.data(), first.count * n, first.type, first.op);
      for (std::size_t r = 0; r < n; ++r) give(r, bytes_at(sum.data() + r * bytes, bytes));
      break;
    }
  }
}

void carry_out(const std::vector<Part>& parts) {
  std::function<void(std::size_t)> open = [&](std::size_t i) {
    if (i == parts.size()) return move_data(parts);
    mt::emulation::with_devices_open({parts[i].launch.get()}, kKindNames[static_cast<int>(parts[0].task->kind)],
                                     [&] { open(i + 1); });
  };
  open(0);
}

struct Group {
  int depth = 0;
  std::vector<std::pair<ncclComm*, cudaStream_t>> comms;
  std::map<ncclComm*, std::vector<Task>> tasks;
};
thread_local Group group;

// "R:N" of MT_EMULATION_NCCL_ERROR.
bool is_planted(const ncclComm& c) {
  const char* text = std::getenv("MT_EMULATION_NCCL_ERROR");
  int rank = 0, operation = 0;
  return text && std::sscanf(text, "%d:%d", &rank, &operation) == 2 && rank == c.device &&
         c.launches == static_cast<std::uint64_t>(operation);
}

void enter(const std::shared_ptr<Launch>& launch) {
  ncclComm& c = *launch->comm;
  World& w = *c.world;
  if (is_planted(c)) {
    launch->stuck = true;
    c.error = ncclRemoteError;
  }
  launch->order = c.launches++;
  for (Task& t : launch->tasks) {
    if (t.kind == Kind::send) {
      t.number = c.sent[t.root_or_peer]++;
      w.messages[{c.rank, t.root_or_peer}][t.number].first = {launch, &t};
    } else if (t.kind == Kind::recv) {
      t.number = c.received[t.root_or_peer]++;
      w.messages[{t.root_or_peer, c.rank}][t.number].second = {launch, &t};
    } else {
      t.number = c.collectives++;
      auto& parts = w.collectives[t.number];
      parts.resize(w.ranks.size());
      parts[static_cast<std::size_t>(c.rank)] = {launch, &t};
    }
  }
}

std::shared_ptr<mt::emulation::Together> Launch::again() {
  if (comm->destroyed) stop("a graph is launched whose NCCL communicator is gone");
  const auto launch = std::make_shared<Launch>();
  launch->comm = comm;
  launch->tasks = tasks;
  for (Task& t : launch->tasks) t.in_graph = true;
  enter(launch);
  return launch;
}

void enter_and_queue(const std::shared_ptr<Launch>& launch, cudaStream_t stream) {
  launch->noted = mt::emulation::is_captured(stream);
  if (launch->noted) ++launch->comm->graphs;
  else enter(launch);
  mt::emulation::queue_together(stream, launch, mt::emulation::Place::current());
}

ncclResult_t start(ncclComm* comm, cudaStream_t stream, std::vector<Task> tasks) {
  const auto launch = std::make_shared<Launch>();
  launch->comm = comm;
  launch->tasks = std::move(tasks);
  if (comm->calls++ % 4 == 0) {
    comm->pending = launch;
    comm->pending_on = stream;
    comm->asked = 0;
    return ncclInProgress;
  }
  enter_and_queue(launch, stream);
  return ncclSuccess;
}

void check_memory(const ncclComm& c, const void* data, const Task& t) {
  int device = -1;
  if (t.count > 0 && (!mt::emulation::is_device_memory(data, &device) || device != c.device))
    stop_with("%s%s is given memory that is not its device's", kKindNames[static_cast<int>(t.kind)]);
}

ncclResult_t call(const Task& t, ncclComm* comm, cudaStream_t stream) {
  ncclResult_t result = ncclSuccess;
  mt::emulation::on_machine([&] {
    const char* name = kKindNames[static_cast<int>(t.kind)];
    if (comm->aborted || comm->destroyed) stop_with("%s%s on a communicator that is gone", name);
    if (comm->world->joined < static_cast<int>(comm->world->ranks.size()) || comm->pending)
      stop_with("%s%s beside a call that is in progress", name);
    if (mt::emulation::device_of(stream) != comm->device) stop_with("%s%s on another device's stream", name);
    if (t.in) check_memory(*comm, t.in, t);
    if (t.out) check_memory(*comm, t.out, t);
    if (group.depth == 0) {
      result = start(comm, stream, {t});
      return;
    }
    if (group.tasks.count(comm) == 0) group.comms.emplace_back(comm, stream);
    group.tasks[comm].push_back(t);
  });
  return result;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t next = 0;
  mt::emulation::on_machine([&] {
    *id = {};
    std::snprintf(id->internal, sizeof id->internal, "emulated %llu", static_cast<unsigned long long>(++next));
  });
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (!config || config->blocking != 0) stop("a blocking NCCL communicator, which could wait for ever");
  mt::emulation::on_machine([&] {
    auto& known = worlds()[std::string(id.internal)];
    auto world = known.lock();
    if (!world) known = world = std::make_shared<World>();
    if (world->ranks.empty()) world->ranks.resize(static_cast<std::size_t>(ranks));
    if (rank < 0 || rank >= ranks || static_cast<int>(world->ranks.size()) != ranks ||
        world->ranks[static_cast<std::size_t>(rank)])
      stop("ranks disagree about a NCCL communicator");
    auto* c = new ncclComm;
    c->world = world;
    c->rank = rank;
    cudaGetDevice(&c->device);
    for (const ncclComm* other : world->ranks)
      if (other && other->device == c->device) stop("two ranks of a NCCL communicator on one device");
    world->ranks[static_cast<std::size_t>(rank)] = c;
    ++world->joined;
    *comm = c;
  });
  return ncclInProgress;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm->graphs > 0) stop("a NCCL communicator is destroyed that a graph knows: it would wait for the graph's end");
  mt::emulation::on_machine([&] { comm->destroyed = true; });  // kept: others may still look at it
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  mt::emulation::on_machine([&] {
    comm->aborted = true;
    comm->pending = nullptr;
  });
  // As the real one, which has told the device by now.
  for (int ms = 0; comm->graphs > 0; ++ms) {
    if (ms > 30000) stop("ncclCommAbort waits for the end of a graph that stays");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  mt::emulation::on_machine([&] {
    *error = comm->error;
    if (comm->world->joined < static_cast<int>(comm->world->ranks.size())) *error = ncclInProgress;
    if (!comm->pending) return;
    *error = ncclInProgress;
    if (++comm->asked < 2) return;
    const auto launch = std::exchange(comm->pending, nullptr);
    enter_and_queue(launch, comm->pending_on);
    *error = comm->error;
  });
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclRemoteError ? "remote process exited or there was a network error" : "emulated NCCL error";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  mt::emulation::on_machine([&] {
    for (const auto& [comm, stream] : group.comms)
      if (const ncclResult_t r = start(comm, stream, std::move(group.tasks[comm])); r != ncclSuccess) result = r;
  });
  group = Group();
  return result;
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::all_reduce, in, out, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::reduce, in, out, count, type, op, root}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::reduce_scatter, in, out, count, type, op, 0}, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call({Kind::all_gather, in, out, count, type, ncclSum, 0}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call({Kind::broadcast, in, out, count, type, ncclSum, root}, comm, stream);
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call({Kind::send, in, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call({Kind::recv, nullptr, out, count, type, ncclSum, peer}, comm, stream);
}
