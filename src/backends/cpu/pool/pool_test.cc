#include <algorithm>
#include <iterator>
#include <limits>

#include "base/cat.h"
#include "ops/pool/pool.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct PoolRow {
  Shape image;  ///< N, H, W, C
  std::vector<int64_t> kernel, strides, pads;
  bool global = false, count_pad = false;
  std::vector<int64_t> dilations;
  ActKind act = ActKind::kNone;
};
const PoolRow kPools[] = {
    {{1, 9, 11, 37}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{2, 8, 8, 16}, {2, 2}, {2, 2}, {0, 0, 0, 0}, false, false, {}, ActKind::kRelu},
    {{1, 7, 7, 130}, {}, {}, {}, true},
    {{1, 10, 6, 5}, {3, 2}, {1, 3}, {2, 0, 1, 1}, false, true},
    {{1, 12, 13, 70}, {12, 11}, {1, 1}, {3, 3, 3, 3}},
    {{1, 12, 12, 8}, {3, 3}, {1, 1}, {0, 0, 0, 0}, false, false, {2, 2}, ActKind::kRelu6},
    {{2, 8, 70, 9}, {3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{1, 9, 70, 6}, {2, 3}, {2, 2}, {0, 1, 0, 2}, false, true},
    {{1, 9, 40, 5}, {2, 2}, {3, 3}, {0, 0, 0, 0}},
    // Windows of neighbours.
    {{2, 12, 17, 3}, {4, 3}, {1, 1}, {1, 0, 2, 2}, false, false, {2, 1}},
    {{2, 11, 13, 24}, {13, 13}, {1, 1}, {6, 6, 6, 6}},
    {{1, 9, 10, 37}, {5, 5}, {1, 1}, {2, 2, 2, 2}, false, false, {}, ActKind::kRelu6},
    {{1, 12, 30, 3}, {4, 7}, {2, 1}, {1, 3, 1, 4}, false, false, {1, 3}, ActKind::kRelu},
    {{1, 6, 40, 16}, {1, 2}, {1, 1}, {0, 0, 0, 1}},
    {{1, 5, 8, 9}, {1, 9}, {1, 1}, {0, 3, 0, 4}},
    // Windows of planes, and of few channels.
    {{1, 80, 70, 2}, {3, 3}, {1, 1}, {1, 1, 1, 1}},
    {{2, 61, 150, 3}, {2, 2}, {2, 2}, {0, 0, 1, 0}, false, false, {}, ActKind::kRelu},
    {{2, 40, 33, 1}, {3, 5}, {2, 2}, {1, 2, 1, 2}, false, true, {}, ActKind::kRelu6},
    {{1, 30, 41, 4}, {3, 4}, {2, 2}, {1, 3, 0, 3}, false, false, {2, 3}},
    {{1, 42, 3, 8}, {3, 3}, {3, 3}, {0, 0, 0, 0}},
    {{1, 9, 31, 16}, {2, 3}, {1, 3}, {1, 1, 0, 1}},
    {{1, 7, 1, 3}, {7, 1}, {1, 1}, {0, 0, 0, 0}},
};

/// N, D, H, W, C.
const PoolRow kVolumes[] = {
    {{2, 5, 9, 11, 3}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1, 1, 1, 1}},
    {{1, 4, 8, 8, 20}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0, 0, 0, 0}},
    {{1, 6, 7, 10, 2}, {2, 3, 3}, {1, 1, 1}, {0, 1, 1, 1, 1, 1}, false, true, {2, 1, 1}},
};

OpCase pool_case(const PoolRow& r, PoolKind kind, Layout layout) {
  auto attrs = std::make_shared<PoolAttrs>();
  attrs->kind = kind;
  attrs->kernel = r.kernel;
  attrs->strides = r.strides;
  attrs->pads = r.pads;
  attrs->dilations = r.dilations;
  attrs->global = r.global;
  attrs->count_include_pad = r.count_pad;
  attrs->layout = layout;
  attrs->act.kind = r.act;
  OpCase c;
  c.op = Op::kPool;
  c.attrs = attrs;
  const Shape& s = r.image;
  Shape image = s;
  if (layout == Layout::kChannelsFirst) {
    image[1] = s[s.rank() - 1];
    for (int i = 2; i < s.rank(); ++i) image[i] = s[i - 1];
  }
  c.label = Cat(to_string(kind), image.str(), to_string(layout));
  c.inputs = {f32(image)};
  c.threaded = s[0] == 2;
  return c;
}

