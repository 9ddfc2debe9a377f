// The torch_dist format, written: each chunk an archive of torch.save in one file, and a pickle that says where.

#include "base/error.h"
#include "foreign/megatron_export.h"
#include "foreign/torch_writer.h"

namespace mt {

namespace {

constexpr const char* kFile = "__0_0.distcp";
constexpr const char* kMetadata = "torch.distributed.checkpoint.metadata";

struct Chunk {
  std::size_t tensor = 0;
  Dims offset, extent;
  std::uint64_t begin = 0, bytes = 0;  // in the file
};

std::vector<Chunk> chunks_of(const DistTensor& t, std::size_t place) {
  Dims first(t.shape.begin(), t.shape.begin() + t.chunk_dims);
  std::vector<Chunk> out;
  for (std::int64_t i = 0; i < num_elements(first); ++i) {
    Chunk c{place, Dims(t.shape.size(), 0), t.shape};
    std::int64_t rest = i;
    for (int d = t.chunk_dims; d-- > 0;) {
      const auto at = static_cast<std::size_t>(d);
      c.offset[at] = rest % first[at];
      rest /= first[at];
      c.extent[at] = 1;
    }
    out.push_back(std::move(c));
  }
  return out;
}

void write_properties(PickleWriter& p, DType dtype) {
  p.global(kMetadata, "TensorProperties").begin_tuple().end_tuple().make();
  p.begin_tuple().global("torch", torch_dtype_word(dtype));
  p.global("torch.serialization", "_get_layout").begin_tuple().text("torch.strided").end_tuple().call().boolean(false);
  p.global(kMetadata, "_MEM_FORMAT_ENCODING").begin_tuple().integer(0).end_tuple().call().boolean(false).end_tuple().build();
}

std::string metadata_of(std::span<const DistTensor> tensors, const std::vector<Chunk>& chunks) {
  PickleWriter p;
  p.begin_object(kMetadata, "Metadata").text("state_dict_metadata").begin_dict();
  std::size_t next = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    p.text(tensors[i].name).begin_object(kMetadata, "TensorStorageMetadata").text("properties");
    write_properties(p, tensors[i].dtype);
    p.text("size").size(tensors[i].shape).text("chunks").begin_list();
    for (; next < chunks.size() && chunks[next].tensor == i; ++next)
      p.begin_object(kMetadata, "ChunkStorageMetadata").text("offsets").size(chunks[next].offset).text("sizes").size(chunks[next].extent).end_object();
    p.end_list().end_object();
  }
  p.end_dict().text("planner_data").none().text("storage_data").begin_dict();
  std::int64_t index = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    index = c > 0 && chunks[c].tensor == chunks[c - 1].tensor ? index + 1 : 0;
    p.begin_object(kMetadata, "MetadataIndex").text("fqn").text(tensors[chunks[c].tensor].name).text("offset").size(chunks[c].offset);
    p.text("index").integer(index).end_object();
    p.begin_object("torch.distributed.checkpoint.filesystem", "_StorageInfo").text("relative_path").text(kFile);
    p.text("offset").integer(static_cast<std::int64_t>(chunks[c].begin)).text("length").integer(static_cast<std::int64_t>(chunks[c].bytes)).end_object();
  }
  return p.end_dict().end_object().take();
}

}  // namespace

void write_torch_dist(const std::filesystem::path& dir, std::span<const DistTensor> tensors,
                      const std::function<void(std::size_t, std::int64_t, std::int64_t, std::byte*)>& fill) {
  std::vector<Chunk> all;
  OutputFile file(dir / kFile);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto width = static_cast<std::uint64_t>(bytes_of(tensors[i].dtype, 1));
    std::int64_t first = 0;
    for (auto& c : chunks_of(tensors[i], i)) {
      const std::int64_t n = num_elements(c.extent);
      c.begin = file.size();
      TorchArchiveWriter archive(file, "archive");
      archive.pickle(PickleWriter().tensor(tensors[i].dtype, c.extent, "0").take());
      archive.storage("0", static_cast<std::uint64_t>(n) * width, [&](std::uint64_t begin, std::uint64_t end, std::byte* out) {
        fill(i, first + static_cast<std::int64_t>(begin / width), first + static_cast<std::int64_t>(end / width), out);
      });
      c.bytes = archive.finish();
      first += n;
      all.push_back(std::move(c));
    }
  }
  file.commit();
  write_file_atomic(dir / ".metadata", metadata_of(tensors, all));
}

}  // namespace mt
