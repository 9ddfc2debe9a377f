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

void give_up_together(const SaveAttempt& save, const std::optional<Error>& mine) {
  save.world.barrier(save.stream).wait_host();
  if (save.world.rank() == 0) abort_save(save.root, save.iteration);
  if (mine) throw *mine;
  throw Error(Code::io, fmt::format("the save of iteration {} failed on another rank", save.iteration),
              save.root.string(), "its message is above; the previous checkpoint is untouched");
}

void together(const SaveAttempt& save, const std::function<void()>& act) {
  const auto mine = error_of(act, save.root);
  if (any_rank(save.stream, save.world, mine.has_value())) give_up_together(save, mine);
}

}  // namespace mt