TEST(CpuPool, F32) {
  for (const PoolRow& r : kPools)
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
        check_on_cpu(pool_case(r, kind, layout), "pool_f32");
}

TEST(CpuPool, Volumes) {
  for (const PoolRow& r : kVolumes)
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
        check_on_cpu(pool_case(r, kind, layout), "pool_f32");
}

TEST(CpuPool, NanStays) {
  for (const PoolRow* const row : {&kPools[0], &kPools[6], &kPools[11], &kPools[15], &kPools[16]})
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
        OpCase c = pool_case(*row, kind, layout);
        auto* x = c.inputs[0].data<float>();
        if (kind == PoolKind::kMax) std::fill_n(x, c.inputs[0].elements() / 3, -std::numeric_limits<float>::infinity());
        for (int64_t i = 0; i < c.inputs[0].elements(); i += 41) x[i] = std::numeric_limits<float>::quiet_NaN();
        check_on_cpu(c, "pool_f32");
      }
}

// Parts of an image look for NaN in what their windows see alone.
TEST(CpuPool, OneNanOfAVolume) {
  PoolRow row;
  row.image = {1, 6, 80, 48, 2};
  row.kernel = row.strides = {2, 2, 2};
  for (const int64_t threads : {1, 2})
    for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
      OpCase c = pool_case(row, PoolKind::kMax, layout);
      c.threaded = threads > 1;
      const int64_t n = c.inputs[0].elements();
      for (const int64_t at : {int64_t{0}, n / 7, n / 2 - 1, n / 2, 5 * n / 6, n - 1}) {
        Tensor x = f32(c.inputs[0].shape());
        x.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
        c.inputs[0] = std::move(x);
        check_on_cpu(c, "pool_f32");
      }
    }
}

TEST(CpuPool, Bytes) {
  for (const PoolRow& r : kPools)
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (const auto& [layout, dtype] : {std::pair{Layout::kChannelsLast, DType::kI8},
                                          {Layout::kChannelsLast, DType::kU8},
                                          {Layout::kChannelsFirst, DType::kI8}}) {
        OpCase c = pool_case(r, kind, layout);
        auto attrs = std::make_shared<PoolAttrs>(static_cast<const PoolAttrs&>(*c.attrs));
        attrs->rounding = Rounding::kFixedDouble;
        c.attrs = attrs;
        const bool s = dtype == DType::kI8;
        c.inputs[0] = random_tensor(dtype, c.inputs[0].shape(), s ? -128 : 0, s ? 127 : 255, 4);
        c.inputs[0].set_quant(per_tensor(0.05f, s ? -10 : 118));
        c.outputs[0].dtype = dtype;
        c.outputs[0].quant = c.inputs[0].quant();
        check_on_cpu(c, "pool_i8");
        if (kind != PoolKind::kMax || attrs->act.kind != ActKind::kNone) continue;
        c.inputs[0].set_quant(nullptr);
        c.outputs[0].quant = nullptr;
        check_on_cpu(c, "pool_i8");
      }
}

// In steps of the input, means lie midway between integers.
TEST(CpuPool, MeansOfBytesInRealNumbers) {
  for (const PoolRow& r : kPools)
    for (const float step : {0.021f, 0.037f})
      for (const auto& [layout, dtype] : {std::pair{Layout::kChannelsFirst, DType::kI8},
                                          {Layout::kChannelsFirst, DType::kU8},
                                          {Layout::kChannelsLast, DType::kI8},
                                          {Layout::kChannelsLast, DType::kU8}}) {
        OpCase c = pool_case(r, PoolKind::kAverage, layout);
        const Shape image = c.inputs[0].shape();
        const bool s = dtype == DType::kI8;
        c.inputs[0] = random_tensor(dtype, image, s ? -128 : 0, s ? 127 : 255, 4);
        c.inputs[0].set_quant(per_tensor(0.037f, s ? -10 : 118));
        c.outputs[0] = ValueType::tensor(dtype, {}, per_tensor(step, s ? 3 : 128));
        check_on_cpu(c, "avg_pool_i8");
      }
}

}  // namespace
}  // namespace smelt
