// Samples of conversations against Megatron's own classes; layouts, formats and faults.

#include "data/sft_dataset.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/bpe_trainer.h"
#include "data/chat_record.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/unicode.h"
#include "golden_samples.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

// Bytes and control tokens, nothing merged.
class Sft : public testing::Test {
 protected:
  Sft() {
    tokenizer::BpeTrainer trainer({256 + static_cast<std::int32_t>(kSpecials.size()), 0, kSpecials});
    trainer.add("x");
    tokenizer::write_tokenizer_json(dir_ / "t.json", trainer.train(), false);
    tokenizer::TokenizerSpec spec;
    spec.type = "SFTTokenizer";
    spec.model = dir_ / "t.json";
    tokenizer_ = tokenizer::make_tokenizer(spec);
  }
  std::string spelled(std::span<const Id> ids) const { return tokenizer_->decode(ids); }

  // Targets that count.
  std::string targets(const TrainingSample& s) const {
    std::vector<Id> ids;
    for (std::size_t i = 0; i < s.labels.size(); ++i)
      if (s.loss_mask[i] != 0) ids.push_back(s.labels[i]);
    return spelled(ids);
  }
  TrainingSample sample(const std::string& format, const std::string& line, std::int64_t length) const {
    TrainingSample s;
    tokenizer::EncodeScratch scratch;
    pack_conversations(read_conversations(line, "x:1"), PromptFormat(format, *tokenizer_), length, scratch, s);
    return s;
  }

  const std::vector<std::string> kSpecials = {"<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<SPECIAL_233>", "<unk>",
                                              "</s>", "<s>", "[INST]", "<|im_start|>", "<|im_end|>", "<|endoftext|>"};
  ScratchDirectory dir_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

// The golden file writes a byte as the character of its number.
std::string bytes_of(const Json& text) {
  const auto characters = text.get<std::string>();
  std::string bytes;
  for (std::size_t i = 0; i < characters.size();) {
    const tokenizer::Decoded d = tokenizer::decode_utf8(characters.data() + i);
    bytes += static_cast<char>(d.code_point);
    i += d.size;
  }
  return bytes;
}

TEST_F(Sft, makes_megatrons_samples) {
  int cut = 0, several = 0;
  for (const std::string& line : golden_lines("sft.jsonl")) {
    const Json j = Json::parse(line);
    const auto length = j["length"].get<std::int64_t>();
    const TrainingSample s = sample(j["format"], Json{{"messages", j["messages"]}}.dump(), length);
    EXPECT_EQ(spelled(s.ids), bytes_of(j["tokens"])) << line;
    EXPECT_EQ(targets(s), bytes_of(j["targets"])) << line;
    std::string mask;
    std::vector<std::int32_t> starts;
    for (std::size_t i = 0; i < s.loss_mask.size(); ++i) {
      mask += s.loss_mask[i] != 0 ? '1' : '0';
      if (s.positions[i] == 0) starts.push_back(static_cast<std::int32_t>(i));
      else EXPECT_EQ(s.positions[i], s.positions[i - 1] + 1);
    }
    EXPECT_EQ(mask, j["loss_mask"].get<std::string>());
    EXPECT_EQ(starts, j["position_0"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(s.bounds, j["cu_seqlens"].get<std::vector<std::int32_t>>());
    cut += s.dropped > 0 ? 1 : 0;
    several += s.bounds.size() > 2 ? 1 : 0;
  }
  EXPECT_GT(cut, 10);
  EXPECT_GT(several, 5);
}

TEST_F(Sft, reads_the_layouts_people_keep) {
  const auto text = [&](const std::string& line) {
    std::string all;
    for (const Conversation& c : read_conversations(line, "x:1")) {
      all += "/";
      for (const Turn& t : c) all += fmt::format("{}={};", t.role, t.content);
    }
    return all;
  };
  EXPECT_EQ(text(R"({"messages":[{"role":"User","content":"a"},{"role":"assistant","content":"b","name":"n"},
                    {"role":"system","content":"s"},{"role":"user","content":null}]})"),
            "/user=a;assistant=b;/system=s;user=;");
  EXPECT_EQ(text(R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},
                    {"from":"observation","value":"c"},{"from":"somebody","value":"d"}]})"),
            "/system=;user=a;assistant=b;tool=c;user=d;");
  EXPECT_EQ(text(R"({"conversations":[{"from":"system","value":"s"},{"from":"human","value":"a"}]})"),
            "/system=s;user=a;");
  EXPECT_EQ(text(R"({"instruction":"do","input":"this","output":"done"})"), "/system=;user=do\n\nthis;assistant=done;");
  EXPECT_EQ(text(R"({"question":"q","instruction":"","context":"","response":"r"})"), "/system=;user=q;assistant=r;");
  EXPECT_EQ(text(R"({"messages":[],"messages":[{"role":"user","content":"last"}]})"), "/user=last;");
}

