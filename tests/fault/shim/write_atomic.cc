// The program the fault drill strikes: writes its second argument, 64 KiB of it, to the file of its first.
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  std::string content;
  while (content.size() < 65536) content += argv[2];
  try {
    mt::write_file_atomic(argv[1], content);
  } catch (const mt::Error& e) {
    mt::log::line(e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
