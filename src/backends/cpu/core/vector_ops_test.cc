#include <limits>

#include "base/cat.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::testing;

Tensor f32(const Shape& shape, uint32_t seed = 1) { return random_tensor(DType::kF32, shape, -2, 2, seed); }

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
    {{1, 12, 12, 8}, {3, 3}, {1, 1}, {0, 0, 0, 0}, false, false, {2, 2}, ActKind::kRelu6},
};

KernelCase pool_case(const PoolRow& r, PoolKind kind, Layout layout) {
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
  KernelCase c;
  c.op = Op::kPool;
  c.attrs = attrs;
  const Shape& s = r.image;
  const Shape image = layout == Layout::kChannelsLast ? s : Shape{s[0], s[3], s[1], s[2]};
  c.label = Cat(to_string(kind), image.str(), to_string(layout));
  c.inputs = {f32(image)};
  c.threaded = s[0] == 2;
  return c;
}

TEST(Pool, F32) {
  for (const PoolRow& r : kPools)
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
        check_case(pool_case(r, kind, layout), "pool_f32");
}

TEST(Pool, MaximaWithNotANumber) {
  for (Layout layout : {Layout::kChannelsLast, Layout::kChannelsFirst}) {
    KernelCase c = pool_case(kPools[0], PoolKind::kMax, layout);
    auto* x = c.inputs[0].data<float>();
    for (int64_t i = 0; i < c.inputs[0].elements(); i += 41) x[i] = std::numeric_limits<float>::quiet_NaN();
    check_case(c, "pool_f32");
  }
}

TEST(Pool, Bytes) {
  for (const PoolRow& r : kPools)
    for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
      for (const auto& [layout, dtype] : {std::pair{Layout::kChannelsLast, DType::kI8},
                                          {Layout::kChannelsLast, DType::kU8},
                                          {Layout::kChannelsFirst, DType::kI8}}) {
        KernelCase c = pool_case(r, kind, layout);
        auto attrs = std::make_shared<PoolAttrs>(static_cast<const PoolAttrs&>(*c.attrs));
        attrs->rounding = Rounding::kFixedDouble;
        c.attrs = attrs;
        const bool s = dtype == DType::kI8;
        c.inputs[0] = random_tensor(dtype, c.inputs[0].shape(), s ? -128 : 0, s ? 127 : 255, 4);
        c.inputs[0].set_quant(per_tensor(0.05f, s ? -10 : 118));
        c.output.dtype = dtype;
        c.output.quant = c.inputs[0].quant();
        check_case(c, "pool_i8");
        if (kind != PoolKind::kMax || attrs->act.kind != ActKind::kNone) continue;
        c.inputs[0].set_quant(nullptr);
        c.output.quant = nullptr;
        check_case(c, "pool_i8");
      }
}

TEST(Pool, MeansOfBytesInRealNumbers) {
  for (const PoolRow& r : kPools)
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
      for (DType dtype : {DType::kI8, DType::kU8}) {
        KernelCase c = pool_case(r, PoolKind::kAverage, layout);
        const Shape image = c.inputs[0].shape();
        const bool s = dtype == DType::kI8;
        c.inputs[0] = random_tensor(dtype, image, s ? -128 : 0, s ? 127 : 255, 4);
        c.inputs[0].set_quant(per_tensor(0.037f, s ? -10 : 118));
        c.output = ValueType::tensor(dtype, {}, per_tensor(0.021f, s ? 3 : 128));
        check_case(c, "avg_pool_i8");
      }
}

TEST(Rows, Softmax) {
  for (const Shape& shape : {Shape{3, 5, 37}, Shape{1000}, Shape{4, 1}, Shape{7, 16}})
    for (auto kind : {SoftmaxAttrs::Kind::kSoftmax, SoftmaxAttrs::Kind::kLogSoftmax}) {
      auto attrs = std::make_shared<SoftmaxAttrs>();
      attrs->kind = kind;
      attrs->beta = shape.rank() == 2 ? 0.5 : 1;
      KernelCase c{Cat(to_string(kind), shape.str()),
                   Op::kSoftmax,
                   attrs,
                   {random_tensor(DType::kF32, shape, -20, 9, 1)},
                   {},
                   {}};
      check_case(c, "softmax_f32", {1e-7, 1e-5});
    }
}

