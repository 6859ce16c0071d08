#pragma once

#include <cstdint>

#include "backends/cpu/quantize/dynamic_quant.h"
#include "base/thread_pool.h"

namespace smelt {

/// Quantizes float32 images at run time, each to its own parameters. Threads share an image.
struct ImageQuantizer {
  const DynamicQuantOps& ops;
  bool asymmetric;
  int64_t threads;

  /// DynamicQuantOps::choose_params() of an image of `size` values.
  bool choose_params(ThreadPool& pool, const float* x, int64_t size, QuantParams* params, QuantRule* rule) const;
  /// An image as int8 values, and their parameters.
  QuantParams quantize(ThreadPool& pool, const float* x, int64_t size, uint8_t* to) const;
};

}  // namespace smelt
