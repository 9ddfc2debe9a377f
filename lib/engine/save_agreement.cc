#include "engine/save_agreement.h"

#include "ckpt/store.h"

namespace mt {

bool any_rank(Stream& stream, Communicator& group, bool mine) {
  std::int64_t flag = mine ? 1 : 0;
  group.all_reduce(stream, View(&flag, DType::i64, {1}), Reduce::max).wait_host();
  return flag != 0;
}

std::optional<Error> error_of(const std::function<void()>& act, const std::filesystem::path& where) {
  try {
    act();
  } catch (const Error& e) {
    return e;
  } catch (const std::exception& e) {
    return Error(Code::io, e.what(), where.string());
  }
  return std::nullopt;
}

namespace {

// An error as it is sent; texts are cut to fit.
struct ErrorMessage {
  std::int64_t code;
  char what[1024], where[1024], hint[504];
};
static_assert(sizeof(ErrorMessage) % sizeof(std::int64_t) == 0);

void put(char* to, std::size_t size, const std::string& text) { text.copy(to, size - 1); }

// The error of the first rank that has one, on every rank.
Error first_error(const SaveAttempt& save, const std::optional<Error>& mine) {
  Communicator& world = save.world;
  std::int64_t from_behind = mine ? world.size() - world.rank() : 0;
  world.all_reduce(save.stream, View(&from_behind, DType::i64, {1}), Reduce::max).wait_host();
  MT_CHECK(from_behind > 0, "no rank failed in the save of iteration {}", save.iteration);
  const int first = world.size() - static_cast<int>(from_behind);
  ErrorMessage m{};
  if (world.rank() == first) {
    m.code = static_cast<std::int64_t>(mine->code());
    put(m.what, sizeof m.what, mine->message());
    put(m.where, sizeof m.where, mine->where());
    put(m.hint, sizeof m.hint, mine->hint());
  }
  world.broadcast(save.stream, View(&m, DType::i64, {sizeof m / sizeof(std::int64_t)}), first).wait_host();
  return Error(static_cast<Code>(m.code), fmt::format("rank {} failed to save: {}", first, m.what), m.where, m.hint);
}

}  // namespace

void give_up_together(const SaveAttempt& save, const std::optional<Error>& mine) {
  const Error first = first_error(save, mine);
  save.world.barrier(save.stream).wait_host();
  if (save.world.rank() == 0) abort_save(save.root, save.iteration);
  throw mine ? *mine : first;
}

void together(const SaveAttempt& save, const std::function<void()>& act) {
  const auto mine = error_of(act, save.root);
  if (any_rank(save.stream, save.world, mine.has_value())) give_up_together(save, mine);
}

}  // namespace mt
