#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/normalization/normalization.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(norm) {
  const Shape image{1, 64, 56, 56};
  for (const DType t : {DType::kF32, DType::kF16}) {
    const auto random = [&](const Shape& shape) { return random_tensor(t, shape, 0.5, 2, 1); };
    cases.add({Cat("layer_norm/", to_string(t)),
               Op::kLayerNorm,
               make_attrs<LayerNormAttrs>(),
               {random({128, 768}), random({768}), random({768})},
               {1, 2}});
  }
  const Tensor c = random_tensor(DType::kF32, {64}, 0.5, 2, 2);
  cases.add(
      {"batch_norm/float32", Op::kBatchNorm, make_attrs<BatchNormAttrs>(), {f32(image), c, c, c, c}, {1, 2, 3, 4}});
  cases.add({"batch_norm_of_rows/float32",
             Op::kBatchNorm,
             make_attrs<BatchNormAttrs>(),
             {f32({196, 64}), c, c, c, c},
             {1, 2, 3, 4}});
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    BatchNormAttrs batch;
    batch.layout = layout;
    const Shape bytes = layout == Layout::kChannelsLast ? Shape{1, 56, 56, 64} : image;
    cases.add({Cat("batch_norm/", to_string(layout), "/qint8"),
               Op::kBatchNorm,
               make_attrs<BatchNormAttrs>(batch),
               {random_quantized(DType::kI8, bytes, 0.05f, -10, 1), c, c, c, c},
               {1, 2, 3, 4},
               {quantized_type(DType::kI8, 0.07f, 3)}});
  }
  GroupNormAttrs groups;
  groups.groups = 8;
  cases.add({"group_norm/float32", Op::kGroupNorm, make_attrs<GroupNormAttrs>(groups), {f32(image), c, c}, {1, 2}});
  LrnAttrs lrn;
  lrn.size = 5;
  cases.add({"lrn/float32", Op::kLRN, make_attrs<LrnAttrs>(lrn), {f32(image)}});
}

}  // namespace smelt::bench
