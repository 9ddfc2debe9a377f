// Pickles and archives that are written here are what is read here; that torch reads them too is tests/peers/megatron_round_trip.py.

#include "foreign/torch_writer.h"

#include <array>

#include "base/temporary_directory.h"
#include "foreign/expected_tensors.h"
#include "foreign/pickle.h"
#include "foreign/torch_file.h"

namespace mt {
namespace {

using test::TemporaryDirectory;

TEST(TorchWriter, PlainValuesComeBack) {
  const Json values = {{"none", nullptr}, {"yes", true}, {"no", false}, {"small", -5}, {"large", std::int64_t{1} << 40}, {"least", INT64_MIN},
                       {"real", 0.1}, {"text", "\u00e9"}, {"list", {1, {2, 3}, Json::array()}}, {"dict", {{"a", Json::object()}}},
                       {"dtype", "<torch.bfloat16>"}, {"angles", "<no name>"}};
  const std::string bytes = PickleWriter().json(values).take();
  const Pickle p = Pickle::parse(test::bytes_of_text(bytes), "x");
  EXPECT_EQ(plain_json(p.root()), values);
  EXPECT_EQ(p.root().find("dtype")->kind(), PickleKind::global) << "a name of torch, not its text";
  EXPECT_EQ(p.root().find("angles")->kind(), PickleKind::text);
}

TEST(TorchWriter, StoragesBeginAtMultiplesOfSixtyFourAndHaveTheirChecksum) {
  const TemporaryDirectory dir;
  OutputFile out(dir / "x.pt");
  out.write("before", 6);
  TorchArchiveWriter archive(out, "top");
  PickleWriter p;
  p.begin_dict().text("w").tensor(DType::bf16, {3, 5}, "0").text("none").tensor(DType::f32, {0, 2}, "1").end_dict();
  archive.pickle(p.take());
  archive.storage("0", 30, [](std::uint64_t begin, std::uint64_t end, std::byte* to) {
    for (auto i = begin; i < end; ++i) *to++ = static_cast<std::byte>(i);
  });
  archive.storage("1", 0, [](std::uint64_t, std::uint64_t, std::byte*) { FAIL() << "there is nothing to fill"; });
  const auto bytes = archive.finish();
  EXPECT_EQ(bytes, out.size() - 6);
  out.commit();
  const std::string all = test::read_text(dir / "x.pt"), zip = all.substr(6);
  for (const auto& e : read_zip_directory(test::bytes_of_text(zip), "x")) {
    EXPECT_EQ(e.begin % 64, 0u) << e.name;
    EXPECT_EQ(e.crc, zip_crc(0, test::bytes_of_text(zip.substr(e.begin, e.size())))) << e.name;
  }
  const TorchFile file(test::bytes_of_text(zip), "x");
  const auto tensors = tensors_of(file, file.root()).tensors;
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].tensor.shape, (Dims{3, 5}));
  EXPECT_EQ(tensors[0].tensor.dtype, DType::bf16);
  std::array<std::byte, 4> some{};
  file.read(tensors[0].tensor, {{1, 2}, {1, 2}}, some.data());
  EXPECT_EQ(some, (std::array<std::byte, 4>{std::byte{14}, std::byte{15}, std::byte{16}, std::byte{17}}));
  EXPECT_EQ(tensors[1].tensor.shape, (Dims{0, 2}));
}

}  // namespace
}  // namespace mt
