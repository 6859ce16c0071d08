#include "formats/tflite/buffer_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "support/tflite_test_model.h"
#include "tests/support/temporary_folder.h"

namespace smelt::tflite {
namespace {

constexpr int kBuffers = 40;
std::vector<uint8_t> contents(int i) { return std::vector<uint8_t>(static_cast<size_t>(i * i * 20 + 4), uint8_t(i)); }

std::string model_of_many_buffers() {
  TestModel m;
  const int x = m.tensor({.shape = {2}}), y = m.tensor({.shape = {2}});
  for (int i = 0; i < kBuffers; ++i)
    m.tensor({.shape = {static_cast<int32_t>(contents(i).size())}, .type = tfl::TensorType::UINT8, .raw = contents(i)});
  m.op(tfl::BuiltinOperator::ABS, {x}, {y});
  m.end_subgraph({x}, {y});
  return m.finish();
}

void expect_contents(BufferTable table) {
  ASSERT_EQ(table.size(), kBuffers + 1u);
  for (const bool forward : {true, false})
    for (uint32_t n = 0; n <= kBuffers; ++n) {
      const uint32_t i = forward ? n : kBuffers - n;
      const auto found = table[i];
      ASSERT_TRUE(found.ok()) << found.error().message();
      const std::vector<uint8_t> expected = i == 0 ? std::vector<uint8_t>() : contents(static_cast<int>(i) - 1);
      EXPECT_TRUE(std::ranges::equal(found->data, expected)) << i;
      EXPECT_EQ(found->offset, 0u);
    }
}

TEST(TfliteBufferTable, ContentsOfMemoryAndFiles) {
  const std::string model = model_of_many_buffers();
  const auto bytes = std::as_bytes(std::span(model));
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  EXPECT_TRUE(verify_model(verifier));
  expect_contents(BufferTable(bytes, *tfl::GetModel(bytes.data())));
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.tflite";
  std::ofstream(path, std::ios::binary) << model;
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  expect_contents(BufferTable((*file)->bytes(), *tfl::GetModel((*file)->bytes().data())));
}

TEST(TfliteBufferTable, DamagedTablesAreRefused) {
  const std::string model = model_of_many_buffers();
  const auto damaged_at = [&](size_t at, uint32_t value) {
    std::string other = model;
    std::memcpy(other.data() + at, &value, sizeof(value));
    BufferTable table(std::as_bytes(std::span(other)), *tfl::GetModel(other.data()));
    const auto found = table[5];
    if (!found.ok()) return true;
    const auto* const begin = reinterpret_cast<const uint8_t*>(other.data());
    const std::span<const uint8_t> data = found->data;
    EXPECT_TRUE(data.empty() || (data.data() >= begin && data.data() + data.size() <= begin + other.size()));
    return false;
  };
  const auto* const base = reinterpret_cast<const uint8_t*>(model.data());
  const auto* const buffers = tfl::GetModel(base)->buffers();
  const auto of = [&](const void* p) { return static_cast<size_t>(static_cast<const uint8_t*>(p) - base); };
  const size_t offset = of(buffers->Data()) + 5 * sizeof(uint32_t), table = of(buffers->Get(5));
  const size_t size = of(buffers->Get(5)->data());
  for (const size_t at : {offset, table, size})
    for (const uint32_t value : {0x7fffffffu, 0x80000001u, 0xffffffffu, static_cast<uint32_t>(model.size())})
      EXPECT_TRUE(damaged_at(at, value)) << at << ' ' << value;
  for (size_t at = table - 64; at < size + 8; ++at)
    for (const uint32_t value : {0u, 1u, 0x00010001u, 0xffffffffu}) damaged_at(at, value);
}

}  // namespace
}  // namespace smelt::tflite
