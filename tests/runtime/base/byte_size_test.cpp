// ParseByteSize: the one grammar of sizes.
#include "runtime/base/byte_size.h"

#include <gtest/gtest.h>

namespace stalloc::runtime {
namespace {

TEST(ByteSize, EachUnitIsRead) {
  const struct {
    const char* text;
    std::uint64_t bytes;
  } cases[] = {
      {"1", 1},
      {"17b", 17},
      {"3KiB", 3072},
      {"3k", 3072},
      {"3kb", 3000},
      {"2 MiB", 2U << 20},
      {"2MB", 2'000'000},
      {"1.5GiB", 3U << 29},
      {"1.5 GB", 1'500'000'000},
      {"20gib", 20ULL << 30},
      {"20G", 20ULL << 30},
      {"20GB", 20'000'000'000},
      {"1TiB", 1ULL << 40},
      {"4T", 4ULL << 40},
      {"9007199254740993", 9007199254740993},  // no double holds it
      {"9223372036854775807", 9223372036854775807},
  };
  for (const auto& c : cases) EXPECT_EQ(ParseByteSize(c.text), c.bytes) << c.text;
}

TEST(ByteSize, WhatIsNoSizeIsRefused) {
  for (const char* text : {"",           " ",
                           "0",          "0GiB",
                           "0.4",        "-1",
                           "-1GiB",      "+1",
                           "GiB",        "i",
                           "20 gigs",    "20GiBs",
                           "20iB",       "20Gi",
                           "20PiB",      "1e9",
                           "0x10",       "1,5GiB",
                           "1.5.5GiB",   ".",
                           "20%",        "inf",
                           "nan",        "9223372036854775808",
                           "8388608TiB", "99999999999999999999",
                           "20GiB "})
    EXPECT_EQ(ParseByteSize(text), std::nullopt) << '"' << text << '"';
}

}  // namespace
}  // namespace stalloc::runtime
