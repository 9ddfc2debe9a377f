#include "layout/state_spec.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/models.h"

namespace mt {
namespace {

std::vector<std::string> kinds(const StateSpec& state, const ParamSpec& spec) {
  std::vector<std::string> out;
  for (const auto& k : state_kinds(state, spec)) out.emplace_back(k.kind);
  return out;
}

TEST(StateSpec, NamesAreReadAndWritten) {
  for (const char* name : {"adam", "sgd", "lion", "muon"})
    EXPECT_STREQ(update_rule_name(parse_update_rule(name)), name);
  EXPECT_THROW(parse_update_rule("soap"), Error);
  StateSpec s;
  s.rule = UpdateRule::sgd;
  EXPECT_EQ(state_name(s), "sgd");
  s.momentum = false;
  EXPECT_EQ(state_name(s), "sgd without momentum");
}

TEST(StateSpec, MuonTakesTheMatricesOfLayersAndNothingElse) {
  int matrices = 0;
  for (const bool llama : {false, true})
    for (const auto& spec : param_specs(test::small_model({llama, 8, 2, 61}), {}, {})) {
      const bool mine = spec.shape.size() == 2 && spec.name.find("linear_") != std::string::npos;
      EXPECT_EQ(is_layer_matrix(spec), mine) << spec.name;
      matrices += mine;
      StateSpec s;
      s.rule = UpdateRule::muon;
      EXPECT_EQ(kinds(s, spec), mine ? std::vector<std::string>{"momentum_buffer"}
                                     : (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
      s.rule = UpdateRule::lion;
      EXPECT_EQ(kinds(s, spec), std::vector<std::string>{"exp_avg"});
      s.rule = UpdateRule::sgd;
      EXPECT_EQ(kinds(s, spec), std::vector<std::string>{"momentum_buffer"});
      s.momentum = false;
      EXPECT_TRUE(kinds(s, spec).empty());
    }
  EXPECT_EQ(matrices, 2 * 2 * 4);
}

}  // namespace
}  // namespace mt
