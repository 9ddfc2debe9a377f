#include "foreign/hf_files.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "base/error.h"
#include "ckpt/soundness.h"

namespace mt {

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTorchSingle = "pytorch_model.bin";
constexpr const char* kTorchIndex = "pytorch_model.bin.index.json";
constexpr const char* kConfig = "config.json";
constexpr std::uint64_t kPiece = 16 << 20;

// Names of tensors and the files that have them.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const Json j = read_json(path);
  const auto refuse = [&](const std::string& why) { throw Error(Code::corrupt, why, path.string()); };
  if (!j.is_object() || !j.contains("weight_map") || !j["weight_map"].is_object()) refuse("no weight_map in it");
  std::map<std::string, std::string> out;
  for (const auto& [name, file] : j["weight_map"].items()) {
    if (!file.is_string()) refuse("the file of " + name + " is no name");
    const auto f = file.get<std::string>();
    if (f.empty() || f.find('/') != std::string::npos || f[0] == '.') refuse("names a file outside the directory: " + f);
    out[name] = f;
  }
  return out;
}

// Files that a model of several leaves: model-00001-of-00003.safetensors.
std::vector<fs::path> old_shards(const fs::path& dir) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    const auto name = entry.path().filename().string();
    if (name.size() == std::strlen("model-00001-of-00003.safetensors") && name.rfind("model-", 0) == 0 &&
        name.compare(11, 4, "-of-") == 0 && entry.path().extension() == ".safetensors")
      out.push_back(entry.path());
  }
  return out;
}

}  // namespace

HfWeights::HfWeights(const fs::path& dir) {
  if (!is_there(dir)) throw Error(Code::io, "no such directory", dir.string());
  if (is_there(dir / kIndex)) add_all(dir, kIndex);
  else if (is_there(dir / kSingle)) add_file(dir / kSingle, nullptr);
  else if (is_there(dir / kTorchIndex)) add_all(dir, kTorchIndex);
  else if (is_there(dir / kTorchSingle)) add_file(dir / kTorchSingle, nullptr);
  else
    throw Error(Code::config, fmt::format("no {}, no {} and no index of several", kSingle, kTorchSingle), dir.string(),
                "name the directory of a Hugging Face model");
}

void HfWeights::add_all(const fs::path& dir, const char* index_name) {
  const Index index = read_index(dir / index_name);
  std::vector<std::string> names;
  for (const auto& [name, file] : index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const auto& file : names) add_file(dir / file, &index);
  for (const auto& [name, file] : index)
    if (tensors_.count(name) == 0) throw Error(Code::corrupt, fmt::format("{} is not in {}, as the index says", name, file), (dir / index_name).string());
}

void HfWeights::add_file(const fs::path& path, const Index* index) {
  paths_.push_back(path);
  File& file = files_.emplace_back();
  const std::size_t place = files_.size() - 1;
  if (path.extension() == ".bin") {
    file.torch = std::make_unique<TorchFile>(path);
    for (auto& t : tensors_of(*file.torch, file.torch->root()).tensors) {
      SafetensorsEntry e{t.name, t.tensor.dtype_text, t.tensor.dtype, t.tensor.shape, 0, 0};
      e.end = static_cast<std::uint64_t>(num_elements(e.shape)) * t.tensor.element_bytes;
      add_tensor({std::move(e), place, std::move(t.tensor)}, index);
    }
    return;
  }
  file.mapped = MappedFile(path);
  const auto header = parse_safetensors_header(file.mapped.bytes(), file.mapped.size(), path.string());
  file.data_start = header.data_start;
  for (const auto& entry : header.tensors) add_tensor({entry, place}, index);
}

void HfWeights::add_tensor(Tensor tensor, const Index* index) {
  const auto& path = paths_[tensor.file];
  const std::string name = tensor.entry.name;
  if (index != nullptr) {
    const auto said = index->find(name);
    if (said == index->end()) throw Error(Code::corrupt, "has " + name + ", which the index does not name", path.string());
    if (said->second != path.filename().string()) throw Error(Code::corrupt, "has " + name + ", which the index has elsewhere", path.string());
  }
  if (!tensors_.emplace(name, std::move(tensor)).second) throw Error(Code::corrupt, "has " + name + " a second time", path.string());
}

