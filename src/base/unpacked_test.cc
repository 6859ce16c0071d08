#include "base/unpacked.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <new>
#include <vector>

namespace smelt {
namespace {

TEST(Unpacked, GivesWhatWasPacked) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "schema " + std::to_string(i);
  uLongf bytes = compressBound(text.size());
  std::vector<uint8_t> packed(bytes);
  ASSERT_EQ(compress(packed.data(), &bytes, reinterpret_cast<const Bytef*>(text.data()), text.size()), Z_OK);
  packed.resize(bytes);
  EXPECT_LT(packed.size(), text.size() / 2);
  EXPECT_EQ(unpacked(packed, text.size()), text);
  packed.resize(bytes / 2);
  EXPECT_THROW(unpacked(packed, text.size()), std::bad_alloc);
}

}  // namespace
}  // namespace smelt
