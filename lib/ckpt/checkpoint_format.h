#pragma once
// Whose checkpoint lies somewhere, told by names, and of a file by its first bytes. Nothing else is read.
//
// Code: ckpt/checkpoint_format.cc. Tests: tests/ckpt/iterations_test.cc.

#include <cstdint>
#include <filesystem>

namespace mt {

// manifest.json is ours, metadata.json Megatron's torch_dist, mp_rank_0* Megatron's legacy torch, .metadata plain torch DCP,
// params.json with consolidated.00.pth Meta's, config.json with *.safetensors or *.bin Hugging Face's.
enum class CheckpointFormat : std::uint8_t { native, megatron_torch_dist, megatron_torch, torch_dcp, meta, gguf, hugging_face, unknown };
//   fails  Error{io}: a directory that cannot be listed
CheckpointFormat detect_format(const std::filesystem::path& path);
const char* format_name(CheckpointFormat format);
// True for a format that is known and not ours.
bool is_foreign(CheckpointFormat format);

}  // namespace mt
