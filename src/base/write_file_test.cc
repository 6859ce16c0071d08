#include "base/write_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "support/temporary_folder.h"

namespace smelt {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  static std::string content(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder()), fs::directory_iterator{}));
  }
  const fs::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(WriteFile, ReplacesAFile) {
  const fs::path path = folder() / "a";
  ASSERT_TRUE(write_file(path.string(), {"old"}).ok());
  ASSERT_TRUE(write_file(path.string(), {"one", "", "two"}).ok());
  EXPECT_EQ(content(path), "onetwo");
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, WritersOfOnePathDoNotMeet) {
  const std::string path = (folder() / "a").string();
  const auto write = [&](char c) {
    const std::string text(100000, c);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(write_file(path, {text}).ok());
  };
  std::thread other(write, 'x');
  write('y');
  other.join();
  const std::string kept = content(path);
  EXPECT_EQ(kept, std::string(100000, kept.at(0)));
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, LeavesNothingBehindWhenItFails) {
  fs::create_directories(folder() / "a" / "b");
  const auto status = write_file((folder() / "a").string(), {"text"});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("Is a directory"), std::string::npos) << status.error().message();
  EXPECT_FALSE(write_file((folder() / "none" / "c").string(), {"text"}).ok());
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, KeepsLinksAndDevices) {
  const fs::path path = folder() / "a", link = folder() / "link", full = folder() / "full";
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
