#include "backends/cpu/gemm/constant_parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "base/mapped_file.h"
#include "base/packing_threads.h"
#include "base/thread_pool.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {

struct alignas(64) Line {
  char bytes[64];
};

TEST(ConstantParts, PackAsAWhole) {
  std::vector<char> contents(size_t{1} << 20);
  std::mt19937 random(1);
  for (char& c : contents) c = static_cast<char>(random());
  const TemporaryFolder folder;
  const std::string path = folder.path() / "weights";
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto* mapped = reinterpret_cast<const uint8_t*>((*file)->bytes().data());
  ThreadPool pool(3);
  for (const Isa isa : test::tested_isas()) {
    const GemmI8& g = gemm_i8(isa, true);
    if (!g.pack_bytes) continue;
    for (const auto& [k, n] :
         {std::pair<int64_t, int64_t>{64, 512}, {72, 1000}, {4613, 75}, {300000, 3}, {512, 700}, {5, 7}}) {
      std::vector<int32_t> bias(static_cast<size_t>(n));
      for (int32_t& b : bias) b = static_cast<int32_t>(random());
      std::vector<Line> whole(static_cast<size_t>(g.packed_bytes(k, n)) / sizeof(Line) + 1), parts(whole.size());
      const BytesOfB b{mapped + 3, 1, k, k, n, true};
      g.pack_bytes(g, b, bias.data(), 7, whole.data());
      pack_constant_bytes(g, b, bias.data(), 7, parts.data());
      EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(Line)), 0) << k << ' ' << n;
      std::vector<Line> shared(whole.size());
      PackingThreads::Copies copies;
      const PackingThreads::Use threads(pool, copies);
      pack_constant_bytes(g, b, bias.data(), 7, shared.data());
      EXPECT_EQ(std::memcmp(whole.data(), shared.data(), whole.size() * sizeof(Line)), 0) << k << ' ' << n;
    }
  }
}

}  // namespace
}  // namespace smelt