TEST(Rows, SoftmaxOfColumns) {
  const std::pair<Shape, int64_t> rows[] = {{{2, 3, 33}, 1}, {{7, 5}, 0}, {{1, 21, 16, 40}, 1}, {{2, 4, 1, 9}, -2}};
  for (const auto& [shape, axis] : rows) {
    auto attrs = std::make_shared<SoftmaxAttrs>();
    attrs->axis = axis;
    check_case({shape.str(), Op::kSoftmax, attrs, {f32(shape)}, {}, {}}, "softmax_strided_f32", {1e-7, 1e-5});
  }
}

TEST(Rows, LayerNorm) {
  for (bool rms : {false, true})
    for (int64_t n : {1, 37, 256})
      for (int operands : {1, 2, 3}) {
        auto attrs = std::make_shared<LayerNormAttrs>();
        attrs->rms = rms;
        KernelCase c{Cat("n ", n, " operands ", operands), Op::kLayerNorm, attrs, {f32({3, 4, n})}, {}, {}};
        if (operands > 1) c.inputs.push_back(f32({n}, 2));
        if (operands > 2) c.inputs.push_back(f32({n}, 3));
        check_case(c, "layer_norm_f32", {1e-5, 1e-5});
      }
}

TEST(Rows, SumsOfSquares) {
  for (const int64_t n : {1, 5, 33, 1500}) {
    auto attrs = std::make_shared<ReduceAttrs>();
    attrs->fn = Reduction::kSumSquare;
    check_case({Cat("n ", n),
                Op::kReduce,
                attrs,
                {f32({3, 2, n}), Tensor::from<int64_t>(DType::kI64, {1}, std::vector<int64_t>{-1})},
                {},
                {}},
               "reduce_f32");
  }
}

TEST(Rows, Reduce) {
  const std::vector<int64_t> lists[] = {{1, 2}, {-1}, {0}, {0, 1, 2, 3}, {2}, {0, 2}};
  for (Reduction fn : {Reduction::kSum, Reduction::kMean, Reduction::kMax})
    for (const auto& axes : lists)
      for (bool keep : {false, true}) {
        auto attrs = std::make_shared<ReduceAttrs>();
        attrs->fn = fn;
        attrs->keep_dims = keep;
        KernelCase c{
            Cat(to_string(fn), " over ", axes.size(), " from ", axes[0]),
            Op::kReduce,
            attrs,
            {f32({2, 7, 9, 33}), Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(axes.size())}, axes)},
            {},
            {}};
        check_case(c, "", {2e-5, 1e-5});
      }
}

TEST(Rows, IntegerMean) {
  for (DType dtype : {DType::kI8, DType::kU8})
    for (const auto& [rounding, axes] : {std::pair{Rounding::kFixedDouble, std::vector<int64_t>{1, 2}},
                                         {Rounding::kFixedDouble, {2}},
                                         {Rounding::kFixedDouble, {3}},
                                         {Rounding::kFloatHalfEven, {1, 2}},
                                         {Rounding::kFloatHalfEven, {3}}}) {
      auto attrs = std::make_shared<ReduceAttrs>();
      attrs->fn = Reduction::kMean;
      attrs->rounding = rounding;
      const bool s = dtype == DType::kI8;
      Tensor x = random_tensor(dtype, {2, 7, 9, 37}, s ? -128 : 0, s ? 127 : 255, 4);
      x.set_quant(per_tensor(0.05f, s ? -10 : 118));
      KernelCase c{Cat(to_string(dtype), axes[0], static_cast<int>(rounding)),
                   Op::kReduce,
                   attrs,
                   {x, Tensor::from<int64_t>(DType::kI64, {static_cast<int64_t>(axes.size())}, axes)},
                   {},
                   {}};
      c.output.dtype = dtype;
      c.output.quant = per_tensor(0.021f, s ? 3 : 127, rounding);
      check_case(c, "mean_i8");
    }
}

}  // namespace
}  // namespace smelt
