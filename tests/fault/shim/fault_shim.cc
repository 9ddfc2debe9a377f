// LD_PRELOAD shim: strikes at the n-th file operation. Configuration and limits: tests/fault/README.md.
//
// Nothing here allocates or throws: it runs inside other people's system calls.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum class Action { none, log, enospc, eio, kill, cut };

struct Plan {
  Action action = Action::none;
  char operation[16] = "";
  long from = 0;
  bool onwards = false;
  const char* substring = "";
  int log_fd = -1;
};

Plan read_plan() {
  Plan plan;
  const char* text = std::getenv("MT_TEST_FAULT");
  if (text == nullptr) return plan;
  char action[16] = "", count[24] = "";
  int used = 0;
  if (std::sscanf(text, "%15[a-z]:%15[a-z]:%23[0-9+]%n", action, plan.operation, count, &used) < 3) {
    std::fprintf(stderr, "libmt_fault: cannot read MT_TEST_FAULT=%s\n", text);
    ::_exit(99);
  }
  struct Row {
    const char* name;
    Action action;
  };
  for (const Row& row : {Row{"log", Action::log}, Row{"enospc", Action::enospc}, Row{"eio", Action::eio},
                         Row{"kill", Action::kill}, Row{"short", Action::cut}})
    if (std::strcmp(row.name, action) == 0) plan.action = row.action;
  if (plan.action == Action::none) {
    std::fprintf(stderr, "libmt_fault: unknown action in MT_TEST_FAULT=%s\n", text);
    ::_exit(99);
  }
  plan.from = std::atol(count);
  plan.onwards = std::strchr(count, '+') != nullptr;
  if (text[used] == ':') plan.substring = text + used + 1;
  if (const char* log = std::getenv("MT_TEST_FAULT_LOG"))
    plan.log_fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  return plan;
}

const Plan& plan() {
  static const Plan p = read_plan();
  return p;
}

std::atomic<long> counted{0};

// What to do with this operation. `kill` does not return.
Action strike(const char* operation, const char* path) {
  const Plan& p = plan();
  if (p.action == Action::none || path == nullptr) return Action::none;
  if (std::strcmp(p.operation, "any") != 0 && std::strcmp(p.operation, operation) != 0) return Action::none;
  if (std::strstr(path, p.substring) == nullptr) return Action::none;
  const long n = ++counted;
  if (p.log_fd >= 0) {
    char line[4200];
    const int size = std::snprintf(line, sizeof line, "%s %s\n", operation, path);
    (void)!::syscall(SYS_write, p.log_fd, line, static_cast<std::size_t>(size));
  }
  if (p.action == Action::log || !(n == p.from || (p.onwards && n > p.from))) return Action::none;
  if (p.action == Action::kill) ::raise(SIGKILL);
  if (p.action == Action::enospc) errno = ENOSPC;
  if (p.action == Action::eio) errno = EIO;
  return p.action;
}

Action strike_fd(const char* operation, int fd) {
  if (fd <= STDERR_FILENO || plan().action == Action::none) return Action::none;
  char link[32], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n <= 0) return Action::none;
  path[n] = '\0';
  return path[0] == '/' ? strike(operation, path) : Action::none;  // pipes and sockets have no path
}

bool fails(Action a) { return a == Action::enospc || a == Action::eio; }

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

bool writes(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0 && (flags & O_DIRECTORY) == 0; }

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

extern "C" {

#define MT_SHIM_OPEN(NAME)                                                     \
  int NAME(const char* path, int flags, ...) {                                 \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_of(flags, arguments);                             \
    va_end(arguments);                                                         \
    if (writes(flags) && fails(strike("open", path))) return -1;               \
    static auto* const f = real<int(const char*, int, ...)>(#NAME);            \
    return f(path, flags, mode);                                               \
  }
#define MT_SHIM_OPENAT(NAME)                                                   \
  int NAME(int dir, const char* path, int flags, ...) {                        \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = mode_of(flags, arguments);                             \
    va_end(arguments);                                                         \
    if (writes(flags) && fails(strike("open", path))) return -1;               \
    static auto* const f = real<int(int, const char*, int, ...)>(#NAME);       \
    return f(dir, path, flags, mode);                                          \
  }
MT_SHIM_OPEN(open)
MT_SHIM_OPEN(open64)
MT_SHIM_OPENAT(openat)
MT_SHIM_OPENAT(openat64)

int creat(const char* path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

ssize_t write(int fd, const void* bytes, size_t size) {
  const Action a = strike_fd("write", fd);
  if (fails(a)) return -1;
  static auto* const f = real<ssize_t(int, const void*, size_t)>("write");
  return f(fd, bytes, a == Action::cut && size > 1 ? size / 2 : size);
}

#define MT_SHIM_PWRITE(NAME, OFFSET)                                           \
  ssize_t NAME(int fd, const void* bytes, size_t size, OFFSET offset) {        \
    const Action a = strike_fd("write", fd);                                   \
    if (fails(a)) return -1;                                                   \
    static auto* const f = real<ssize_t(int, const void*, size_t, OFFSET)>(#NAME); \
    return f(fd, bytes, a == Action::cut && size > 1 ? size / 2 : size, offset); \
  }
MT_SHIM_PWRITE(pwrite, off_t)
MT_SHIM_PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec* vectors, int count) {
  if (fails(strike_fd("write", fd))) return -1;
  static auto* const f = real<ssize_t(int, const struct iovec*, int)>("writev");
  return f(fd, vectors, count);
}

int fsync(int fd) {
  if (fails(strike_fd("fsync", fd))) return -1;
  static auto* const f = real<int(int)>("fsync");
  return f(fd);
}

int fdatasync(int fd) {
  if (fails(strike_fd("fsync", fd))) return -1;
  static auto* const f = real<int(int)>("fdatasync");
  return f(fd);
}

// A rename counts by its new name.
int rename(const char* from, const char* to) noexcept {
  if (fails(strike("rename", to))) return -1;
  static auto* const f = real<int(const char*, const char*)>("rename");
  return f(from, to);
}

int renameat(int from_dir, const char* from, int to_dir, const char* to) noexcept {
  if (fails(strike("rename", to))) return -1;
  static auto* const f = real<int(int, const char*, int, const char*)>("renameat");
  return f(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) noexcept {
  if (fails(strike("rename", to))) return -1;
  static auto* const f = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return f(from_dir, from, to_dir, to, flags);
}

int unlink(const char* path) noexcept {
  if (fails(strike("unlink", path))) return -1;
  static auto* const f = real<int(const char*)>("unlink");
  return f(path);
}

}  // extern "C"
