// Directories of archives: what is cut, appended or says two things is refused.

#include "foreign/zip_archive.h"

#include "foreign/golden_files.h"
#include "foreign/torch_bytes.h"

namespace mt {
namespace {

using test::bytes_of_text;
using test::zip_of;

std::string error_of(const std::string& zip) {
  try {
    read_zip_directory(bytes_of_text(zip), "x.pt");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(ZipArchive, EntriesAreWhereTheirContentIs) {
  const std::string zip = zip_of({{"a", "first"}, {"b/c", ""}, {"d", "third"}});
  const auto entries = read_zip_directory(bytes_of_text(zip), "x");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(zip.substr(entries[0].begin, entries[0].size()), "first");
  EXPECT_EQ(entries[1].size(), 0u);
  EXPECT_EQ(zip.substr(entries[2].begin, entries[2].size()), "third");
  EXPECT_EQ(entries[2].crc, zip_crc(zip_crc(0, bytes_of_text("th")), bytes_of_text("ird")));
  EXPECT_EQ(zip_crc(0, bytes_of_text("123456789")), 0xcbf43926u) << "the check value of CRC-32";
}

TEST(ZipArchive, EveryCutAndEveryByteBehindItIsSeen) {
  const std::string zip = zip_of({{"a", "first"}, {"b", "second"}});
  for (std::size_t n = 0; n < zip.size(); ++n) EXPECT_NE(error_of(zip.substr(0, n)), "no error") << n;
  EXPECT_CONTAINS(error_of(zip + "x"), "something was appended");
  EXPECT_CONTAINS(error_of(zip + zip), "not where its end says");
}

TEST(ZipArchive, WhatSaysTwoThingsIsRefused) {
  EXPECT_CONTAINS(error_of(zip_of({{"a", "1"}, {"a", "2"}})), "entry 'a' is there twice");
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 8}})), "is compressed (method 8)");
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 0, 1}})), "is encrypted");
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 0, 0, "b"}})), "another name in its own header");
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 0, 0, "", 7}})), "no header where the directory says");
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 0, 0, "", -1, 4000}})), "leaves the archive");
  // The content of one runs into the header of the next.
  EXPECT_CONTAINS(error_of(zip_of({{"a", "12345", 0, 0, "", -1, 40}, {"b", "12345678901234567890"}})), "entries 'a' and 'b' overlap");
}

// Every single bit of the headers: an answer each time, and never one that leaves the bytes.
TEST(ZipArchive, AFlippedBitNeverMakesAnEntryThatLeavesTheArchive) {
  const std::string zip = zip_of({{"a", "first"}, {"b", "second"}});
  for (std::size_t i = 0; i < 8 * zip.size(); ++i) {
    std::string other = zip;
    other[i / 8] = static_cast<char>(other[i / 8] ^ (1 << (i % 8)));
    try {
      for (const auto& e : read_zip_directory(bytes_of_text(other), "x")) EXPECT_LE(e.end, other.size());
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace mt
