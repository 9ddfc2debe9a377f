#include "ckpt/checkpoint_format.h"

#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/manifest.h"
#include "ckpt/soundness.h"

namespace mt {

namespace {

bool begins_as_gguf(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return false;
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, 4);
  return std::string_view(magic, 4) == "GGUF";
}

}  // namespace

CheckpointFormat detect_format(const fs::path& dir) {
  if (is_there(dir / kManifestName)) return CheckpointFormat::native;
  if (is_there(dir / "metadata.json")) return CheckpointFormat::megatron_torch_dist;
  if (!is_folder(dir)) return begins_as_gguf(dir) ? CheckpointFormat::gguf : CheckpointFormat::unknown;
  bool torch = false, weights = false;
  std::error_code ec;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
    const auto name = it->path().filename().string(), extension = it->path().extension().string();
    torch |= name.rfind("mp_rank_0", 0) == 0;
    weights |= extension == ".safetensors" || extension == ".bin";
  }
  if (ec) throw Error(Code::io, "cannot list directory: " + ec.message(), dir.string());
  if (torch) return CheckpointFormat::megatron_torch;
  if (is_there(dir / ".metadata")) return CheckpointFormat::torch_dcp;
  if (is_there(dir / "params.json") && is_there(dir / "consolidated.00.pth")) return CheckpointFormat::meta;
  if (weights && is_there(dir / "config.json")) return CheckpointFormat::hugging_face;
  return CheckpointFormat::unknown;
}

const char* format_name(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::native: return "native";
    case CheckpointFormat::megatron_torch_dist: return "Megatron torch_dist";
    case CheckpointFormat::megatron_torch: return "Megatron torch";
    case CheckpointFormat::torch_dcp: return "torch DCP";
    case CheckpointFormat::meta: return "Meta";
    case CheckpointFormat::gguf: return "GGUF";
    case CheckpointFormat::hugging_face: return "Hugging Face";
    case CheckpointFormat::unknown: break;
  }
  return "unknown";
}

bool is_foreign(CheckpointFormat format) { return format != CheckpointFormat::native && format != CheckpointFormat::unknown; }

}  // namespace mt
