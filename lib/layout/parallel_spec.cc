#include "layout/parallel_spec.h"

#include "base/error.h"
#include "layout/pipeline_split.h"

namespace mt {

std::string parallel_text(const ParallelSpec& s) {
  std::string t = fmt::format("tp {}, cp {}, pp {}, dp {}", s.tp, s.cp, s.pp, s.dp);
  if (s.ep > 1 || (s.etp > 1 && s.etp != s.tp)) t += fmt::format(", ep {}, etp {}", s.ep, s.etp);
  if (s.vpp > 1) t += fmt::format(", vpp {}{}", s.vpp, s.v_shape ? " in a V" : "");
  if (!s.stage_layers.empty()) t += ", stages " + pipeline_layout_text(s.stage_layers);
  if (s.sequence_parallel) t += ", sequence parallel";
  if (s.zero_stage > 0) t += fmt::format(", ZeRO {}", s.zero_stage);
  if (s.optimizer_instances > 1) t += fmt::format(" in {} instances", s.optimizer_instances);
  return t;
}

Json to_json(const ParallelSpec& s) {
  Json j{{"tp", s.tp},   {"cp", s.cp},   {"pp", s.pp},
         {"dp", s.dp},   {"ep", s.ep},   {"etp", s.etp},
         {"vpp", s.vpp}, {"sequence_parallel", s.sequence_parallel}, {"zero_stage", s.zero_stage},
         {"order", s.order}};
  if (!s.stage_layers.empty()) j["stage_layers"] = s.stage_layers;
  if (s.v_shape) j["v_shape"] = true;
  if (s.optimizer_instances > 1) j["optimizer_instances"] = s.optimizer_instances;
  return j;
}

ParallelSpec parallel_from_json(const Json& j, const std::string& where) {
  ParallelSpec s;
  s.tp = json_field<int>(j, "tp", where);
  s.cp = json_field<int>(j, "cp", where);
  s.pp = json_field<int>(j, "pp", where);
  s.dp = json_field<int>(j, "dp", where);
  s.ep = json_field<int>(j, "ep", where);
  s.etp = json_field<int>(j, "etp", where);
  s.vpp = json_field<int>(j, "vpp", where);
  s.sequence_parallel = json_field<bool>(j, "sequence_parallel", where);
  s.zero_stage = json_field<int>(j, "zero_stage", where);
  s.order = json_field<std::string>(j, "order", where);
  if (j.contains("v_shape")) s.v_shape = json_field<bool>(j, "v_shape", where);
  if (j.contains("optimizer_instances")) s.optimizer_instances = json_field<int>(j, "optimizer_instances", where);
  if (j.contains("stage_layers")) s.stage_layers = json_field<std::vector<int>>(j, "stage_layers", where);
  return s;
}

}  // namespace mt
