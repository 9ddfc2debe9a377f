// A killed run gone on with gives the bytes it would have given; one that differs is refused.

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "data/encode_journal.h"
#include "data/merge_files.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

class Resume : public testing::Test {
 protected:
  Resume() {
    std::mt19937 random(7);
    for (const char* name : {"a.jsonl", "b.jsonl", "c.jsonl"}) {
      std::string lines;
      for (int i = 0; i < 200; ++i) {
        const std::string text(random() % 90, static_cast<char>('a' + i % 26));
        lines += i % 97 == 5 ? "{\"text\":bad}\n" : "{\"text\":\"" + text + "\",\"b\":[\"" + text + "\",\"\",\"x\"]}\n";
      }
      job_.source.inputs.push_back(dir_.file(name, lines));
    }
    fs::create_directory(dir_ / "out");
    job_.keys = {"text", "b"};
    job_.tokenizer_type = "ByteTokenizer";
    job_.append_eod = true;
    job_.on_bad = OnBadRecord::skip;
    job_.source.chunk_bytes = 1000;
    job_.journal_every_s = 0;
    EncodeJob whole = job_;
    whole.output_prefix = dir_ / "whole";
    whole.rejects = dir_ / "whole.rejects";
    report_ = encode_corpus(whole, tokenizer::ByteTokenizer());
    job_.output_prefix = dir_ / "out/a";
    job_.rejects = dir_ / "out/rejects";
  }