void HfWeights::read(const std::string& name, const Box& box, std::byte* out) const {
  const Tensor& t = tensors_.at(name);
  const File& file = files_[t.file];
  if (t.torch) return file.torch->read(*t.torch, box, out);
  const auto width = static_cast<std::size_t>(bytes_of(*t.entry.dtype, 1));
  const std::byte* data = file.mapped.data() + file.data_start + t.entry.begin;
  for_each_run(whole(t.entry.shape), box, [&](std::int64_t at, std::int64_t inner, std::int64_t n) {
    std::memcpy(out + static_cast<std::size_t>(inner) * width, data + static_cast<std::size_t>(at) * width,
                static_cast<std::size_t>(n) * width);
  });
}

std::vector<std::string> write_hf(const HfOutput& output, std::span<const HfTensor> tensors, const Json& config,
                                  const std::function<void(std::size_t, std::uint64_t, std::uint64_t, std::byte*)>& fill) {
  // Tensors of each file, half open.
  std::vector<std::pair<std::size_t, std::size_t>> files;
  std::uint64_t in_file = 0, total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (files.empty() || (in_file > 0 && in_file + tensors[i].bytes() > output.max_shard_bytes)) files.push_back({i, i}), in_file = 0;
    files.back().second = i + 1;
    in_file += tensors[i].bytes();
    total += tensors[i].bytes();
  }
  std::vector<std::string> names;
  for (std::size_t f = 0; f < files.size(); ++f)
    names.push_back(files.size() == 1 ? kSingle : fmt::format("model-{:05d}-of-{:05d}.safetensors", f + 1, files.size()));
  std::error_code ec;
  fs::create_directories(output.dir, ec);
  if (ec) throw Error(Code::io, "cannot make the directory: " + ec.message(), output.dir.string());
  std::vector<std::string> all = names;
  for (const char* other : {kConfig, kIndex, kSingle}) all.push_back(other);
  for (const auto& name : all)
    if (!output.force && is_there(output.dir / name))
      throw Error(Code::config, "is there already", (output.dir / name).string(), "another directory, or --force replaces it");
  for (const auto& name : all)
    for (const auto& left : stale_temporaries(output.dir / name)) fs::remove(left, ec);
  Json map = Json::object();
  std::deque<OutputFile> written;
  const auto piece = std::make_unique<std::byte[]>(kPiece);
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::vector<SafetensorsEntry> entries;
    for (std::size_t i = files[f].first; i < files[f].second; ++i) {
      SafetensorsEntry e;
      e.name = tensors[i].name;
      e.dtype = tensors[i].dtype;
      e.dtype_text = std::string(safetensors_dtype_name(tensors[i].dtype));
      e.shape = tensors[i].shape;
      entries.push_back(std::move(e));
      map[tensors[i].name] = names[f];
    }
    OutputFile& file = written.emplace_back(output.dir / names[f]);
    const auto header = make_safetensors_header(entries, {{"format", "pt"}});
    file.write(header.data(), header.size());
    for (std::size_t i = files[f].first; i < files[f].second; ++i)
      for (std::uint64_t at = 0; at < tensors[i].bytes(); at += kPiece) {
        const auto end = std::min(at + kPiece, tensors[i].bytes());
        fill(i, at, end, piece.get());
        file.write(piece.get(), static_cast<std::size_t>(end - at));
      }
    file.finish();
  }
  // What was a model stays one until all of the new one is on the disk; for the moment of the renames it is none.
  for (const char* old : {kConfig, kIndex, kSingle}) fs::remove(output.dir / old, ec);
  for (auto& file : written) file.publish();
  for (const auto& old : old_shards(output.dir))
    if (std::find(names.begin(), names.end(), old.filename().string()) == names.end()) fs::remove(old, ec);
  if (files.size() > 1) write_file_atomic(output.dir / kIndex, Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
  write_file_atomic(output.dir / kConfig, config.dump(2) + "\n");
  return names;
}

}  // namespace mt
