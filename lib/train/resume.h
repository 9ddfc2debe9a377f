#pragma once
// The start from a checkpoint: which one, whether it fits, and taking it in.
//
// All collective over the world. Code: train/resume.cc. Tests: tests/train/loop_test.cc.

#include <memory>

#include "ckpt/iterations.h"
#include "ckpt/reader.h"
#include "engine/checkpoint.h"
#include "train/training_run.h"

namespace mt {

// The checkpoint of save_local that a run which goes on from where it saves takes: newer than the newest in `load`.
//   passed_over  what is wrong with one that cannot be taken, a sentence for the log; null: not wanted
//   gives        nothing also where `load` is not `save`, or ckpt_step asks
std::optional<Resolved> newer_local(const TrainingOptions& options, std::string* passed_over = nullptr);

// The checkpoint that `load` names, or newer_local(); a save_local that cannot be read is among what was ignored.
//   fails  as resolve(); where none was ever saved the hint is load_if_present
Resolved resolve_load(const TrainingOptions& options);

// The checkpoint of --load, the same on every rank; null for a fresh start. One of save_local is read whole by rank 0
// first, and passed over where its bytes are not those that were saved.
//   fails  Error{io}, Error{corrupt} as resolve(); Error{config} when ranks see different ones
std::unique_ptr<Reader> find_checkpoint(TrainingRun& run);

// Weights alone with --finetune and --no-load-optim.
LoadWhat what_to_load(const TrainingOptions& options);

// Shapes can agree where computation does not: other head counts, another norm epsilon or rotary base.
//   gives  what differs where --finetune lets it, a sentence for the log; "" where nothing does
//   fails  Error{config} naming the field; never with --finetune
std::string require_same_model(const TrainingOptions& options, const ModelSpec& model, const Reader& reader);

// Weights, optimizer state, position and learning-rate schedule into the run.
//   fails  Error{config} for another schedule or tokenizer; Error{corrupt}, Error{io}
void load_checkpoint(TrainingRun& run, const Reader& reader);

// What a dry run says of where the run would start and save, with no rank started: {"checked": bool, "words": why not, or
// what was looked at}. A --load that is not on this machine is left aside.
//   fails  as find_checkpoint, check_loadable of every stage, require_same_model, load_checkpoint's schedule, look_at_saves
Json look_at_start(const TrainingOptions& options, const ModelSpec& model);

}  // namespace mt
