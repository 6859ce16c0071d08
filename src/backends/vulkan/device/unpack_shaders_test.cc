#include "backends/vulkan/device/unpack_shaders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backends/vulkan/codegen/pack_shaders.h"

namespace smelt::vulkan {
namespace {

/// A module with a function of random instructions, `ahead` equal ones in front of them.
std::vector<uint32_t> module_of(uint32_t seed, uint32_t ahead, uint32_t instructions) {
  constexpr uint32_t kMagic = 0x07230203, kOpFunction = 54, kOpFAdd = 129, kOpConstant = 43;
  const uint32_t function = 9;
  std::mt19937 random(seed);
  std::vector<uint32_t> m = {kMagic, 0x10300, 8, function + ahead + instructions + 1, 0};
  for (uint32_t id = 2; id < function; ++id)
    m.insert(m.end(), {4u << 16 | kOpConstant, 1, id, static_cast<uint32_t>(random())});
  m.insert(m.end(), {5u << 16 | kOpFunction, 3, function, 0, 4});
  uint32_t id = function;
  for (uint32_t i = 0; i < ahead; ++i, ++id) m.insert(m.end(), {5u << 16 | kOpFAdd, 2, id + 1, 3, 4});
  for (uint32_t i = 0; i < instructions; ++i, ++id) {
    const uint32_t left = id - static_cast<uint32_t>(random() % std::min(i + 1, 100u));
    const auto right = static_cast<uint32_t>(random());  // any word
    m.insert(m.end(), {5u << 16 | kOpFAdd, 2, id + 1, left, right});
  }
  return m;
}

std::vector<uint32_t> file_of(const SpirvModules& modules) {
  const std::string bytes = pack_shaders(modules);
  std::vector<uint32_t> file((bytes.size() + 3) / 4);
  std::memcpy(file.data(), bytes.data(), bytes.size());
  return file;
}

TEST(UnpackShaders, ReadsWhatWasPacked) {
  const SpirvModules modules = {module_of(1, 0, 400), module_of(1, 30, 500), {0, 0, 0, 1, 0}, module_of(2, 7, 1)};
  const std::vector<uint32_t> file = file_of(modules);
  ASSERT_EQ(module_sizes(file.data()).size(), modules.size());
  std::vector<uint32_t> all;
  for (size_t i = 0; i < modules.size(); ++i) {
    EXPECT_EQ(module_sizes(file.data())[i], modules[i].size());
    all.insert(all.end(), modules[i].begin(), modules[i].end());
  }
  EXPECT_EQ(unpack_shaders(file.data(), file.data() + file.size()), all);
}

TEST(UnpackShaders, TheSameCodeBehindOtherCodeTakesLittle) {
  const size_t one = file_of({module_of(1, 0, 9000)}).size();
  const size_t two = file_of({module_of(1, 0, 9000), module_of(1, 5, 9000)}).size();
  EXPECT_LT(two - one, one / 50);
}

TEST(SpirvIds, CountFromTheOneBeforeInTheStream) {
  SpirvIds ids(100, 4);
  EXPECT_EQ(ids.encoded(50, 0), 50u);  // in front of functions
  ids.begin(5u << 16 | 54);
  for (const uint32_t word : {3u, 20u, 0u, 4u}) EXPECT_EQ(ids.encoded(word, 0), word);
  ids.begin(5u << 16 | 129);
  EXPECT_EQ(ids.encoded(19, 1), 19u);    // a type
  EXPECT_EQ(ids.encoded(21, 2), 20u);    // new
  EXPECT_EQ(ids.encoded(20, 3), 21u);    // none stood there before: the first function
  EXPECT_EQ(ids.encoded(21, 3), 22u);    // one behind it
  EXPECT_EQ(ids.encoded(22, 2), 20u);    // new
  EXPECT_EQ(ids.encoded(21, 2), 22u);    // one before the last: behind a new one and the last
  EXPECT_EQ(ids.encoded(100, 3), 100u);  // no id
}

TEST(SpirvIds, AreWhatTheyWere) {
  constexpr uint32_t kBound = 40;
  SpirvIds there(kBound, 2), back(kBound, 2);
  std::mt19937 random(1);
  for (const uint32_t head : {5u << 16 | 54, 900u << 16 | 129}) {
    there.begin(head);
    back.begin(head);
    for (uint32_t i = 1; i < instruction_words(head); ++i) {
      const uint32_t word = i == 2 && head >> 16 == 5 ? 30 : random() % (kBound + 2);
      EXPECT_EQ(back.decoded(there.encoded(word, i % 2), i % 2), word);
    }
  }
}

}  // namespace
}  // namespace smelt::vulkan
