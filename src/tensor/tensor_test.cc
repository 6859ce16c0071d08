#include "smelt/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "tensor/numeric.h"

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

TEST(Tensor, ElementsOfUnalignedViewsAreCopied) {
  const Unaligned u(100);
  float part[3];
  u.tensor.copy_elements(40, 3, part);
  EXPECT_EQ(part[0], 40.0f);
  EXPECT_EQ(part[2], 42.0f);
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

TEST(Tensor, DeferredElementsAreMadeWhenTheyAreRead) {
  int made = 0;
  const Tensor source = Tensor::from<int8_t>(DType::kI8, Shape{4}, std::array<int8_t, 4>{0, 1, 2, 3});
  const Tensor t =
      Tensor::deferred(DType::kF32, Shape{4}, source, [&](const Tensor& from, int64_t first, int64_t count, void* to) {
        ++made;
        std::copy_n(from.data<int8_t>() + first, count, static_cast<float*>(to));
      });
  const Tensor other = t.reshaped(Shape{2, 2});
  ASSERT_NE(other.source(), nullptr);
  EXPECT_EQ(other.source()->raw(), source.raw());
  EXPECT_EQ(source.source(), nullptr);
  EXPECT_EQ(other.identity(), t.identity());
  EXPECT_EQ(made, 0);
  EXPECT_EQ(t.read_once().data<float>()[3], 3.0f);
  EXPECT_EQ(t.read_unaligned_once().data<float>()[2], 2.0f);
  EXPECT_EQ(t.clone().data<float>()[1], 1.0f);
  float part[2];
  t.copy_elements(1, 2, part);
  EXPECT_EQ(part[1], 2.0f);
  EXPECT_EQ(made, 4) << "none stays";
  EXPECT_EQ(other.data<float>()[3], 3.0f);
  EXPECT_EQ(static_cast<const void*>(t.unaligned_bytes()), other.raw());
  EXPECT_EQ(made, 5) << "they stay for both";
}

TEST(Tensor, ClonesOfUnalignedViewsAreTensorsOfTheirOwn) {
  Tensor clone;
  {
    const Unaligned u(5);
    clone = u.tensor.clone();
  }
  EXPECT_EQ(clone.data<float>()[4], 4.0f);
}

/// Every value of float16, by the sum that its bits stand for.
TEST(Numeric, Float16IsWidenedExactly) {
  constexpr int kValues = 1 << 16;
  std::vector<uint16_t> bits(kValues);
  std::iota(bits.begin(), bits.end(), uint16_t{0});
  std::vector<float> wide(kValues);
  to_floats(Tensor::view(DType::kF16, Shape{kValues}, bits.data(), nullptr), wide.data());
  for (int i = 0; i < kValues; ++i) {
    const int exponent = i >> 10 & 31, mantissa = i & 1023;
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                          : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    const float f = wide[static_cast<size_t>(i)];
    ASSERT_EQ(std::signbit(f), i >> 15 != 0) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(f), std::bit_cast<uint32_t>(f16_to_f32(static_cast<uint16_t>(i)))) << i;
    if (exponent < 31)
      ASSERT_EQ(std::fabs(f), magnitude) << i;
    else
      ASSERT_TRUE(mantissa == 0 ? std::isinf(f) : std::isnan(f)) << i;
  }
}

}  // namespace
}  // namespace smelt