TEST_F(Sft, formats_put_the_loss_on_answers_with_their_end) {
  const std::string line =
      R"({"messages":[{"role":"system","content":" s "},{"role":"user","content":" u "},{"role":"assistant","content":" a "},
         {"role":"user","content":"v"},{"role":"assistant","content":"b"}]})";
  const auto shows = [&](const std::string& format, const std::string& text, const std::string& counted) {
    const TrainingSample s = sample(format, line, 300);
    EXPECT_EQ(spelled(s.ids).substr(0, text.size()), text);
    EXPECT_EQ(targets(s), counted);
  };
  shows("chatml",
        "<|im_start|>system\n s <|im_end|>\n<|im_start|>user\n u <|im_end|>\n<|im_start|>assistant\n a <|im_end|>\n"
        "<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|endoftext|>",
        " a <|im_end|>b<|im_end|>");
  shows("llama3",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|><|start_header_id|>user<|end_header_id|>"
        "\n\nu<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\na<|eot_id|><|start_header_id|>user",
        "a<|eot_id|>b<|eot_id|>");
  shows("mistral", "<s>[INST] u[/INST] a</s>[INST] s\n\nv[/INST] b</s></s>", " a</s> b</s>");
  shows("mistral-v1", "<s>[INST] s\n\nu [/INST] a</s>[INST] v [/INST] b</s></s>", " a</s> b</s>");
  EXPECT_EQ(PromptFormat("chatml", *tokenizer_).missing_tokens(), std::vector<std::string>());
  EXPECT_EQ(PromptFormat("llama3", *tokenizer_).missing_tokens().size(), 3u);
  EXPECT_THROW(PromptFormat("default", *tokenizer_), Error);
  EXPECT_THROW(PromptFormat("alpaca", *tokenizer_), Error);
}

TEST_F(Sft, strips_what_python_strips) {
  EXPECT_EQ(strip_space(" \t\n\x1c\u00a0\u2003\u3000a b\u200b\u2028"), "a b\u200b");
  EXPECT_EQ(strip_space("\u0085a\u0085"), "a");
  EXPECT_EQ(strip_space(" \n "), "");
}

TEST_F(Sft, names_line_and_message_of_a_fault) {
  const auto refused = [&](const std::string& line, const std::string& word) {
    const std::string path = dir_.file("f.jsonl", "\n{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}\n" + line + "\n");
    try {
      SftFile file(path);
      ADD_FAILURE() << line;
    } catch (const Error& e) {
      const std::string all = std::string(e.what());
      EXPECT_NE(all.find(word), std::string::npos) << all;
      EXPECT_NE(all.find("f.jsonl:3"), std::string::npos) << all;
      EXPECT_EQ(e.code(), Code::data);
    }
  };
  refused(R"({"messages":[{"role":"robot","content":"u"}]})", "unknown role 'robot'");
  refused(R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":""}]})", "message 2: an empty answer");
  refused(R"({"messages":[{"role":"assistant","content":"a"}]})", "message 1: an answer follows");
  refused(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})", "message 1: content: wanted a string");
  refused(R"({"messages":"u"})", "wanted a list");
  refused(R"({"messages":[]})", "no messages");
  refused(R"({"text":"plain"})", "the keys are 'text'");
  refused(R"({"instruction":"i","output":""})", "an empty answer");
  refused(R"(["messages"])", "wanted an object");
  refused(R"({"messages":)", "not JSON");
  EXPECT_THROW(SftFile(dir_.file("empty.jsonl", "\n \n")), Error);
  EXPECT_THROW(SftFile(dir_ / "absent.jsonl"), Error);
}

