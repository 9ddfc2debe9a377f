#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "commands.h"
#include "tokenizer/unicode.h"

namespace mt::eval {

void ModelFlags::add(OptionTable& t) {
  t.group("Model");
  t.add("load", session.load, "DIR", "checkpoint: a --save directory, or an iter_ directory in it");
  t.add("ckpt-step", session.ckpt_step, "N", "this iteration, not the newest").at_least(0);
  t.add("tensor-model-parallel-size", session.tp, "N", "ranks that share each layer").at_least(1);
  t.add("bf16", bf16, "", "compute in bf16, whatever the checkpoint's type");
  t.add("fp32", fp32, "", "compute in f32, whatever the checkpoint's type");
  t.add("device", session.device, "NAME", "cpu, or cuda: one GPU a rank");
  t.add("threads", session.threads, "N", "threads a rank; default OMP_NUM_THREADS, else cores / ranks on this host")
      .between(1, 1024)
      .no_default();
  tokenizer.add(t);
  t.group("Launch");
  launch.add_local_ranks(t);
  launch.add_timeout(t);
  registry.add(t);
}

SessionOptions ModelFlags::resolved() const {
  if (session.load.empty()) throw Error(Code::usage, "no checkpoint given", "--load", "--load DIR");
  if (bf16 && fp32) throw Error(Code::usage, "--bf16 and --fp32 exclude each other");
  SessionOptions o = session;
  if (bf16) o.compute = DType::bf16;
  if (fp32) o.compute = DType::f32;
  return o;
}

std::unique_ptr<tokenizer::Tokenizer> tokenizer_for(const ModelFlags& flags, const Session& session) {
  auto tokenizer = tokenizer::make_tokenizer(flags.tokenizer.spec());
  const std::string mine = hash_text(tokenizer->fingerprint()), theirs = session.meta().tokenizer;
  if (!theirs.empty() && mine != theirs)
    throw Error(Code::config, fmt::format("the model was trained with another tokenizer ({}, not {})", theirs, mine),
                session.dir().string(), "give the tokenizer its data was encoded with");
  if (tokenizer->vocab_size() > session.model().vocab_size)
    throw Error(Code::config, fmt::format("the tokenizer has {} ids, the model {}", tokenizer->vocab_size(),
                                          session.model().vocab_size),
                session.dir().string(), "give the tokenizer its data was encoded with");
  return tokenizer;
}

std::string told_precision(Communicator& world, const Session& session) {
  const std::string compute(dtype_name(session.compute()));
  const auto& training = session.meta().training;
  const Json trained = training.value("options", Json::object());
  const auto word = [&](const char* key) { return trained.is_object() ? trained.value(key, Json("")) : Json(""); };
  const Json format = word("fp8-format"), recipe = word("fp8-recipe");
  if (world.rank() == 0 && format.is_string() && !format.get<std::string>().empty())
    log::warn("the model was trained with --fp8-format {} --fp8-recipe {}; it is computed in {}, without rounding to fp8",
              format.get<std::string>(), recipe.is_string() ? recipe.get<std::string>() : recipe.dump(), compute);
  return compute;
}

void check_utf8(std::string_view text, const std::string& where) {
  const auto at = tokenizer::find_invalid_utf8(text);
  if (at != std::string_view::npos)
    throw Error(Code::data, fmt::format("byte {} of the text is not UTF-8", at + 1), where, "convert it, for instance with iconv");
}

}  // namespace mt::eval
