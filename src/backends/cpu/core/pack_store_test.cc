#include "backends/cpu/core/pack_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "backends/cpu/core/pack_cache.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace smelt {
namespace {
using namespace smelt::test;

Packed numbered(size_t bytes) {
  auto b = std::make_shared<AlignedBuffer>(bytes);
  for (size_t i = 0; i < bytes; ++i) b->data<unsigned char>()[i] = static_cast<unsigned char>(i * 7);
  return b;
}

bool same(const AlignedBuffer& a, const AlignedBuffer& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data<char>(), b.data<char>(), a.bytes()) == 0;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(PackStore, KeepsAlignedBytes) {
  const TemporaryFolder folder;
  const auto store = PackStore::open(folder.path().string());
  ASSERT_TRUE(store);
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100'000}}) {
    const std::string name = store->name({"form", {static_cast<int64_t>(bytes)}, {}});
    EXPECT_EQ(store->read(name), nullptr);
    const Packed packed = numbered(bytes);
    store->write(name, *packed);
    const Packed kept = store->read(name);
    ASSERT_TRUE(kept);
    EXPECT_TRUE(same(*kept, *packed));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(kept->data<char>()) % 64, 0u);
    // Another process finds it by the same name.
    const auto again = PackStore::open(folder.path().string());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->name({"form", {static_cast<int64_t>(bytes)}, {}}), name);
    EXPECT_TRUE(again->read(name));
  }
}

TEST(PackStore, NamesFollowFromAllContents) {
  const TemporaryFolder folder;
  const auto store = PackStore::open(folder.path().string());
  ASSERT_TRUE(store);
  const Tensor a = random_tensor(DType::kF32, {4, 6}, -1, 1, 1);
  Tensor b = a.clone(), quantized = a.clone();
  b.data<float>()[23] += 1;
  quantized.set_quant(per_tensor(0.5f, 3));
  const std::vector<PackContents> all = {{"form", {1, 2}, {&a}},
                                         {"other", {1, 2}, {&a}},
                                         {"form", {2, 1}, {&a}},
                                         {"form", {1}, {&a}},
                                         {"form", {1, 2}, {&b}},
                                         {"form", {1, 2}, {&a, &a}},
                                         {"form", {1, 2}, {&a, nullptr}},
                                         {"form", {1, 2}, {&quantized}},
                                         {"form", {1, 2}, {&a}, {per_tensor(0.5f, 3)}},
                                         {"form", {1, 2}, {&a}, {per_tensor(0.5f, 4)}}};
  std::set<std::string> names;
  for (const PackContents& c : all) names.insert(store->name(c));
  EXPECT_EQ(names.size(), all.size());
  const Tensor reshaped = a.reshaped({6, 4}), copy = a.clone();
  EXPECT_FALSE(names.contains(store->name({"form", {1, 2}, {&reshaped}})));
  EXPECT_TRUE(names.contains(store->name({"form", {1, 2}, {&copy}})));
}

TEST(PackStore, DamagedAndForeignEntriesAreAbsent) {
  const TemporaryFolder folder, other_folder;
  const auto store = PackStore::open(folder.path().string()), other = PackStore::open(other_folder.path().string());
  ASSERT_TRUE(store && other);
  const std::string name = store->name({"form", {}, {}}), path = folder.path().string() + "/" + name + ".pack";
  store->write(name, *numbered(1000));
  const std::string whole = text_of(path);
  ASSERT_TRUE(store->read(name));
  for (const size_t at : {size_t{0}, size_t{9}, size_t{20}, size_t{40}, size_t{64}, size_t{700}, size_t{1063}}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] + 1);
    put_text(path, damaged);
    EXPECT_EQ(store->read(name), nullptr) << "byte " << at;
  }
  for (const size_t size : {size_t{0}, size_t{10}, size_t{64}, size_t{500}, whole.size() - 1}) {
    put_text(path, whole.substr(0, size));
    EXPECT_EQ(store->read(name), nullptr) << size << " bytes";
  }
  put_text(path, whole + "x");
  EXPECT_EQ(store->read(name), nullptr);
  // Under another secret, and under another name.
  std::filesystem::create_directories(other_folder.path());
  put_text(other_folder.path().string() + "/" + name + ".pack", whole);
  EXPECT_EQ(other->read(name), nullptr);
  const std::string else_name = store->name({"else", {}, {}});
  put_text(folder.path().string() + "/" + else_name + ".pack", whole);
  EXPECT_EQ(store->read(else_name), nullptr);
  put_text(path, whole);
  EXPECT_TRUE(store->read(name));
}

TEST(PackStore, WithoutAFolderThereIsNone) {
  EXPECT_EQ(PackStore::open("/dev/null/folder"), nullptr);
  const TemporaryFolder folder;
  put_text(folder.path().string() + "/secret", "short");
  EXPECT_EQ(PackStore::open(folder.path().string()), nullptr);
}

TEST(PackStore, ACacheTakesWhatIsKept) {
  const TemporaryFolder folder;
  const auto store = PackStore::open(folder.path().string());
  ASSERT_TRUE(store);
  const Tensor large = random_tensor(DType::kF32, {PackStore::kLeastBytes / 4}, -1, 1, 1);
  int packed = 0;
  const auto get = [&](const Tensor& t) {
    PackCache cache(PackCache::Mode::kPack, store);
    return cache.get(
        1,
        [&] {
          ++packed;
          auto b = std::make_shared<AlignedBuffer>(t.bytes());
          std::memcpy(b->data<char>(), t.raw(), t.bytes());
          return b;
        },
        [&] {
          return PackContents{"copy", {}, {&t}};
        });
  };
  const Packed first = get(large), second = get(large);
  EXPECT_EQ(packed, 1);
  EXPECT_TRUE(same(*first, *second));
  // The file that is mapped stays as it is: another one takes its place.
  const std::string entry = folder.path().string() + "/" + store->name({"copy", {}, {&large}}) + ".pack";
  std::string damaged = text_of(entry);
  damaged[1000] = static_cast<char>(damaged[1000] + 1);
  ASSERT_TRUE(std::filesystem::remove(entry));
  put_text(entry, damaged);
  EXPECT_TRUE(same(*get(large), *second)) << "a damaged entry is made again";
  EXPECT_EQ(packed, 2);
  get(large);
  EXPECT_EQ(packed, 2);
  const Tensor small = random_tensor(DType::kF32, {16}, -1, 1, 1);
  get(small);
  get(small);
  EXPECT_EQ(packed, 4) << "small forms are not worth a file";
}

}  // namespace
}  // namespace smelt
