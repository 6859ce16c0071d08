#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace smelt {

/// A new, empty folder of its own for a test: tests run side by side. Gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "smelt_test_XXXXXX";
    if (const char* made = ::mkdtemp(name.data())) path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace smelt
