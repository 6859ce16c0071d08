#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/support/resident_pages.h"
#include "tests/support/temporary_folder.h"

namespace smelt {
namespace {

using test::resident_pages;

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  constexpr int64_t kBytes = 32 << 20;
  const TemporaryFolder folder;
  const std::string path = folder.path() / "released_pages.bin";
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
}

TEST(MappedFile, CopiesBytesOfFilesAndOtherMemory) {
  constexpr int64_t kBytes = 3 << 20;
  const TemporaryFolder folder;
  const std::string path = folder.path() / "copied_bytes.bin";
  std::vector<char> contents(kBytes);
  for (size_t i = 0; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7 + i / 251);
  std::ofstream(path, std::ios::binary).write(contents.data(), kBytes);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto* mapped = reinterpret_cast<const char*>((*file)->bytes().data());
  const auto expect_copied = [&](const char* from, size_t at, size_t bytes) {
    std::vector<char> copy(bytes + 1, 'x');
    copy_file_bytes(from + at, bytes, copy.data());
    EXPECT_TRUE(std::equal(copy.begin(), copy.end() - 1, contents.data() + at)) << at << ' ' << bytes;
    EXPECT_EQ(copy.back(), 'x');
    std::ranges::fill(copy, 'x');
    copy_few_file_bytes(from + at, bytes, copy.data());
    EXPECT_TRUE(std::equal(copy.begin(), copy.end() - 1, contents.data() + at)) << at << ' ' << bytes;
    EXPECT_EQ(copy.back(), 'x');
  };
  const int64_t before = resident_pages();
  std::vector<char> copy(kBytes);
  const int64_t own = resident_pages() - before;
  copy_file_bytes(mapped, contents.size(), copy.data());
  EXPECT_LE(resident_pages(), before + own + kBytes / 2 / getpagesize()) << "the file's pages are not mapped";
  EXPECT_EQ(copy, contents);
  for (const char* from : {mapped, static_cast<const char*>(contents.data())})
    for (const size_t bytes : {0, 5, 5000, 1'000'001}) expect_copied(from, 12'345, bytes);
  for (const char* from : {mapped, static_cast<const char*>(contents.data())})
    for (const size_t bytes : {40, 5000}) {
      constexpr size_t kLines = 130, kGap = 3;
      std::vector<char> lines(kLines * (bytes + kGap), 'x');
      copy_file_lines(from + 77, kLines, bytes, lines.data(), bytes + kGap);
      for (size_t i = 0; i < kLines; ++i) {
        const char* const line = lines.data() + i * (bytes + kGap);
        EXPECT_TRUE(std::equal(line, line + bytes, contents.data() + 77 + i * bytes)) << "line " << i;
        EXPECT_EQ(line[bytes], 'x');
      }
    }
  // A file that has become shorter gives what it has; the rest of its last page is zero.
  std::filesystem::resize_file(path, 100'000);
  std::fill(contents.begin() + 100'000, contents.begin() + 102'400, 0);
  expect_copied(mapped, 90'000, 12'400);
  file->reset();
}

TEST(MappedFile, WhatWasReadFromTheFileIsNotGivenBack) {
  constexpr size_t kBytes = size_t{8} << 20;
  const TemporaryFolder folder;
  const std::string path = folder.path() / "read_bytes.bin";
  std::ofstream(path, std::ios::binary) << "begin";
  std::filesystem::resize_file(path, kBytes);
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  const auto bytes = (*file)->bytes();
  std::vector<std::byte> copy(kBytes);
  const int64_t before = resident_pages();
  const auto mapped = [&] {
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), static_cast<std::ptrdiff_t>(kBytes) - 5);
    return resident_pages() - before;
  };
  const auto expected = static_cast<int64_t>(kBytes) / getpagesize() * 3 / 4;
  EXPECT_GT(mapped(), expected);
  release_read_pages(bytes.data(), kBytes / 4);
  EXPECT_GT(resident_pages() - before, expected) << "nothing was mapped for what was read";
  // Pages that faults nearby have mapped go in the end.
  for (int i = 0; i < 100; ++i) {
    copy_file_bytes(bytes.data(), kBytes / 4, copy.data());
    release_read_pages(bytes.data(), kBytes / 4);
  }
  EXPECT_LT(resident_pages() - before, expected / 4);
  file->reset();
}

TEST(MappedFile, OtherMemoryStays) {
  std::vector<char> own(100'000, 'x');
  release_pages(own.data(), own.size());
  EXPECT_EQ(std::count(own.begin(), own.end(), 'x'), 100'000);
}

}  // namespace
}  // namespace smelt
