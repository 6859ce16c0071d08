// Every kernel for textures in every form that it takes, against the reference kernels.
#include <cstring>
#include "backends/vulkan/layout/image.h"

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/device/memory.h"
#include "backends/vulkan/record/recorder.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/resize/resize.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "tests/support/vulkan_texture.h"

namespace smelt::vulkan {
namespace {

const Shape kShapes[] = {{2, 5, 3, 7}, {1, 8, 4, 4}, {6, 5}, {3, 2, 9}, {11}, {}};

TEST(VulkanTexture, Unary) {
  SKIP_WITHOUT_GPU();
  for (const Shape& shape : kShapes)
    for (DType dtype : {DType::kF32, DType::kF16})
      for (Unary fn : {Unary::kIdentity, Unary::kHardSwish, Unary::kExp}) {
        UnaryAttrs attrs;
        attrs.fn = fn;
        auto c = make_case("unary " + shape.str(), Op::kUnary, attrs, {random_tensor(dtype, shape, -4, 4, 1)});
        check_forms(c, "unary_texture");
      }
}

/// Stores of float16 round to the nearest, of two to the even one, and overflow to infinity.
TEST(VulkanTexture, RoundsToFp16) {
  SKIP_WITHOUT_GPU();
  std::vector<double> x{0,       1 + 0x1p-11, 1 + 3 * 0x1p-11,       65519,   65520,   -70000,
                        0x1p-24, 0x1p-25,     3 * 0x1p-25 + 0x1p-40, -25.389, 0x1p-14, 0x1.ffep-15};
  const auto op = OpRunner(Op::kCast, make_attrs<CastAttrs>(DType::kF16))
                      .input(tensor(DType::kF32, {static_cast<int64_t>(x.size())}, x));
  check_forms(op, "cast_texture", {0, 0});
}

TEST(VulkanTexture, Clamp) {
  SKIP_WITHOUT_GPU();
  auto c = make_case("clamp", Op::kClamp, NoAttrs{},
                     {random_tensor(DType::kF32, {2, 5, 3, 7}, -4, 4, 1), random_tensor(DType::kF32, {}, -1, -1, 1),
                      random_tensor(DType::kF32, {}, 2, 2, 1)});
  check_forms(c, "clamp_texture");
}

TEST(VulkanTexture, Binary) {
  SKIP_WITHOUT_GPU();
  const std::pair<Shape, Shape> shapes[] = {{{2, 5, 3, 7}, {2, 5, 3, 7}},
                                            {{2, 5, 3, 7}, {5, 1, 1}},
                                            {{2, 5, 3, 7}, {}},
                                            {{2, 1, 3, 1}, {5, 1, 7}},
                                            {{7}, {4, 7}},
                                            {{2, 5, 3, 7}, {1, 7}}};
  for (const auto& [x, y] : shapes)
    for (DType dtype : {DType::kF32, DType::kF16})
      for (int constant : {0, 1, 2}) {
        BinaryAttrs attrs;
        attrs.fn = constant ? Binary::kSub : Binary::kMul;
        attrs.act.kind = ActKind::kRelu6;
        auto c = make_case("binary " + x.str() + " " + y.str() + (constant ? " constant" : ""), Op::kBinary, attrs,
                           {random_tensor(dtype, x, -3, 3, 1), random_tensor(dtype, y, -3, 3, 2)});
        c.constants.clear();
        if (constant) c.constants = {constant == 2 ? 0u : 1u};
        check_forms(c, "binary_texture");
      }
}

TEST(VulkanTexture, Compare) {
  SKIP_WITHOUT_GPU();
  const std::pair<Shape, Shape> shapes[] = {{{2, 5, 3, 7}, {5, 1, 1}}, {{7}, {4, 7}}};
  for (const auto& [x, y] : shapes)
    for (DType dtype : {DType::kF32, DType::kF16})
      for (Binary fn : {Binary::kLess, Binary::kNotEqual}) {
        BinaryAttrs attrs;
        attrs.fn = fn;
        auto c = make_case("compare " + x.str() + " " + y.str(), Op::kBinary, attrs,
                           {random_tensor(dtype, x, -3, 3, 1), random_tensor(dtype, y, -3, 3, 2)});
        c.outputs[0].dtype = DType::kBool;
        for (const std::vector<size_t>& constants : {std::vector<size_t>{}, {1}, {0}}) {
          c.constants = constants;
          check_forms(c, "binary_texture");
        }
      }
}

TEST(VulkanTexture, Where) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const Shape& condition : {Shape{2, 5, 3, 7}, Shape{5, 1, 7}, Shape{1}})
      for (const Shape& y : {Shape{2, 5, 3, 7}, Shape{}}) {
        Tensor chosen(DType::kBool, condition);
        for (int64_t i = 0; i < chosen.elements(); ++i) chosen.data<uint8_t>()[i] = i % 3 == 1;
        auto c = make_case("where " + condition.str(), Op::kWhere, NoAttrs{},
                           {chosen, random_tensor(dtype, {2, 5, 3, 7}, -3, 3, 1), random_tensor(dtype, y, -3, 3, 2)});
        c.constants.clear();
        c.outputs[0].dtype = dtype;
        check_forms(c, "where_texture");
      }
}

