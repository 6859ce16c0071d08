#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace smelt {
namespace {

/// Memory of this process, in pages.
int64_t resident_pages() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  constexpr int64_t kBytes = 32 << 20;
  const std::string path = ::testing::TempDir() + "released_pages.bin";
  std::ofstream(path, std::ios::binary) << "begin";
  std::filesystem::resize_file(path, kBytes);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), kBytes - 5);
  const int64_t before = resident_pages();
  release_pages(bytes.data(), static_cast<size_t>(kBytes) + 1'000'000);  // beyond the file: nothing happens
  EXPECT_GT(resident_pages(), before / 2);
  release_pages(bytes.data(), bytes.size());
  EXPECT_LE(resident_pages(), before - kBytes / 2 / getpagesize());
  EXPECT_EQ(bytes[0], std::byte{'b'});
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), kBytes - 5);
  file->reset();
  std::filesystem::remove(path);
}

TEST(MappedFile, OtherMemoryStays) {
  std::vector<char> own(100'000, 'x');
  release_pages(own.data(), own.size());
  EXPECT_EQ(std::count(own.begin(), own.end(), 'x'), 100'000);
}

}  // namespace
}  // namespace smelt
