#include "cli/npz.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temporary_folder.h"
#include "tensor/npy.h"

namespace smelt::cli {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Tensor iota(const Shape& shape) {
  Tensor t(DType::kF32, shape);
  for (int64_t i = 0; i < t.elements(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(Npz, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a.npz").string();
  ASSERT_TRUE(write_npz(path, {{"x", iota({2, 3})}, {"a/b", iota({})}, {"empty", iota({0, 4})}}).ok());
  const std::string bytes = bytes_of(path);
  const auto entries = read_npz(std::as_bytes(std::span(bytes)), "a.npz");
  ASSERT_TRUE(entries.ok()) << entries.error().message();
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "x");
  EXPECT_EQ((*entries)[1].name, "a/b");
  const auto x = read_npy((*entries)[0].bytes, "x");
  ASSERT_TRUE(x.ok());
  EXPECT_EQ(x->shape(), (Shape{2, 3}));
  EXPECT_EQ(x->data<float>()[5], 5);
}

TEST(Npz, DamagedArchivesEndInErrors) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a.npz").string();
  ASSERT_TRUE(write_npz(path, {{"x", iota({3})}, {"y", iota({2})}}).ok());
  const std::string whole = bytes_of(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = value;
      const auto entries = read_npz(std::as_bytes(std::span(bytes)), "a.npz");
      if (!entries.ok()) continue;
      for (const NpzEntry& e : *entries) (void)read_npy(e.bytes, e.name);
    }
    const auto cut = read_npz(std::as_bytes(std::span(whole).first(at)), "a.npz");
    EXPECT_FALSE(cut.ok()) << at;
  }
}

TEST(Npz, AFolderThatIsNotThereIsAnError) {
  const auto status = write_npz("/nowhere/a.npz", {{"x", iota({1})}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kIo);
}

}  // namespace
}  // namespace smelt::cli
