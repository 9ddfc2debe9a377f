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

}  // namespace mt::comm::mpi
