#include "train/graph_options.h"

#include "base/error.h"
#include "train/flag_choice.h"

namespace mt {

void complete_graphs(TrainingOptions& o, std::vector<Problem>& problems) {
  const std::string& impl = o.cuda_graph_impl;
  require_choice("cuda-graph-impl", impl, {"none", "local", "transformer_engine", "full_iteration"});
  if (impl == "none") return;
  if (impl == "transformer_engine")
    problems.push_back({"cuda-graph-impl transformer_engine: layers are the project's own", "--cuda-graph-impl local"});
  if (impl == "full_iteration")
    problems.push_back({"cuda-graph-impl full_iteration: between backward and update the host looks at the norm of gradients",
                        "--cuda-graph-impl local"});
  if (impl != "local" || o.device == "cpu") return;
  o.graph_warmup = o.cuda_graph_warmup_steps;
  const bool through_host = o.distributed_backend == "mpi" || o.distributed_backend == "gloo";
  const struct { bool given; const char* what; const char* near; } clashes[] = {
      {o.parallel.tp > 1 && through_host,
       "tensor-model-parallel-size above 1, whose messages lie inside the graphs: those through the host cannot",
       "--distributed-backend nccl, with a device a rank"},
      {o.parallel.zero_stage >= 2, "sharded gradients or weights, which come and go inside the graphs",
       "--data-parallel-sharding-strategy optim"},
      {o.batch.parts, "samples in parts (reset-position-ids, reset-attention-mask, dataloader-inter-document-masking, sft), of which there may be more or fewer", "--cuda-graph-impl none"},
      {o.model.num_experts > 0, "num-experts: as many tokens as come visit one", "--cuda-graph-impl none"},
      {o.host_layers > 0, "cpu-offloading-num-layers, whose copies go beside the stream", "--cuda-graph-impl none"},
      {o.emulated_ms.has_value(), "emulate-compute: nothing is launched", "--cuda-graph-impl none"}};
  for (const auto& c : clashes)
    if (c.given) problems.push_back({fmt::format("cuda-graph-impl local with {}", c.what), c.near});
}

}  // namespace mt
