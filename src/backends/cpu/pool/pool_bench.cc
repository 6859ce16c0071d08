#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/pool/pool.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(pool) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
    for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
      PoolAttrs a;
      a.kind = kind;
      a.kernel = {3, 3};
      a.strides = {2, 2};
      a.auto_pad = AutoPad::kSameUpper;
      a.layout = layout;
      a.rounding = Rounding::kFixedDouble;
      const bool last = layout == Layout::kChannelsLast;
      const Shape image = last ? Shape{1, 112, 112, 64} : Shape{1, 64, 112, 112};
      const auto add = [&](const char* type, const Tensor& x, const ValueType& y = {}) {
        cases.add({Cat(to_string(kind), "_pool_3x3/", last ? "nhwc/" : "nchw/", type),
                   Op::kPool,
                   make_attrs<PoolAttrs>(a),
                   {x},
                   {},
                   {y}});
      };
      const Tensor bytes = random_quantized(DType::kI8, image, 0.05f, -10, 1);
      add("float32", f32(image));
      add("float16", random_tensor(DType::kF16, image, -2, 2, 1));
      add("qint8", bytes, quantized_type(DType::kI8, 0.05f, -10));
      a.rounding = Rounding::kFloatHalfEven;
      if (kind == PoolKind::kAverage)
        add("qint8_to_other", bytes, ValueType::tensor(DType::kI8, {}, per_tensor(0.03f, 4)));
    }
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage}) {
    PoolAttrs a;
    a.kind = kind;
    a.kernel = {3, 3};
    a.pads = {1, 1, 1, 1};
    cases.add({Cat(to_string(kind), "_pool_3x3_s1/nchw/float32"),
               Op::kPool,
               make_attrs<PoolAttrs>(a),
               {f32({1, 192, 28, 28})}});
    a.kernel = a.strides = {3, 3};
    a.pads = {};
    a.layout = Layout::kChannelsLast;
    cases.add({Cat(to_string(kind), "_pool_few_channels/nhwc/float32"),
               Op::kPool,
               make_attrs<PoolAttrs>(a),
               {f32({1, 128, 3, 8})}});
  }
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    PoolAttrs a;
    a.kernel = a.strides = {2, 2};
    a.layout = layout;
    const bool last = layout == Layout::kChannelsLast;
    cases.add({Cat("max_pool_indices/", last ? "nhwc" : "nchw"),
               Op::kPool,
               make_attrs<PoolAttrs>(a),
               {f32(last ? Shape{1, 112, 112, 64} : Shape{1, 64, 112, 112})},
               {},
               {{}, ValueType::tensor(DType::kI64)}});
  }
  MaxUnpoolAttrs unpool;
  unpool.kernel = unpool.strides = {2, 2};
  unpool.in_window = true;
  const Shape pooled{1, 64, 64, 64};
  cases.add({"max_unpool/windows",
             Op::kMaxUnpool,
             make_attrs<MaxUnpoolAttrs>(unpool),
             {f32(pooled), random_tensor(DType::kF32, pooled, 0, 3.99, 2)}});
  RoiAttrs align;
  align.height = align.width = 7;
  align.sampling_ratio = 2;
  align.scale = 1.0 / 16;
  cases.add({"roi_align/boxes",
             Op::kRoiPool,
             make_attrs<RoiAttrs>(align),
             {f32({1, 256, 20, 20}), random_tensor(DType::kF32, {100, 4}, 0, 320, 2), Tensor(DType::kI64, {100})}});
}

}  // namespace smelt::bench