std::string talk(int i, int words) {
  std::string text;
  for (int w = 0; w < words; ++w) text += "w";
  return fmt::format("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}},{{\"role\":\"assistant\",\"content\":\"{}\"}}]}}\n",
                     i, text);
}

TEST_F(Sft, a_line_is_a_sample_in_order_and_without_end) {
  std::string lines;
  for (int i = 0; i < 5; ++i) lines += talk(i, 3 + i);
  const SftFile file(dir_.file("a.jsonl", "\n" + lines));
  EXPECT_EQ(file.num_lines(), 5);
  const PromptFormat format("identity", *tokenizer_);
  const SftDataset set({{&file}, {{1, 4}}, {}, 0, 16, false}, format);
  EXPECT_EQ(set.pass(), 3);
  for (const std::int64_t k : {0, 1, 2, 3, 100}) {
    TrainingSample s;
    set.make(k, s);
    EXPECT_EQ(spelled(std::span(s.ids).first(1)), std::to_string(1 + k % 3));
    EXPECT_EQ(targets(s), std::string(static_cast<std::size_t>(4 + k % 3), 'w'));
  }
  EXPECT_THROW(SftDataset({{&file}, {{2, 2}}, {}, 0, 16, false}, format), Error);
}

TEST_F(Sft, packed_lines_share_a_sample_while_they_fit) {
  const SftFile file(dir_.file("p.jsonl", talk(0, 4) + talk(1, 4) + talk(2, 5) + talk(3, 30) + talk(4, 2)));
  const PromptFormat format("identity", *tokenizer_);
  const SftDataset set({{&file}, {{0, 5}}, {}, 0, 16, true}, format);  // 5 + 5 + 6, 31, 3
  ASSERT_EQ(set.pass(), 3);
  TrainingSample s;
  set.make(0, s);
  EXPECT_EQ(spelled(s.ids), "0wwww1wwww2wwwww");
  EXPECT_EQ(s.bounds, (std::vector<std::int32_t>{0, 5, 10, 16}));
  EXPECT_EQ(s.positions[5], 0);
  EXPECT_EQ(targets(s), "wwwwwwwwwwwww");
  EXPECT_EQ(s.dropped, 0);
  set.make(1, s);
  EXPECT_EQ(s.dropped, 15);
  EXPECT_EQ(targets(s), std::string(15, 'w'));  // the last input has no target
  set.make(2, s);
  EXPECT_EQ(targets(s), "ww");
}

TEST_F(Sft, a_blend_draws_by_weight_and_counts_conversations_without_answers) {
  const SftFile a(dir_.file("a.jsonl", talk(0, 1) + talk(1, 1)));
  const SftFile b(dir_.file("b.jsonl", talk(2, 1) + R"({"messages":[{"role":"user","content":"?"}]})" "\n"));
  EXPECT_EQ(a.num_without_answer(), 0);
  EXPECT_EQ(b.num_without_answer(), 1);
  EXPECT_EQ(b.num_conversations(), 2);
  const PromptFormat format("identity", *tokenizer_);
  const SftDataset set({{&a, &b}, {{0, 2}, {0, 2}}, {3, 1}, 400, 16, false}, format);
  int from_b = 0;
  TrainingSample s;
  for (std::int64_t k = 0; k < 400; ++k) {
    from_b += set.place(k).first == 1 ? 1 : 0;
    set.make(k, s);
    EXPECT_EQ(targets(s), spelled(std::span(s.ids).first(1)) == "?" ? "" : "w");
  }
  EXPECT_NEAR(from_b, 100, 1);
}

}  // namespace
}  // namespace mt::data
