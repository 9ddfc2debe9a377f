// Files as torch writes them, element by element; damage is named or seen by a checksum, never read past.

#include "foreign/torch_file.h"

#include <fstream>
#include <map>
#include <sstream>

#include "base/temporary_directory.h"
#include "foreign/golden_files.h"
#include "foreign/torch_bytes.h"

namespace mt {
namespace {

using test::bytes_of_text;
using test::PickledTensor;

struct Expected {
  std::string dtype, bytes;
  Dims shape;
};

std::map<std::string, Expected> expected_of(const std::string& name) {
  std::map<std::string, Expected> out;
  std::ifstream file(test::golden("torch/" + name));
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string key, dtype, shape, hex, n;
    std::getline(fields, key, '\t'), std::getline(fields, dtype, '\t'), std::getline(fields, shape, '\t'), std::getline(fields, hex);
    Expected e{dtype, test::unhex(hex), {}};
    for (std::istringstream s(shape); std::getline(s, n, ',');) e.shape.push_back(std::stoll(n));
    out[key] = e;
  }
  return out;
}

std::string read_box(const TorchFile& file, const TorchTensor& t, const Box& box) {
  std::string out(static_cast<std::size_t>(box.size()) * t.element_bytes, '\0');
  file.read(t, box, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// The elements of a box of a whole row-major tensor.
std::string part_of_whole(const Expected& e, const Box& box, std::size_t width) {
  std::string out;
  for_each_run(whole(e.shape), box, [&](std::int64_t at, std::int64_t, std::int64_t n) {
    out += e.bytes.substr(static_cast<std::size_t>(at) * width, static_cast<std::size_t>(n) * width);
  });
  return out;
}

TEST(TorchFile, TensorsOfEveryKindOfViewAreThoseThatTorchSaved) {
  for (const auto& [file_name, values] : {std::pair("values.pt", "values.tsv"), std::pair("old.pt", "values.tsv"), std::pair("recent.pt", "recent.tsv")}) {
    const auto expected = expected_of(values);
    ASSERT_GE(expected.size(), 17u);
    const TorchFile file(test::golden(std::string("torch/") + file_name));
    const auto found = tensors_of(file, file.root());
    EXPECT_EQ(found.tensors.size(), expected.size());
    EXPECT_EQ(found.others, (std::vector<std::string>{"number", "text", "none"}));
    for (const auto& t : found.tensors) {
      SCOPED_TRACE(std::string(file_name) + " " + t.name);
      const auto& e = expected.at(t.name);
      EXPECT_EQ(t.tensor.dtype_text, e.dtype);
      ASSERT_EQ(t.tensor.shape, e.shape);
      EXPECT_EQ(read_box(file, t.tensor, whole(e.shape)), e.bytes);
      // Every box of it.
      if (e.shape.size() != 2 || e.bytes.empty()) continue;
      for (std::int64_t r = 0; r < e.shape[0]; ++r)
        for (std::int64_t c = 0; c < e.shape[1]; ++c)
          for (const Box& b : {Box{{r, c}, {1, 1}}, Box{{r, 0}, {1, e.shape[1]}}, Box{{0, c}, {e.shape[0], 1}}, Box{{0, c}, {r + 1, e.shape[1] - c}}})
            ASSERT_EQ(read_box(file, t.tensor, b), part_of_whole(e, b, t.tensor.element_bytes)) << box_text(b);
    }
  }
}

TEST(TorchFile, TensorsInOneStorageAreKnownAsTheSame) {
  const TorchFile file(test::golden("torch/values.pt"));
  std::map<std::string, TorchTensor> t;
  for (auto& n : tensors_of(file, file.root()).tensors) t[n.name] = n.tensor;
  EXPECT_TRUE(t["inner.plain"].same_elements_as(t["more.deep.plain_again"]));
  EXPECT_FALSE(t["inner.plain"].same_elements_as(t["inner.turned"]));
}

std::string error_of(const std::string& bytes) {
  try {
    const TorchFile file(bytes_of_text(bytes), "x.pt");
    for (const auto& t : tensors_of(file, file.root()).tensors)
      if (num_elements(t.tensor.shape) < 1 << 20) read_box(file, t.tensor, whole(t.tensor.shape));  // a view may repeat one element
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    return e.what();
  }
  return "no error";
}

std::string of_tensor(const PickledTensor& t) { return test::torch_zip("}" + test::pickled_text("w") + test::pickled(t) + "s"); }

TEST(TorchFile, TensorsThatAreNotInTheirStorageAreRefused) {
  EXPECT_EQ(error_of(of_tensor({})), "no error");
  const auto changed = [](auto change) {
    PickledTensor t;
    change(t);
    return error_of(of_tensor(t));
  };
  EXPECT_CONTAINS(changed([](auto& t) { t.key = "1"; }), "is not in the file");
  EXPECT_CONTAINS(changed([](auto& t) { t.elements = 7; }), "has 28 bytes, and the file 24");
  EXPECT_CONTAINS(changed([](auto& t) { t.elements = -1; }), "a storage of -1 elements");
  EXPECT_CONTAINS(changed([](auto& t) { t.offset = 1; }), "leaves its storage of 24 bytes");
  EXPECT_CONTAINS(changed([](auto& t) { t.offset = -1; }), "an offset of -1");
  EXPECT_CONTAINS(changed([](auto& t) { t.strides = {4, 1}; }), "leaves its storage");
  EXPECT_CONTAINS(changed([](auto& t) { t.strides = {-3, 1}; }), "stride of -3");
  EXPECT_CONTAINS(changed([](auto& t) { t.strides = {1}; }), "2 dimensions and 1 strides");
  EXPECT_CONTAINS(changed([](auto& t) { t.shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}, t.strides = {0, 0}; }), "leaves its storage");
  EXPECT_CONTAINS(changed([](auto& t) { t.type = "torch\nQInt8Storage"; }), "not read: the name torch.QInt8Storage");
  EXPECT_CONTAINS(changed([](auto& t) { t.function = "torch._utils\n_rebuild_qtensor"; }), "torch._utils._rebuild_qtensor");
  EXPECT_EQ(changed([](auto& t) { t.function = "posix\nsystem"; }), "no error") << "no tensor, and nothing happens";
}

TEST(TorchFile, NamesThatAreTwiceOrNestWithoutEndAreRefused) {
  const std::string w = test::pickled_text("w") + test::pickled({});
  EXPECT_CONTAINS(error_of(test::torch_zip("}(" + w + w + "u")), "w is there twice");
  EXPECT_CONTAINS(error_of(test::torch_zip("}q\x01(" + w + test::pickled_text("d") + "h\x01u")), "nest deeper than 16");
  EXPECT_CONTAINS(error_of(test::torch_zip("K\x05")), "wanted a dict of tensors, found 5");
  EXPECT_CONTAINS(error_of(test::torch_zip("}" + test::pickled_text(std::string(2000, 'n')) + test::pickled({}) + "s")), "a name of 2000 bytes");
}

TEST(TorchFile, WhatIsSomethingElseIsCalledByItsName) {
  EXPECT_CONTAINS(error_of(""), "is empty");
  EXPECT_CONTAINS(error_of("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"), "a pointer of Git LFS");
  EXPECT_CONTAINS(error_of(test::le(40, 8) + "{\"__metadata__\":{}}" + std::string(40, ' ')), "looks like safetensors");
  EXPECT_CONTAINS(error_of("<html>not found</html>"), "is no file of torch.save");
  EXPECT_CONTAINS(error_of(test::zip_of({{"a", "b"}})), "without data.pkl");
  EXPECT_CONTAINS(error_of(test::zip_of({{"x/data.pkl", "\x80\x02}."}, {"x/byteorder", "big"}})), "big-endian");
  EXPECT_CONTAINS(error_of(test::zip_of({{"x/data.pkl", "\x80\x02}."}, {"x/constants.pkl", ""}})), "TorchScript");
  EXPECT_CONTAINS(error_of(test::zip_of({{"x/data.pkl", "\x80\x02}.more"}})), "4 bytes behind the pickle");
}

// Both forms, cut anywhere and with any byte changed: an error, or (in what nothing guards) other words, never a crash.
TEST(TorchFile, DamageIsAnErrorWhereverItIs) {
  for (const char* name : {"torch/values.pt", "torch/old.pt"}) {
    std::ifstream in(test::golden(name), std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    ASSERT_GT(good.size(), 1000u);
    EXPECT_EQ(error_of(good), "no error");
    EXPECT_NE(error_of(good + "x"), "no error");
    for (std::size_t n = 0; n < good.size(); n += 13) EXPECT_NE(error_of(good.substr(0, n)), "no error") << name << " " << n;
    for (std::size_t i = 0; i < good.size(); i += 3) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x41);
      error_of(bad);
    }
  }
  // Of an archive every storage has a checksum.
  std::string zip = of_tensor({});
  const auto at = zip.find(std::string(24, '\1'));
  zip[at + 5] = '\2';
  EXPECT_CONTAINS(error_of(zip), "checksum of storage data/0 is another");
}

}  // namespace
}  // namespace mt
