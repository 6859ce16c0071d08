#include "bench/kernels/cases.h"

#include <utility>

namespace smelt::bench {
namespace {
std::vector<void (*)(BenchCases&)>& sources() {
  static std::vector<void (*)(BenchCases&)> list;
  return list;
}
}  // namespace

BenchSource::BenchSource(void (*fill)(BenchCases&)) { sources().push_back(fill); }

void BenchCases::add(test::OpCase c, double operations, size_t network_bytes) {
  if (operations == 0) operations = static_cast<double>(c.inputs[0].elements());
  cases_.push_back({std::move(c), operations, network_bytes});
}

std::vector<BenchCase> all_cases() {
  BenchCases cases;
  for (const auto fill : sources()) fill(cases);
  return cases.take();
}

ValueType quantized_type(DType dtype, float scale, int32_t zero_point) {
  return ValueType::tensor(dtype, {}, test::per_tensor(scale, zero_point, Rounding::kFixedDouble));
}

}  // namespace smelt::bench
