#include "comm/status_page.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace mt::comm {

void StatusSlot::Text::set(std::string_view text) {
  std::uint64_t raw[3] = {0, 0, 0};
  std::memcpy(raw, text.data(), std::min<std::size_t>(text.size(), sizeof(raw) - 1));
  for (std::size_t i = 0; i < 3; ++i) words[i].store(raw[i], std::memory_order_relaxed);
}

std::string StatusSlot::Text::get() const {
  std::uint64_t raw[3];
  for (std::size_t i = 0; i < 3; ++i) raw[i] = words[i].load(std::memory_order_relaxed);
  char text[sizeof(raw)];
  std::memcpy(text, raw, sizeof(raw));
  text[sizeof(raw) - 1] = 0;
  return text;
}

void StatusSlot::Entry::set(const Place& place) {
  group.set(place.group);
  operation.set(place.operation);
  number.store(place.number, std::memory_order_relaxed);
}

std::string StatusSlot::Entry::get() const {
  const std::string name = group.get();
  if (name.empty()) return "";
  return fmt::format("group {} {} number {}", name, operation.get(), number.load(std::memory_order_relaxed));
}

namespace {

// Readers that see an odd or changed version look again.
class Writing {
 public:
  explicit Writing(std::atomic<std::uint64_t>& version) : version_(version) {
    version_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Writing() { version_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t>& version_;
};

}  // namespace

void StatusSlot::at(std::int64_t step, std::string_view phase) {
  beat();
  const Writing w(version_);
  step_.store(step, std::memory_order_relaxed);
  phase_.set(phase);
}

void StatusSlot::enter(const Place& place) {
  beat();
  const Writing w(version_);
  entered_.set(place);
}

void StatusSlot::wait_in(const Place& place) {
  beat();
  const Writing w(version_);
  waiting_in_.set(place);
  missing_.store(-1, std::memory_order_relaxed);
  waiting_.store(1, std::memory_order_relaxed);
}

void StatusSlot::waits_for(int world_rank) {
  beat();
  missing_.store(world_rank, std::memory_order_relaxed);
}

void StatusSlot::wait_over() {
  beat();
  waiting_.store(0, std::memory_order_relaxed);
}

RankStatus StatusSlot::read() const {
  RankStatus s;
  // A rank killed in the middle of a change leaves the version odd: then the last look has to do.
  for (int look = 0; look < 2000; ++look) {
    if (look > 100) ::usleep(100);  // the writer lost its core in the middle
    const std::uint64_t before = version_.load(std::memory_order_acquire);
    s.step = step_.load(std::memory_order_relaxed);
    s.phase = phase_.get();
    s.entered = entered_.get();
    s.waits_in = waiting_.load(std::memory_order_relaxed) != 0 ? waiting_in_.get() : "";
    s.waits_for = s.waits_in.empty() ? -1 : missing_.load(std::memory_order_relaxed);
    s.beats = beats_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) break;
  }
  return s;
}

std::string RankStatus::text() const {
  std::string t = step < 0 ? "before the first step" : fmt::format("step {}", step);
  if (!phase.empty()) t += ", phase " + phase;
  if (!waits_in.empty()) {
    t += ", waits in " + waits_in;
    if (waits_for >= 0) t += fmt::format(" for rank {}", waits_for);
  } else if (!entered.empty()) {
    t += ", last entered " + entered;
  }
  return t;
}

LaunchedRank launched_rank() {
  const auto number = [](std::initializer_list<const char*> names, int fallback) {
    for (const char* name : names)
      if (const char* text = std::getenv(name)) return std::atoi(text);
    return fallback;
  };
  LaunchedRank r;
  r.rank = std::max(0, number({"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}, 0));
  r.world = std::max(r.rank + 1, number({"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}, 1));
  return r;
}

namespace {

// When a process started, in ticks after boot; "0" when there is none.
std::string start_of(long process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field, start = "0";
  for (int i = 0; i < 20 && fields >> field; ++i) start = field;  // field 22 of proc(5): starttime
  return start;
}

// The launcher's proxy on this host, told apart from an earlier process of the same number by its start time.
std::string job_name() { return fmt::format("/mt-{}-{}-{}", ::getuid(), ::getppid(), start_of(::getppid())); }

// Names of jobs that were killed, launcher, watchers and all, before their ranks had met.
void forget_dead_jobs() {
  const std::string mine = fmt::format("mt-{}-", ::getuid());
  std::error_code none;
  std::filesystem::directory_iterator entry("/dev/shm", none);
  for (; entry != std::filesystem::directory_iterator(); entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    long proxy = 0, start = 0;
    if (name.rfind(mine, 0) != 0 || std::sscanf(name.c_str() + mine.size(), "%ld-%ld", &proxy, &start) != 2) continue;
    if (start_of(proxy) != std::to_string(start)) ::shm_unlink(("/" + name).c_str());
  }
}

}  // namespace

std::unique_ptr<StatusPage> StatusPage::open(const LaunchedRank& me) {
  auto page = std::unique_ptr<StatusPage>(new StatusPage);
  page->me_ = me;
  page->bytes_ = 64 + sizeof(StatusSlot) * static_cast<std::size_t>(me.world);
  forget_dead_jobs();
  page->name_ = job_name();
  void* memory = MAP_FAILED;
  const int fd = ::shm_open(page->name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) {
    // All ranks ask for the same size, so the order does not matter; fresh memory is zero, which is a valid slot.
    if (::ftruncate(fd, static_cast<off_t>(page->bytes_)) == 0)
      memory = ::mmap(nullptr, page->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
  }
  if (memory == MAP_FAILED)
    memory = ::mmap(nullptr, page->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error(Code::device, "no memory for the status page: " + errno_text(errno));
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Header) <= 64);
  page->header_ = static_cast<Header*>(memory);
  page->slots_ = reinterpret_cast<StatusSlot*>(static_cast<std::byte*>(memory) + 64);
  page->mine().at(-1, "start");
  return page;
}

StatusPage::~StatusPage() { ::munmap(header_, bytes_); }

bool StatusPage::claim_last_word() {
  std::uint64_t nobody = 0;
  return header_->last_word.compare_exchange_strong(nobody, static_cast<std::uint64_t>(me_.rank) + 1);
}

bool StatusPage::last_word_taken() const { return header_->last_word.load() != 0; }

void StatusPage::forget_name() { ::shm_unlink(name_.c_str()); }

std::string StatusPage::peers_text(int world_rank) {
  std::map<std::string, std::vector<int>> waiting, others;
  int unseen = 0;
  for (int r = 0; r < me_.world; ++r) {
    if (r == world_rank) continue;
    if (!slots_[r].used()) {
      ++unseen;
      continue;
    }
    const RankStatus s = slots_[r].read();
    if (s.waits_for == world_rank)
      waiting[s.waits_in].push_back(r);
    else
      others[s.text()].push_back(r);
  }
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  const auto ranks = [](const std::vector<int>& list) {
    return fmt::format("rank{} {}", list.size() == 1 ? "" : "s", fmt::join(list, ", "));
  };
  for (const auto& [place, list] : waiting)
    add(fmt::format("not entered: {}, where {} wait{}", place, ranks(list), list.size() == 1 ? "s" : ""));
  std::size_t told = 0;
  for (const auto& [state, list] : others)
    if (++told <= 4) add(fmt::format("{}: {}", ranks(list), state));
  if (others.size() > 4) add(fmt::format("{} more states", others.size() - 4));
  if (unseen > 0) add(fmt::format("{} rank{} not seen from here", unseen, unseen == 1 ? "" : "s"));
  return text;
}

}  // namespace mt::comm