TEST(VulkanTexture, Gather) {
  SKIP_WITHOUT_GPU();
  for (DType dtype : {DType::kF32, DType::kF16})
    for (DType index : {DType::kI32, DType::kI64})
      for (int axis : {0, 1}) {
        GatherAttrs attrs;
        attrs.axis = axis;
        attrs.negative = true;
        Tensor at(index, {2, 3});
        const int64_t indices[] = {3, -1, 0, 2, 2, -4};
        for (int64_t i = 0; i < 6; ++i) set_int(at, i, indices[i]);
        auto c = make_case("gather along " + std::to_string(axis), Op::kGather, attrs,
                           {random_tensor(dtype, axis == 0 ? Shape{4, 7} : Shape{5, 4}, -3, 3, 1), at});
        c.constants.clear();
        if (axis != 1) c.constants = {0};
        check_forms(c, "gather_texture");
      }
  GatherAttrs attrs;
  attrs.axis = 1;
  Tensor at(DType::kI64, {3, 2});
  for (int64_t i = 0; i < 6; ++i) set_int(at, i, (i * 5 + 1) % 4);
  auto c = make_case("elements", Op::kGatherElements, attrs, {random_tensor(DType::kF32, {3, 4}, -3, 3, 1), at});
  c.constants.clear();
  check_forms(c, "gather_texture");
}

/// A convolution of some kind, and how its images are packed.
struct ConvCase {
  Shape x, filter;
  std::vector<int64_t> strides, dilations, pads;
  int64_t groups;
  Packing packing;
  Layout layout = Layout::kChannelsFirst;
  FilterLayout order = FilterLayout::kIOS;  ///< of transposed ones
};

template <class Attrs>
void check_convolution(const ConvCase& k, Op op, FilterLayout order, const std::string& kernel) {
  const int64_t channels = order == FilterLayout::kIOS ? k.filter[1] * k.groups : k.filter[0];
  for (DType dtype : {DType::kF32, DType::kF16})
    for (bool bias : {true, false}) {
      Attrs attrs;
      attrs.layout = k.layout;
      attrs.filter = order;
      attrs.strides = k.strides;
      attrs.dilations = k.dilations;
      attrs.pads = k.pads;
      attrs.groups = k.groups;
      if (bias) attrs.act.kind = ActKind::kRelu;
      auto c = make_case(k.x.str() + " " + k.filter.str() + (bias ? " bias" : ""), op, attrs,
                         {random_tensor(dtype, k.x, -1, 1, 1), random_tensor(dtype, k.filter, -1, 1, 2)});
      if (bias) add_constant(c, random_tensor(dtype, {channels}, -1, 1, 3));
      check_forms(c, kernel, {k.packing});
    }
}

