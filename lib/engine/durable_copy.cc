#include "engine/durable_copy.h"

#include "base/log.h"
#include "ckpt/checkpoint_copy.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "engine/save_agreement.h"

namespace mt {

DurableCopy::DurableCopy(std::filesystem::path fast, SaveTarget durable, Stream& stream, Communicator& world)
    : fast_(std::move(fast)), durable_(std::move(durable)), world_(world), save_(durable_.root, stream, world) {}

void DurableCopy::start(std::int64_t iteration) {
  started_ = Clock::now();
  save_.begin(iteration);
  const auto from = fast_ / iteration_name(iteration), dir = durable_.root / temporary_name(iteration);
  save_.go(
      [this, from, dir] {
        bytes_ = 0;
        const Manifest m = read_manifest(from);
        for (std::size_t i = static_cast<std::size_t>(world_.rank()); i < m.files.size(); i += static_cast<std::size_t>(world_.size()))
          bytes_ += copy_data_file(from, dir, m.files[i], &save_.cancel());
      },
      [this, from, iteration] {
        publish_save(durable_, iteration, [&] { publish_copy(durable_.root, from); });
        // What is left over takes room; the checkpoint stands.
        if (const auto failure = error_of([&] {
              for (const auto& line : retain(fast_, {.keep_newest = 1}).left) log::warn("{}", line);
            }, fast_))
          log::warn("{}", failure->what());
      });
}

std::optional<DurableIteration> DurableCopy::poll() {
  if (!save_.poll()) return std::nullopt;
  return copied();
}

std::optional<DurableIteration> DurableCopy::finish() {
  if (!save_.finish()) return std::nullopt;
  return copied();
}

}  // namespace mt
