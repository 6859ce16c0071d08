#pragma once

#include <vector>

#include "tests/support/op_case.h"

namespace smelt::bench {

/// A node of a real model with the work that it does.
struct BenchCase {
  test::OpCase c;
  double operations = 0;     ///< multiplications and additions, or elements moved
  size_t network_bytes = 0;  ///< of constants of nodes that take turns, as those of a network do; 0: one node alone
};

/// Cases of the kernels of one folder.
class BenchCases {
 public:
  /// Adds a case. `operations`, `network_bytes`: see BenchCase; no operations: the elements of input 0.
  void add(test::OpCase c, double operations = 0, size_t network_bytes = 0);
  std::vector<BenchCase> take() { return std::move(cases_); }

 private:
  std::vector<BenchCase> cases_;
};

/// A function that adds cases, known to all_cases() as long as it lives.
class BenchSource {
 public:
  explicit BenchSource(void (*fill)(BenchCases&));
};

/// The cases of all folders: src/backends/cpu/FAMILY/FAMILY_bench.cc.
std::vector<BenchCase> all_cases();

/// Quantization parameters of a type with TFLite's double rounding, shape by inference.
ValueType quantized_type(DType dtype, float scale, int32_t zero_point);

/// Defines the cases of a family: SMELT_BENCH_CASES(softmax) { cases.add(...); }
#define SMELT_BENCH_CASES(family)                           \
  static void family##_cases(BenchCases& cases);            \
  static const BenchSource family##_source(family##_cases); \
  static void family##_cases(BenchCases& cases)

}  // namespace smelt::bench
