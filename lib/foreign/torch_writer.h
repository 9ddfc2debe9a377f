#pragma once
// Files that torch.load reads: pickles of plain values and tensors, and the archive around them.
//
// Code: foreign/torch_writer.cc. Tests: tests/foreign/torch_writer_test.cc; with torch itself, tests/peers/megatron_round_trip.py.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/files.h"
#include "base/json.h"
#include "layout/box.h"

namespace mt {

// A pickle of protocol 2, built from the outside in: what begins a list or dict is ended by its counterpart, and between them
// lie its elements, or keys and values in turn.
class PickleWriter {
 public:
  PickleWriter();
  PickleWriter& none();
  PickleWriter& boolean(bool v);
  PickleWriter& integer(std::int64_t v);
  PickleWriter& real(double v);
  PickleWriter& text(std::string_view v);
  PickleWriter& global(std::string_view module, std::string_view name);
  PickleWriter& begin_dict();
  PickleWriter& end_dict();
  PickleWriter& begin_list();
  PickleWriter& end_list();
  PickleWriter& begin_tuple();
  PickleWriter& end_tuple();
  // Of the callee and the tuple of arguments before it.
  PickleWriter& call();
  // Of the class and the tuple before it: an object; and its state, which was put behind it.
  PickleWriter& make();
  PickleWriter& build();
  // Between begin and end: keys and values of an object's attributes.
  PickleWriter& begin_object(std::string_view module, std::string_view name);
  PickleWriter& end_object();
  PickleWriter& size(const Dims& dims);  // a torch.Size
  // JSON as plain values; a text "<torch.NAME>" is that name of torch, as plain_json (foreign/pickle.h) wrote it.
  PickleWriter& json(const Json& v);
  // A tensor, row-major, that is a whole storage.
  PickleWriter& tensor(DType dtype, const Dims& shape, const std::string& storage);

  // The pickle, ended.
  std::string take();

 private:
  PickleWriter& put(std::string_view bytes);
  PickleWriter& count(std::uint64_t v, int bytes);
  std::string out_;
};

// torch's word of a dtype: "bfloat16".
std::string_view torch_dtype_word(DType dtype);

// One archive of torch.save inside a file that is being written, from where the file ends; entries begin at multiples of 64.
class TorchArchiveWriter {
 public:
  // `top` is the folder all entries lie in.
  TorchArchiveWriter(OutputFile& file, std::string top);

  // data.pkl, and what says how numbers lie.   needs  to be the first
  void pickle(const std::string& bytes);
  // A storage of `bytes` bytes; fill gives bytes [begin, end) in ascending order.
  void storage(const std::string& key, std::uint64_t bytes, const std::function<void(std::uint64_t begin, std::uint64_t end, std::byte* out)>& fill);
  // The directory. Gives the bytes of the whole archive.
  std::uint64_t finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t at, size;
    std::uint32_t crc;
  };
  void entry(const std::string& name, std::string_view content);
  void begin_entry(const std::string& name, std::uint64_t size);
  void end_entry(std::uint32_t crc);
  OutputFile& file_;
  std::string top_;
  std::uint64_t start_;
  std::vector<Entry> entries_;
};

}  // namespace mt
