#include "comm/mpi/collective.h"

#include <cstring>

#include "base/error.h"

namespace mt::comm::mpi {

namespace {

std::byte* bytes_at(const View& v) { return static_cast<std::byte*>(v.data); }

void copy_part(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

Work all_gather(const Group& group, std::int64_t number, View in, View out) {
  const auto bytes = static_cast<std::int64_t>(in.bytes());
  auto work = std::make_unique<PlainOperation>(group, Call{Kind::all_gather, in.dtype, Reduce::sum, bytes, 0}, number);
  // Starting with the next rank spreads the first messages over all receivers.
  for (int step = 1; step < group.size; ++step) {
    const int from = (group.rank + group.size - step) % group.size;
    work->exchange().receive(group, bytes_at(out) + from * bytes, bytes, from, work->message_tag());
  }
  for (int step = 1; step < group.size; ++step)
    work->exchange().send(group, bytes_at(in), bytes, (group.rank + step) % group.size, work->message_tag());
  copy_part(bytes_at(out) + group.rank * bytes, bytes_at(in), bytes);
  return work;
}

Work all_to_all(const Group& group, std::int64_t number, const Parts& in, const Parts& out) {
  std::int64_t total = 0;
  for (auto b : in.bytes) total += b;
  auto work = std::make_unique<PlainOperation>(group, Call{Kind::all_to_all, DType::u8, Reduce::sum, total, 0}, number);
  std::byte* to = out.data;
  for (int r = 0; r < group.size; to += out.bytes[static_cast<std::size_t>(r++)])
    if (r != group.rank)
      work->exchange().receive(group, to, out.bytes[static_cast<std::size_t>(r)], r, work->message_tag());
  const std::byte* from = in.data;
  const std::byte* own = nullptr;
  for (int r = 0; r < group.size; from += in.bytes[static_cast<std::size_t>(r++)])
    if (r != group.rank)
      work->exchange().send(group, from, in.bytes[static_cast<std::size_t>(r)], r, work->message_tag());
    else
      own = from;
  to = out.data;
  for (int r = 0; r < group.rank; ++r) to += out.bytes[static_cast<std::size_t>(r)];
  copy_part(to, own, in.bytes[static_cast<std::size_t>(group.rank)]);
  return work;
}

Work broadcast(const Group& group, std::int64_t number, View x, int root) {
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  auto work = std::make_unique<PlainOperation>(group, Call{Kind::broadcast, x.dtype, Reduce::sum, bytes, root}, number);
  if (group.rank != root)
    work->exchange().receive(group, bytes_at(x), bytes, root, work->message_tag());
  else
    for (int r = 0; r < group.size; ++r)
      if (r != root) work->exchange().send(group, bytes_at(x), bytes, r, work->message_tag());
  return work;
}

Work barrier(const Group& group, std::int64_t number) {
  auto work = std::make_unique<PlainOperation>(group, Call{}, number);
  for (int step = 1; step < group.size; ++step) {
    work->exchange().receive(group, nullptr, 0, (group.rank + group.size - step) % group.size, work->message_tag());
    work->exchange().send(group, nullptr, 0, (group.rank + step) % group.size, work->message_tag());
  }
  return work;
}

Work message(const Group& group, View x, int peer, bool sending) {
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  const Kind kind = sending ? Kind::send : Kind::recv;
  auto work = std::make_unique<PlainOperation>(group, Call{kind, x.dtype, Reduce::sum, bytes, peer}, 0);
  if (sending)
    work->exchange().send(group, bytes_at(x), bytes, peer, work->message_tag());
  else
    work->exchange().receive(group, bytes_at(x), bytes, peer, work->message_tag());
  return work;
}

}  // namespace mt::comm::mpi
