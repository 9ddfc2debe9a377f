#include "options/training_flags.h"

namespace mt::options {

void add_recompute(OptionTable& t, RecomputeOptions& r) {
  t.group("Recompute");
  t.add("recompute-granularity", r.granularity, "NAME",
        "selective: some modules of every layer; full: whole layers; default none");
  t.add("recompute-method", r.method, "NAME", "full: uniform, groups over all layers; block, the first layers of a stage");
  t.add("recompute-num-layers", r.num_layers, "N", "full: layers of a group, or layers of a stage", "layers");
  t.add("recompute-modules", r.modules, "NAME", "selective: core_attn (default), mlp, layernorm, mlp_act").multiple = true;
  t.add("recompute-activations", r.activations, "", "the old name of --recompute-granularity selective");
  t.add("distribute-saved-activations", r.distribute_saved, "", "full: shard the kept inputs of layers over tp");
}

}  // namespace mt::options
