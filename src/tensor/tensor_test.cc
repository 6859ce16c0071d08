#include "smelt/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace smelt {
namespace {

/// Floats 0, 1, 2, ... that begin one byte behind an aligned address.
struct Unaligned {
  explicit Unaligned(int count) : bytes(std::make_shared<std::vector<std::byte>>(static_cast<size_t>(count) * 4 + 1)) {
    for (int i = 0; i < count; ++i) {
      const auto v = static_cast<float>(i);
      std::memcpy(bytes->data() + 1 + i * 4, &v, 4);
    }
    tensor = Tensor::unaligned_view(DType::kF32, Shape{count}, bytes->data() + 1, bytes);
  }
  std::shared_ptr<std::vector<std::byte>> bytes;
  Tensor tensor;
};

TEST(Tensor, UnalignedViewsAreCopiedOnceForAllTensorsOnThem) {
  const Unaligned u(1000);
  const Tensor other = u.tensor.reshaped(Shape{10, 100});
  std::vector<const float*> seen(4);
  std::vector<std::thread> threads;
  for (const float*& s : seen) threads.emplace_back([&] { s = other.data<float>(); });
  for (std::thread& t : threads) t.join();
  for (const float* s : seen) EXPECT_EQ(s, u.tensor.data<float>());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(seen[0]) % alignof(float), 0U);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[0][i], static_cast<float>(i));
}

TEST(Tensor, ReadingOnceLeavesNoCopyBehind) {
  const Unaligned u(100);
  const Tensor first = u.tensor.read_once(), second = u.tensor.read_once();
  EXPECT_NE(first.raw(), second.raw());
  EXPECT_EQ(first.data<float>()[99], 99.0f);
  EXPECT_EQ(first.shape(), u.tensor.shape());
  EXPECT_EQ(u.bytes.use_count(), 2);  // ours and the tensor's
  EXPECT_EQ(u.tensor.identity(), u.bytes->data() + 1);
  EXPECT_EQ(u.tensor.unaligned_bytes(), u.bytes->data() + 1);
  const Tensor aligned(DType::kF32, Shape{4});
  EXPECT_EQ(aligned.read_once().raw(), aligned.raw());
  EXPECT_EQ(aligned.identity(), aligned.raw());
}

TEST(Tensor, ClonesOfUnalignedViewsAreTensorsOfTheirOwn) {
  Tensor clone;
  {
    const Unaligned u(5);
    clone = u.tensor.clone();
  }
  EXPECT_EQ(clone.data<float>()[4], 4.0f);
}

}  // namespace
}  // namespace smelt
