#include "base/cat.h"
#include "ops/pool/pool.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase windows_case(const Shape& x, const std::vector<int64_t>& kernel, double largest) {
  MaxUnpoolAttrs a;
  a.kernel = a.strides = kernel;
  a.in_window = true;
  Tensor index = random_tensor(DType::kF32, x, 0, largest, 3);
  OpCase c{
      Cat(x.str(), " ", kernel[0], "x", kernel[1]), Op::kMaxUnpool, make_attrs<MaxUnpoolAttrs>(a), {f32(x), index}};
  c.threaded = true;
  return c;
}

TEST(MaxUnpoolF32, Windows) {
  check_on_cpu(windows_case({1, 8, 6, 37}, {2, 2}, 3.99), "max_unpool_f32");
  check_on_cpu(windows_case({2, 5, 7, 3}, {3, 2}, 5.99), "max_unpool_f32");
}

/// Indices beyond the window reach others, or nothing.
TEST(MaxUnpoolF32, IndicesThatLeaveTheWindow) { check_on_cpu(windows_case({2, 5, 7, 3}, {2, 2}, 9), "max_unpool_f32"); }

TEST(MaxUnpoolF32, PlacesInTheTensor) {
  MaxUnpoolAttrs a;
  a.kernel = a.strides = {2, 3};
  const Shape x{2, 3, 5, 4};
  Tensor index = random_tensor(DType::kI64, x, 0, 2 * 3 * 10 * 12 - 1, 3);  // some are equal
  check_on_cpu({"places", Op::kMaxUnpool, make_attrs<MaxUnpoolAttrs>(a), {f32(x), index}}, "max_unpool_f32");
}

}  // namespace
}  // namespace smelt