TEST(VulkanTexture, Conv) {
  SKIP_WITHOUT_GPU();
  const ConvCase cases[] = {
      {{2, 5, 9, 7}, {6, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, Packing::kChannels},
      {{1, 8, 9, 7}, {7, 8, 1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, Packing::kChannels},
      {{1, 3, 10, 11}, {4, 3, 3, 2}, {2, 3}, {2, 1}, {1, 0, 0, 1}, 1, Packing::kChannels},
      {{2, 6, 9, 7}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 6, Packing::kChannels},
      {{1, 9, 9, 8}, {9, 1, 5, 3}, {2, 2}, {1, 2}, {2, 1, 2, 1}, 9, Packing::kChannels},
      {{2, 5, 13}, {6, 5, 3}, {2}, {1}, {1, 1}, 1, Packing::kHeight},
      {{2, 6, 13}, {6, 1, 3}, {1}, {2}, {1, 1}, 6, Packing::kHeight},
      {{2, 9, 7, 5}, {6, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, Packing::kWidth, Layout::kChannelsLast},
      {{2, 9, 7, 6}, {6, 1, 3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}, 6, Packing::kWidth, Layout::kChannelsLast},
      {{1, 16, 9, 7}, {8, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 2, Packing::kChannels},
      {{2, 6, 5, 7}, {9, 2, 3, 3}, {1, 2}, {1, 1}, {1, 1, 1, 1}, 3, Packing::kChannels},
      {{1, 3, 5, 7}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 3, Packing::kChannels},
      {{1, 6, 11}, {4, 3, 3}, {1}, {1}, {1, 1}, 2, Packing::kHeight},
      {{1, 5, 7, 10}, {15, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 5, Packing::kWidth, Layout::kChannelsLast},
  };
  for (const ConvCase& k : cases) check_convolution<ConvAttrs>(k, Op::kConv, FilterLayout::kOIS, "conv_texture");
}

TEST(VulkanTexture, ConvTranspose) {
  SKIP_WITHOUT_GPU();
  const ConvCase cases[] = {
      {{2, 5, 4, 7}, {5, 6, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 1, Packing::kChannels},
      {{1, 8, 5, 3}, {8, 4, 2, 3}, {2, 3}, {1, 2}, {0, 0, 0, 0}, 2, Packing::kChannels},
      {{1, 6, 5, 3}, {6, 3, 3, 3}, {1, 2}, {1, 1}, {1, 0, 1, 0}, 2, Packing::kChannels},
      {{1, 6, 5, 3}, {6, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 6, Packing::kChannels},
      {{2, 6, 9}, {6, 5, 4}, {2}, {1}, {1, 1}, 1, Packing::kHeight},
      {{1, 4, 3, 5},
       {7, 5, 3, 3},
       {2, 2},
       {1, 1},
       {0, 0, 0, 0},
       1,
       Packing::kWidth,
       Layout::kChannelsLast,
       FilterLayout::kOIS},
  };
  for (const ConvCase& k : cases)
    check_convolution<ConvTransposeAttrs>(k, Op::kConvTranspose, k.order, "conv_transpose_texture");
}

/// Weights of other types are packed by the host.
TEST(VulkanTexture, QuantizedWeights) {
  SKIP_WITHOUT_GPU();
  Quantization scales;
  scales.kind = Quantization::Kind::kPerAxis;
  scales.axis = 0;
  scales.scales = {0.01f, 0.02f, 0.03f, 0.01f, 0.02f};
  scales.zero_points.assign(5, 0);
  const auto grid = std::make_shared<const Quantization>(scales);
  ConvAttrs conv;
  conv.filter = FilterLayout::kOIS;
  Tensor filter = random_tensor(DType::kI8, {5, 3, 3, 2}, -127, 127, 2);
  filter.set_quant(grid);
  check_forms(
      make_case("quantized filter", Op::kConv, conv, {random_tensor(DType::kF32, {1, 3, 6, 7}, -1, 1, 1), filter}),
      "conv_texture", {Packing::kChannels});
  Tensor rows = random_tensor(DType::kI8, {5, 9}, -127, 127, 2);
  rows.set_quant(grid);
  MatMulAttrs product;
  product.transpose_b = true;
  check_forms(
      make_case("quantized matrix", Op::kMatMul, product, {random_tensor(DType::kF32, {2, 3, 9}, -1, 1, 1), rows}),
      "matmul_constant_texture", {Packing::kWidth});
}

TEST(VulkanTexture, MatMul) {
  SKIP_WITHOUT_GPU();
  for (const Shape& x : {Shape{3, 10}, Shape{2, 5, 10}, Shape{2, 3, 4, 10}})
    for (DType dtype : {DType::kF32, DType::kF16})
      for (bool transposed : {true, false}) {
        MatMulAttrs attrs;
        attrs.transpose_b = transposed;
        auto c = make_case("matmul " + x.str(), Op::kMatMul, attrs,
                           {random_tensor(dtype, x, -1, 1, 1),
                            random_tensor(dtype, transposed ? Shape{7, 10} : Shape{10, 7}, -1, 1, 2)});
        if (transposed) add_constant(c, random_tensor(dtype, {7}, -1, 1, 3));
        check_forms(c, "matmul_constant_texture", {Packing::kWidth});
      }
}

TEST(VulkanTexture, Pool) {
  SKIP_WITHOUT_GPU();
  for (PoolKind kind : {PoolKind::kMax, PoolKind::kAverage})
    for (DType dtype : {DType::kF32, DType::kF16})
      for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        const bool last = layout == Layout::kChannelsLast;
        PoolAttrs attrs;
        attrs.kind = kind;
        attrs.layout = layout;
        attrs.kernel = {3, 2};
        attrs.strides = {2, 1};
        attrs.pads = {1, 0, 1, 1};
        auto c = make_case(std::string("pool ") + to_string(kind) + " " + to_string(layout), Op::kPool, attrs,
                           {random_tensor(dtype, last ? Shape{2, 9, 10, 6} : Shape{2, 6, 9, 10}, -1, 1, 1)});
        check_forms(c, "pool_texture", {last ? Packing::kWidth : Packing::kChannels});
        AdaptivePoolAttrs bins;
        bins.kind = kind;
        bins.layout = layout;
        bins.output = {4, 3};
        c.op = Op::kAdaptivePool;
        c.attrs = make_attrs<AdaptivePoolAttrs>(bins);
        check_forms(c, "adaptive_pool_texture", {last ? Packing::kWidth : Packing::kChannels});
      }
  PoolAttrs attrs;
  attrs.kernel = {3};
  auto c = make_case("pool of lines", Op::kPool, attrs, {random_tensor(DType::kF32, {2, 6, 10}, -1, 1, 1)});
  check_forms(c, "pool_texture", {Packing::kHeight});
}

TEST(VulkanTexture, Resize) {
  SKIP_WITHOUT_GPU();
  for (auto mode : {ResizeAttrs::Mode::kNearest, ResizeAttrs::Mode::kLinear, ResizeAttrs::Mode::kCubic})
    for (DType dtype : {DType::kF32, DType::kF16}) {
      ResizeAttrs attrs;
      attrs.mode = mode;
      attrs.axes = {2, 3};
      Tensor sizes(DType::kI64, {2});
      sizes.data<int64_t>()[0] = 9;
      sizes.data<int64_t>()[1] = 5;
      auto c = make_case(std::string("resize ") + to_string(mode), Op::kResize, attrs,
                         {random_tensor(dtype, {2, 5, 4, 7}, -1, 1, 1), {}, {}, sizes});
      check_forms(c, "resize_texture", {Packing::kChannels});
    }
}

TEST(VulkanTexture, Softmax) {
  SKIP_WITHOUT_GPU();
  for (const Shape& shape : {Shape{2, 5, 3, 7}, Shape{4, 9}})
    for (int axis = 0; axis < shape.rank(); ++axis)
      for (auto kind : {SoftmaxAttrs::Kind::kSoftmax, SoftmaxAttrs::Kind::kLogSoftmax}) {
        SoftmaxAttrs attrs;
        attrs.axis = axis;
        attrs.kind = kind;
        auto c = make_case("softmax along " + std::to_string(axis), Op::kSoftmax, attrs,
                           {random_tensor(DType::kF32, shape, -5, 5, 1)});
        check_forms(c, "softmax_texture");
      }
}

TEST(VulkanTexture, Reduce) {
  SKIP_WITHOUT_GPU();
  const std::vector<std::vector<int64_t>> all_axes = {{2, 3}, {1}, {0, 2}, {0, 1, 2, 3}};
  for (const auto& axes : all_axes)
    for (Reduction fn : {Reduction::kMean, Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      ReduceAttrs attrs;
      attrs.fn = fn;
      attrs.keep_dims = true;
      Tensor list(DType::kI64, {static_cast<int64_t>(axes.size())});
      std::copy(axes.begin(), axes.end(), list.data<int64_t>());
      auto c = make_case("reduce", Op::kReduce, attrs, {random_tensor(DType::kF32, {2, 5, 3, 7}, -5, 5, 1), list});
      check_forms(c, "reduce_texture");
    }
}

TEST(VulkanTexture, ReduceDropsDimensions) {
  SKIP_WITHOUT_GPU();
  struct Case {
    Shape shape;
    std::vector<int64_t> axes;
    std::vector<Packing> packings;
  };
  const Case cases[] = {{{2, 5, 3, 7}, {2, 3}, {Packing::kWidth, Packing::kHeight}},
                        {{2, 5, 3, 7}, {1}, {Packing::kWidth, Packing::kHeight, Packing::kChannels}},
                        {{2, 5, 3, 7}, {0, 1, 2, 3}, {Packing::kWidth, Packing::kHeight, Packing::kChannels}},
                        {{3, 6, 9}, {2}, {Packing::kWidth, Packing::kHeight}},
                        {{6, 9}, {0}, {Packing::kWidth}}};
  for (const Case& k : cases)
    for (Reduction fn : {Reduction::kMean, Reduction::kMax})
      for (DType dtype : {DType::kF32, DType::kF16}) {
        ReduceAttrs attrs;
        attrs.fn = fn;
        Tensor list(DType::kI64, {static_cast<int64_t>(k.axes.size())});
        std::copy(k.axes.begin(), k.axes.end(), list.data<int64_t>());
        auto c =
            make_case("reduce " + k.shape.str(), Op::kReduce, attrs, {random_tensor(dtype, k.shape, -5, 5, 1), list});
        check_forms(c, "reduce_texture", k.packings);
      }
}

TEST(VulkanTexture, Transpose) {
  SKIP_WITHOUT_GPU();
  const std::vector<std::vector<int64_t>> perms = {{0, 2, 3, 1}, {3, 1, 0, 2}, {0, 1, 3, 2}, {1, 0, 2, 3}, {}};
  for (const auto& perm : perms)
    for (DType dtype : {DType::kF32, DType::kF16}) {
      auto c =
          make_case("transpose", Op::kTranspose, TransposeAttrs(perm), {random_tensor(dtype, {2, 5, 3, 7}, -5, 5, 1)});
      check_forms(c, "strided_copy_texture|index_map_texture");
    }
}

TEST(VulkanTexture, Concat) {
  SKIP_WITHOUT_GPU();
  for (int axis = 0; axis < 4; ++axis) {
    Shape x{4, 8, 4, 12}, y = x;
    y[axis] = 3;
    auto c = make_case("concat along " + std::to_string(axis), Op::kConcat, AxisAttrs(axis),
                       {random_tensor(DType::kF32, x, -5, 5, 1), random_tensor(DType::kF32, y, -5, 5, 2)});
    c.constants.clear();
    check_forms(c, "strided_copy_texture|index_map_texture");
  }
}

/// Elements come back from images as they were, through every form into every other.
TEST(VulkanTexture, ConversionsKeepElements) {
  SKIP_WITHOUT_GPU();
  auto device = Device::open(-1);
  ASSERT_TRUE(device.ok());
  if (!(*device)->textures()) GTEST_SKIP() << "no textures";
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const Storage s1 : kStorages)
      for (const Packing p1 : kPackings)
        for (const Storage s2 : kStorages)
          for (const Packing p2 : kPackings) {
            const auto first = ImageLayout::of({2, 5, 3, 7}, dtype, {s1, p1}, **device);
            const auto second = ImageLayout::of({7, 30}, dtype, {s2, p2}, **device);
            ASSERT_TRUE(first && second);
            const Tensor t = random_tensor(dtype, {210}, -9, 9, 5);
            auto a = Image::make(*device, *first), b = Image::make(*device, *second);
            ASSERT_TRUE(a.ok() && b.ok());
            const size_t align = std::max((*a)->alignment(), (*b)->alignment());
            const auto up = [&](size_t n) { return (n + align - 1) / align * align; };
            ImageWorkspace workspace;
            (*a)->join(workspace);
            (*b)->join(workspace);
            auto memory = Buffer::make(*device, up((*a)->bytes()) + up((*b)->bytes()), Buffer::Use::kDevice, workspace);
            auto from = Buffer::make(*device, t.bytes(), Buffer::Use::kStaging);
            auto in = Buffer::make(*device, t.bytes(), Buffer::Use::kDevice);
            auto to = Buffer::make(*device, t.bytes(), Buffer::Use::kStaging);
            ASSERT_TRUE(memory.ok() && from.ok() && in.ok() && to.ok());
            ASSERT_TRUE((*a)->place(**memory, 0).ok());
            ASSERT_TRUE((*b)->place(**memory, up((*a)->bytes())).ok());
            std::memcpy((*from)->mapped(), t.raw(), t.bytes());
            std::memset((*to)->mapped(), 0, t.bytes());
            Recorder r(*device);
            const Binding buffer = (*in)->slice(0, t.bytes()), images[] = {(*a)->binding(), (*b)->binding()};
            r.copy((*from)->slice(0, t.bytes()), buffer);
            r.start(images);
            ASSERT_TRUE(record_conversion(r, nullptr, buffer, &*first, images[0]).ok());
            ASSERT_TRUE(record_conversion(r, &*first, images[0], &*second, images[1]).ok());
            ASSERT_TRUE(record_conversion(r, &*second, images[1], nullptr, buffer).ok());
            r.copy(buffer, (*to)->slice(0, t.bytes()));
            ASSERT_TRUE(r.end().ok());
            ASSERT_TRUE(r.run().ok());
            EXPECT_EQ(std::memcmp((*to)->mapped(), t.raw(), t.bytes()), 0)
                << to_string(first->form) << " to " << to_string(second->form);
          }
  note_shaders();
}

}  // namespace
}  // namespace smelt::vulkan
