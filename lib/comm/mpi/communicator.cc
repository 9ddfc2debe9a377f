#include "comm/mpi/communicator.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "base/hash.h"
#include "comm/mpi/collective.h"
#include "comm/status_page.h"

namespace mt::comm::mpi {

namespace {

// What is queued on the stream must be in memory before MPI reads it.
void ready(Stream& stream, const View& a, const View& b) {
  MT_CHECK((!a.data || a.contiguous()) && (!b.data || b.contiguous()), "communication of a strided view");
  stream.synchronize();
}

Parts parts(const View& v, std::span<const std::int64_t> rows) {
  Parts p{static_cast<std::byte*>(v.data), {}};
  const std::int64_t row = v.dim(0) > 0 ? static_cast<std::int64_t>(v.bytes()) / v.dim(0) : 0;
  std::int64_t total = 0;
  for (auto r : rows) {
    MT_CHECK(r >= 0, "{} rows for a peer", r);
    p.bytes.push_back(r * row);
    total += r;
  }
  MT_CHECK(total <= v.dim(0), "{} rows in parts, {} there are", total, v.dim(0));
  return p;
}

}  // namespace

MpiCommunicator::MpiCommunicator(Job& job, MPI_Comm comm, std::string name, std::vector<int> world_ranks,
                                 std::unique_ptr<Job> own)
    : Communicator(std::move(name), std::move(world_ranks)), own_(std::move(own)),
      exceptions_(std::uncaught_exceptions()) {
  group_.job = &job;
  group_.comm = comm;
  check(MPI_Comm_rank(comm, &group_.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &group_.size), "MPI_Comm_size");
  group_.name = &name_;
  group_.world_ranks = &ranks_;
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > exceptions_) return;
  if (own_) {
    MPI_Finalize();
  } else if (group_.comm != MPI_COMM_SELF) {
    MPI_Comm_free(&group_.comm);
  }
}

Handle MpiCommunicator::all_reduce(Stream& stream, View x, Reduce op) {
  ready(stream, x, x);
  return Handle(mpi::all_reduce(group_, number_++, x, op));
}

Handle MpiCommunicator::all_gather(Stream& stream, View in, View out) {
  ready(stream, in, out);
  MT_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "{} bytes from {}", out.bytes(), in.bytes());
  return Handle(mpi::all_gather(group_, number_++, in, out));
}

Handle MpiCommunicator::reduce_scatter(Stream& stream, View in, View out, Reduce op) {
  ready(stream, in, out);
  MT_CHECK(in.bytes() == out.bytes() * static_cast<std::size_t>(size()), "{} bytes to {}", in.bytes(), out.bytes());
  return Handle(mpi::reduce_scatter(group_, number_++, in, out, op));
}

Handle MpiCommunicator::all_to_all(Stream& stream, View in, View out) {
  MT_CHECK(in.bytes() == out.bytes() && in.dim(0) % size() == 0, "{} rows over {} ranks", in.dim(0), size());
  const std::vector<std::int64_t> rows(ranks_.size(), in.dim(0) / size());
  return all_to_all_v(stream, in, rows, out, rows);
}

Handle MpiCommunicator::all_to_all_v(Stream& stream, View in, std::span<const std::int64_t> send_rows, View out,
                                     std::span<const std::int64_t> recv_rows) {
  ready(stream, in, out);
  MT_CHECK(send_rows.size() == ranks_.size() && recv_rows.size() == ranks_.size(), "{} and {} counts for {} ranks",
           send_rows.size(), recv_rows.size(), size());
  return Handle(mpi::all_to_all(group_, number_++, parts(in, send_rows), parts(out, recv_rows)));
}

Handle MpiCommunicator::broadcast(Stream& stream, View x, int root) {
  ready(stream, x, x);
  MT_CHECK(root >= 0 && root < size(), "root {} of {}", root, size());
  return Handle(mpi::broadcast(group_, number_++, x, root));
}

Handle MpiCommunicator::send(Stream& stream, View x, int peer) {
  ready(stream, x, x);
  MT_CHECK(peer >= 0 && peer < size() && peer != rank(), "peer {} of {}", peer, size());
  return Handle(mpi::message(group_, x, peer, true));
}

Handle MpiCommunicator::recv(Stream& stream, View x, int peer) {
  ready(stream, x, x);
  MT_CHECK(peer >= 0 && peer < size() && peer != rank(), "peer {} of {}", peer, size());
  return Handle(mpi::message(group_, x, peer, false));
}

Handle MpiCommunicator::barrier(Stream& stream) {
  stream.synchronize();
  return Handle(mpi::barrier(group_, number_++));
}

std::unique_ptr<Communicator> MpiCommunicator::make_group(const std::vector<int>& world_ranks,
                                                          const std::string& name) {
  const int me = ranks_[static_cast<std::size_t>(rank())];
  MT_CHECK(std::count(world_ranks.begin(), world_ranks.end(), me) == 1, "rank {} is not in group {}", me, name);
  if (world_ranks.size() == 1)
    return std::make_unique<MpiCommunicator>(*group_.job, MPI_COMM_SELF, name, world_ranks, nullptr);
  std::vector<int> positions;
  std::string key = name;
  for (int r : world_ranks) {
    const auto at = std::find(ranks_.begin(), ranks_.end(), r);
    MT_CHECK(at != ranks_.end(), "rank {} of group {} is not in group {}", r, name, name_);
    positions.push_back(static_cast<int>(at - ranks_.begin()));
    key += fmt::format(" {}", r);
  }
  MPI_Group all, some;
  check(MPI_Comm_group(group_.comm, &all), "MPI_Comm_group");
  check(MPI_Group_incl(all, static_cast<int>(positions.size()), positions.data(), &some), "MPI_Group_incl");
  MPI_Comm comm = MPI_COMM_NULL;
  auto* status = group_.job->options.status;
  if (status) status->wait_in({name, "make_group", 0});
  // The tag keeps apart groups that overlapping sets of ranks make at the same time.
  const int tag = static_cast<int>(xxh3(key.data(), key.size()) % 32768);
  check(MPI_Comm_create_group(group_.comm, some, tag, &comm), "MPI_Comm_create_group");
  if (status) status->wait_over();
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return std::make_unique<MpiCommunicator>(*group_.job, comm, name, world_ranks, nullptr);
}

}  // namespace mt::comm::mpi
