#include "comm/mpi/call.h"

#include "base/error.h"
#include "comm/mpi/exchange.h"
#include "comm/status_page.h"

namespace mt::comm::mpi {

void check(int result, const char* what) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  std::string line(text, static_cast<std::size_t>(length));
  for (char& c : line)
    if (c == '\n') c = ' ';
  throw Error(Code::comm, line, what);
}

void Job::progress() {
  if (options.status) options.status->beat();
  // By index: an operation that completes stays listed until its handle lets go.
  for (std::size_t i = 0; i < in_flight.size(); ++i) in_flight[i]->test();
}

Scratch Job::take_scratch(std::int64_t bytes) {
  // The smallest that is large enough.
  auto best = scratch.end();
  for (auto it = scratch.begin(); it != scratch.end(); ++it)
    if (it->bytes >= bytes && (best == scratch.end() || it->bytes < best->bytes)) best = it;
  if (best == scratch.end())
    return {std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes)), bytes};
  Scratch taken = std::move(*best);
  scratch.erase(best);
  return taken;
}

void Job::give_back(Scratch used) {
  constexpr std::size_t kKept = 32;
  if (scratch.size() < kKept) scratch.push_back(std::move(used));
}

}  // namespace mt::comm::mpi
