#include "mt-ckpt/opened.h"

#include "base/error.h"
#include "base/log.h"
#include "foreign/foreign_tensors.h"
#include "foreign/gguf_convert.h"
#include "foreign/hf_convert.h"
#include "foreign/megatron_convert.h"
#include "foreign/meta_files.h"
#include "mt-ckpt/commands.h"

namespace mt {

namespace {

ForeignModel open_foreign(const std::string& path, const std::string& format, std::optional<std::int64_t> iteration, bool weights_only) {
  if (format == "hf") return open_hf(path);
  if (format == "meta") return open_meta(path);
  if (format == "gguf") return open_gguf(path);
  return open_megatron(path, iteration, std::nullopt, weights_only);
}

}  // namespace

Opened open_tensors(const std::string& path, std::optional<std::int64_t> iteration, bool weights_only) {
  Opened out;
  out.format = foreign_format(path, iteration);
  if (out.format.empty()) {
    out.dir = resolve_and_tell(path, iteration).dir;
    out.reader = std::make_unique<Reader>(out.dir);
    out.tensors = std::make_unique<CheckpointTensors>(*out.reader);
    return out;
  }
  out.dir = path;
  out.model = std::make_unique<ForeignModel>(open_foreign(path, out.format, iteration, weights_only));
  for (const auto& n : out.model->notices) log::warn("{}: {}", path, n);
  out.tensors = std::make_unique<ForeignTensors>(out.model->tensors, out.model->what);
  return out;
}

}  // namespace mt
