#pragma once
// Where every rank of this host says what it is doing, in memory its watcher and the other ranks' watchers can read.
//
// One page a job and host, one slot a world rank. A slot is written by its rank alone, without locks or system calls (a
// few stores), and stays readable after that rank was killed. Texts are cut at 23 bytes.
// Code: comm/status_page.cc. Tests: tests/comm/status_page_test.cc, tests/drills/mt-train.sh.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mt::comm {

// An operation of a group: "tp", "all_reduce", number 12.
struct Place {
  std::string_view group, operation;
  std::int64_t number = 0;
};

// A slot's content at one moment, as values.
struct RankStatus {
  std::int64_t step = -1;  // -1: not training yet
  std::string phase;
  std::string entered;     // "group tp all_reduce number 12", empty before the first operation
  std::string waits_in;    // the same, while the rank waits; else empty
  int waits_for = -1;      // first world rank that is missing there, -1 unknown
  std::uint64_t beats = 0;
  // "step 3, phase forward-backward, waits in group tp all_reduce number 12 for rank 2"
  std::string text() const;
};

class StatusSlot {
 public:
  void at(std::int64_t step, std::string_view phase);
  void enter(const Place& place);    // an operation was started
  void wait_in(const Place& place);  // and is waited for now
  void waits_for(int world_rank);
  void wait_over();
  // "I am alive": moved by everything above and by progress().
  void beat() { beats_.fetch_add(1, std::memory_order_relaxed); }
  bool used() const { return beats_.load(std::memory_order_relaxed) > 0; }
  RankStatus read() const;

 private:
  struct Text {
    std::array<std::atomic<std::uint64_t>, 3> words{};
    void set(std::string_view text);
    std::string get() const;
  };
  struct Entry {
    Text group, operation;
    std::atomic<std::int64_t> number{0};
    void set(const Place& place);
    std::string get() const;
  };
  std::atomic<std::uint64_t> version_{0}, beats_{0};  // version is odd while being written
  std::atomic<std::int64_t> step_{-1};
  std::atomic<int> waiting_{0}, missing_{-1};
  Text phase_;
  Entry entered_, waiting_in_;
};

// What the launcher said in the environment (PMI_*, PMIX_*, OMPI_*), known before MPI_Init.
struct LaunchedRank {
  int rank = 0, world = 1;
};
LaunchedRank launched_rank();

class StatusPage {
 public:
  // Opens this job's page on this host, or makes it. Ranks belong together when the same process started them (their
  // launcher's proxy). Where there is no shared memory the page is private to this rank and its watcher.
  // Names that jobs killed at their start left behind are removed.
  static std::unique_ptr<StatusPage> open(const LaunchedRank& me);
  ~StatusPage();
  StatusPage(const StatusPage&) = delete;
  StatusPage& operator=(const StatusPage&) = delete;

  StatusSlot& slot(int world_rank) { return slots_[world_rank]; }
  StatusSlot& mine() { return slots_[me_.rank]; }
  const LaunchedRank& me() const { return me_; }

  // True for the first caller on this host: the one who may tell the person why the job ends. Later ones see
  // consequences of it and are silent.
  bool claim_last_word();
  bool last_word_taken() const;
  // Remove the name once every rank of the host is in (after a barrier); the memory lives until the last rank is gone.
  void forget_name();

  // What other ranks of this host do, for a report about `world_rank`: those that wait for it first.
  std::string peers_text(int world_rank);

 private:
  StatusPage() = default;
  struct Header {
    std::atomic<std::uint64_t> last_word;
  };
  LaunchedRank me_;
  std::string name_;
  Header* header_ = nullptr;
  StatusSlot* slots_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mt::comm
