#include "base/write_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace smelt {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }
  const fs::path folder_ = fs::path(::testing::TempDir()) / "smelt_write_file";
};

TEST_F(WriteFile, ReplacesAFile) {
  const fs::path path = folder_ / "a";
  ASSERT_TRUE(write_file(path.string(), {"old"}).ok());
  ASSERT_TRUE(write_file(path.string(), {"one", "", "two"}).ok());
  EXPECT_EQ(content(path), "onetwo");
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, LeavesNothingBehindWhenItFails) {
  fs::create_directories(folder_ / "a" / "b");
  const auto status = write_file((folder_ / "a").string(), {"text"});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("Is a directory"), std::string::npos) << status.error().message();
  EXPECT_FALSE(write_file((folder_ / "none" / "c").string(), {"text"}).ok());
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, KeepsLinksAndDevices) {
  const fs::path path = folder_ / "a", link = folder_ / "link", full = folder_ / "full";
  ASSERT_TRUE(write_file(path.string(), {"old"}).ok());
  fs::create_symlink(path, link);
  ASSERT_TRUE(write_file(link.string(), {"new"}).ok());
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content(path), "new");
  // A full disk is an error, also when it shows only as the file is closed.
  fs::create_symlink("/dev/full", full);
  EXPECT_FALSE(write_file(full.string(), {"text"}).ok());
  EXPECT_TRUE(fs::is_symlink(full));
  struct stat st {};
  ASSERT_EQ(::stat("/dev/full", &st), 0);
  EXPECT_TRUE(S_ISCHR(st.st_mode));
}

}  // namespace
}  // namespace smelt