  // Encode in a process of its own and kill it after a while.   gives  true: it was done before
  bool killed_after(const EncodeJob& job, int microseconds) {
    const pid_t child = ::fork();
    if (child == 0) {
      log::set_level(log::Level::quiet);
      try {
        encode_corpus(job, tokenizer::ByteTokenizer());
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
  }

  void clear() {
    fs::remove_all(dir_ / "out");
    fs::create_directory(dir_ / "out");
  }
  fs::path journal() const { return dir_ / "out/a_text_document.journal"; }

  // Encode and ask it to stop as soon as its journal is there; again, until that comes in its first half.
  EncodeReport stopped_run() {
    for (int n = 0; n < 500; ++n) {
      clear();
      std::atomic<int> stop{0};
      std::atomic<bool> over{false};
      std::thread watcher([&] {
        while (!over && !fs::exists(journal())) std::this_thread::yield();
        stop = SIGTERM;
      });
      EncodeJob job = job_;
      job.source.stop = &stop;
      const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
      over = true;
      watcher.join();
      if (report.stopped_by != 0 && report.documents < report_.documents / 2) return report;
    }
    ADD_FAILURE() << "no run was stopped before its end";
    return {};
  }

  // What a job is refused with.
  std::string refusal(const EncodeJob& job, Code code) {
    try {
      encode_corpus(job, tokenizer::ByteTokenizer());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

  // A kill may leave a lock, which locks nothing.
  std::int64_t files_left() const {
    std::int64_t files = 0;
    for (const auto& entry : fs::directory_iterator(dir_ / "out")) files += entry.path().extension() != ".lock" ? 1 : 0;
    return files;
  }

  void expect_whole() {
    for (const std::string key : {"text", "b"}) {
      for (const std::string ending : {".bin", ".idx", ".json"}) {
        EXPECT_EQ(read_file(dir_ / ("out/a_" + key + "_document" + ending)), read_file(dir_ / ("whole_" + key + "_document" + ending)))
            << key << ending;
      }
    }
    EXPECT_EQ(read_file(dir_ / "out/rejects"), read_file(dir_ / "whole.rejects"));
    EXPECT_EQ(files_left(), 7);  // and nothing else
  }

  ScratchDirectory dir_{memory_directory()};
  EncodeJob job_;
  EncodeReport report_;
};

TEST_F(Resume, goes_on_to_the_same_bytes_however_often_and_wherever_it_is_killed) {
  std::mt19937 random(11);
  int kills = 0, went_on = 0;
  for (int round = 0; round < 12 || (went_on < 6 && round < 100); ++round) {
    fs::remove_all(dir_ / "out");
    fs::create_directory(dir_ / "out");
    EncodeJob job = job_;
    for (bool done = false; !done;) {
      job.workers = 1 + static_cast<int>(random() % 4);
      done = killed_after(job, 500 + static_cast<int>(random() % (round % 2 == 0 ? 10000 : 40000)));
      kills += done ? 0 : 1;
      const bool at_the_very_end = fs::exists(dir_ / "out/a_b_document.idx") && !fs::exists(dir_ / "out/a_text_document.journal");
      done = done || at_the_very_end;
      const auto found = EncodeJournal::find(dir_ / "out/a_text_document.journal");
      went_on += found && found->last ? 1 : 0;
      job.resume = true;
      if (!done && kills > 200) break;
    }
    if (!fs::exists(dir_ / "out/a_b_document.idx") || fs::exists(dir_ / "out/a_text_document.journal")) {
      const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
      EXPECT_EQ(report.documents, report_.documents);
      EXPECT_EQ(report.skipped_records, report_.skipped_records);
      EXPECT_EQ(report.tokens, report_.tokens);
    }
    expect_whole();
  }
  RecordProperty("kills", kills);
  EXPECT_GE(went_on, 6) << kills << " kills";
}

TEST_F(Resume, another_input_option_or_tokenizer_is_refused_and_named) {
  // How long the run takes is the machine's affair: waits of 0.5 to 40 ms, again and again, until one falls inside it.
  const auto has_journal = [&] {  // with an entry: one killed before its first is begun from the start
    const auto found = EncodeJournal::find(dir_ / "out/a_text_document.journal");
    return found && found->last;
  };
  for (int n = 0; n < 2000 && !has_journal(); ++n) {
    fs::remove_all(dir_ / "out");
    fs::create_directory(dir_ / "out");
    killed_after(job_, 500 + n % 80 * 500);
  }
  ASSERT_TRUE(has_journal()) << "no kill fell between a journal and its end";
  job_.resume = true;
  const auto refused = [&](const EncodeJob& job, const tokenizer::Tokenizer& tokenizer, const std::string& word) {
    try {
      encode_corpus(job, tokenizer);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config) << e.what();
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  EncodeJob job = job_;
  job.append_eod = false;
  refused(job, tokenizer::ByteTokenizer(), "--append-eod was true, is false");
  job = job_;
  job.on_bad = OnBadRecord::replace;
  refused(job, tokenizer::ByteTokenizer(), "--on-error was skip, is replace");
  job = job_;
  job.type = TokenType::i32;
  refused(job, tokenizer::ByteTokenizer(), "--token-type was uint16, is int32");
  refused(job_, tokenizer::NullTokenizer(257), "tokenizer was");
  job = job_;
  job.source.inputs.pop_back();
  refused(job, tokenizer::ByteTokenizer(), "input 3 was");
  const std::string was = read_file(job_.source.inputs[1]);
  dir_.file("b.jsonl", was + "{\"text\":\"more\"}\n");
  refused(job_, tokenizer::ByteTokenizer(), "input 2 was");
  EXPECT_TRUE(fs::exists(dir_ / "out/a_text_document.journal"));  // refused, not thrown away
  job_.source.inputs.pop_back();
  job_.resume = false;
  job_.force = true;
  encode_corpus(job_, tokenizer::ByteTokenizer());  // begun anew
  EXPECT_EQ(files_left(), 7);
}

TEST_F(Resume, a_stopped_run_says_where_and_goes_on_to_the_same_bytes) {
  const EncodeReport stopped = stopped_run();
  EXPECT_EQ(stopped.stopped_by, SIGTERM);
  EXPECT_NE(stopped.stopped_at.find(".jsonl:"), std::string::npos) << stopped.stopped_at;
  EXPECT_GT(stopped.documents, 0);
  EXPECT_TRUE(fs::exists(journal()));
  EXPECT_FALSE(fs::exists(dir_ / "out/a_text_document.idx"));
  job_.resume = true;
  EXPECT_EQ(encode_corpus(job_, tokenizer::ByteTokenizer()).resumed_documents, stopped.documents);
  expect_whole();
}

TEST_F(Resume, a_run_stopped_before_its_first_chunk_leaves_nothing) {
  const std::atomic<int> stop{SIGINT};
  job_.source.stop = &stop;
  const EncodeReport stopped = encode_corpus(job_, tokenizer::ByteTokenizer());
  EXPECT_EQ(stopped.stopped_by, SIGINT);
  EXPECT_EQ(stopped.stopped_at, "");
  EXPECT_TRUE(fs::is_empty(dir_ / "out"));
}

TEST_F(Resume, one_that_fails_leaves_what_the_killed_run_left_and_can_be_tried_again) {
  stopped_run();
  const auto left = [this] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_ / "out")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = left();
  job_.resume = true;
  job_.max_bad = 0;  // nine records are bad
  EXPECT_NE(refusal(job_, Code::data).find("over the limit of 0"), std::string::npos);
  EXPECT_EQ(left(), before);
  dir_.file("out/a_b_document.idx", "in the way");
  EXPECT_NE(refusal(job_, Code::io).find("exists already"), std::string::npos);
  fs::remove(dir_ / "out/a_b_document.idx");
  EXPECT_EQ(left(), before);
  job_.max_bad = -1;
  EXPECT_GT(encode_corpus(job_, tokenizer::ByteTokenizer()).resumed_documents, 0);
  expect_whole();
}

TEST_F(Resume, work_of_a_killed_run_is_thrown_away_with_force_alone) {
  stopped_run();
  EXPECT_NE(refusal(job_, Code::io).find("--resume"), std::string::npos);
  EncodeJob other = job_;
  other.keys = {"b"};  // a key of that run whose journal is beside another
  other.rejects.clear();
  EXPECT_NE(refusal(other, Code::io).find("a_text_document.journal"), std::string::npos);
  other.keys = {"b", "text"};
  other.resume = true;
  EXPECT_NE(refusal(other, Code::config).find("--json-keys was"), std::string::npos);
  EXPECT_THROW(merge_files({dir_ / "whole_text_document"}, dir_ / "out/a_text_document", false), Error);
  other = job_;
  other.output_prefix = dir_ / "out/other";
  EXPECT_NE(refusal(other, Code::io).find("left records here"), std::string::npos);  // the same --rejects
  job_.resume = true;
  EXPECT_GT(encode_corpus(job_, tokenizer::ByteTokenizer()).resumed_documents, 0);
  expect_whole();
  stopped_run();
  job_.resume = false;
  job_.force = true;
  EXPECT_EQ(encode_corpus(job_, tokenizer::ByteTokenizer()).resumed_documents, 0);
  expect_whole();
}

TEST_F(Resume, of_a_finished_run_writes_nothing_or_says_what_differs) {
  encode_corpus(job_, tokenizer::ByteTokenizer());
  const auto written = fs::last_write_time(dir_ / "out/a_text_document.json");
  job_.resume = true;
  job_.workers = 3;
  const EncodeReport again = encode_corpus(job_, tokenizer::ByteTokenizer());
  EXPECT_TRUE(again.already_complete);
  EXPECT_EQ(again.documents, report_.documents);
  EXPECT_EQ(again.tokens, report_.tokens);
  EXPECT_EQ(fs::last_write_time(dir_ / "out/a_text_document.json"), written);
  expect_whole();
  EncodeJob job = job_;
  job.append_eod = false;
  EXPECT_NE(refusal(job, Code::config).find("--append-eod was true, is false"), std::string::npos);
  job = job_;
  job.source.inputs.pop_back();
  EXPECT_NE(refusal(job, Code::config).find("input 3 was"), std::string::npos);
  job.force = true;
  EXPECT_FALSE(encode_corpus(job, tokenizer::ByteTokenizer()).already_complete);  // encoded anew
  write_file_atomic(dir_ / "out/a_text_document.json", "{}");
  EXPECT_NE(refusal(job_, Code::io).find("does not say what it was made from"), std::string::npos);
}

TEST_F(Resume, names_the_first_records_left_out_and_counts_all) {
  ASSERT_EQ(report_.skipped_records, 9);
  ASSERT_EQ(report_.first_skipped.size(), kSkippedNamed);
  EXPECT_EQ(report_.first_skipped[0].find((dir_ / "a.jsonl") + ":6"), 0u) << report_.first_skipped[0];
  EXPECT_EQ(report_.first_skipped[3].find((dir_ / "b.jsonl") + ":6"), 0u) << report_.first_skipped[3];
}

TEST_F(Resume, without_a_killed_run_begins_anew_and_what_fails_in_order_leaves_nothing) {
  job_.resume = true;
  EXPECT_EQ(encode_corpus(job_, tokenizer::ByteTokenizer()).resumed_documents, 0);
  expect_whole();
  fs::remove_all(dir_ / "out");
  fs::create_directory(dir_ / "out");
  job_.max_bad = 3;
  EXPECT_THROW(encode_corpus(job_, tokenizer::ByteTokenizer()), Error);
  EXPECT_TRUE(fs::is_empty(dir_ / "out"));
  job_.source.inputs = {"/dev/null"};
  job_.source.format = InputFormat::jsonl;
  EXPECT_THROW(encode_corpus(job_, tokenizer::ByteTokenizer()), Error);
}

TEST(EncodeJournal, a_last_line_cut_short_counts_as_not_there) {
  const ScratchDirectory dir;
  const fs::path path = dir / "journal";
  std::string whole;
  {
    EncodeJournal journal(path, Json{{"inputs", {"a"}}}, {"a_text_document"});
    JournalEntry entry;
    entry.files = {{1, 2, 3, "0123456789abcdef"}};
    entry.at = {0, 1, 2, 3, 4};
    journal.add(entry);
    entry.at.byte = 77;
    journal.add(entry);
    whole = read_file(path);
  }
  EXPECT_FALSE(fs::exists(path));
  const std::size_t second = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_file_atomic(path, whole.substr(0, size));
    const auto found = EncodeJournal::find(path);
    const std::int64_t byte = found && found->last ? found->last->at.byte : -1;
    EXPECT_EQ(byte, size == whole.size() ? 77 : size >= second ? 2 : -1);
    if (byte >= 0) {
      EXPECT_EQ(found->bytes, size == whole.size() ? size : second);
    }
  }
}

}  // namespace
}  // namespace mt::data
