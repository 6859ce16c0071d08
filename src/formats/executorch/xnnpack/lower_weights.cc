#include "formats/executorch/xnnpack/lower.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

constexpr uint32_t kTransposeWeights = 1, kFlattenInput = 4, kTransposeB = 1;

bool is_dynamic(const ValueType& type) { return type.quant && type.quant->kind == Quantization::Kind::kPerToken; }

Status check_bias(const XnnValue& bias, int64_t channels) {
  const Shape& s = bias.type.shape;
  if (!bias.constant.defined() || (s.rank() == 1 && s[0] == channels)) return Ok();
  return InvalidModel("the bias has shape ", s.str(), ", [", channels, "] expected");
}

Result<std::shared_ptr<ConvTransposeAttrs>> conv_attrs(const fb_xnnpack::_XNNNodeConv& n) {
  auto a = std::make_shared<ConvTransposeAttrs>();
  SMELT_ASSIGN(const int64_t sy, xnn_size(n.subsampling_height(), "vertical stride", 1));
  SMELT_ASSIGN(const int64_t sx, xnn_size(n.subsampling_width(), "horizontal stride", 1));
  SMELT_ASSIGN(const int64_t dy, xnn_size(n.dilation_height(), "vertical dilation", 1));
  SMELT_ASSIGN(const int64_t dx, xnn_size(n.dilation_width(), "horizontal dilation", 1));
  SMELT_ASSIGN(a->groups, xnn_size(n.groups(), "number of groups", 1));
  a->strides = {sy, sx};
  a->dilations = {dy, dx};
  a->layout = Layout::kChannelsLast;
  a->filter = FilterLayout::kOSI;
  SMELT_TRY(read_padding(n, *a));
  return a;
}

}  // namespace

/// A product of x and constant weights. Three forms: integers with integers, dynamically quantized x with integers, or
/// real x with weights that may be quantized.
Status XnnLowering::weighted(Op op, AttrsPtr attrs, uint32_t x, uint32_t filter, uint32_t bias, uint32_t out,
                             bool flatten) {
  std::vector<uint32_t> all{x, filter};
  if (bias != kXnnInvalidId) all.push_back(bias);
  ValueType compute = value(out).type;
  std::vector<ValueId> inputs;
  if (computes_in_integers(all, out)) {
    for (uint32_t id : all) inputs.push_back(operand(id));
  } else {
    const bool dynamic = is_dynamic(type(operand(x))) && value(filter).type.quant;
    // bf16 operands give float sums.
    const bool wide = dynamic || (value(x).type.dtype == DType::kBF16 && !value(out).type.quant);
    compute = ValueType::tensor(wide ? DType::kF32 : compute_type(out));
    ValueId a = operand(x), b = operand(filter);
    if (!dynamic) a = real(x, compute.dtype);
    if (!value(filter).type.quant) b = real(filter, compute.dtype);
    inputs = {a, b};
    if (bias != kXnnInvalidId) inputs.push_back(real(bias, compute.dtype));
  }
  if (flatten) {
    const int64_t columns = value(filter).type.shape.back();
    inputs[0] = reshape(inputs[0], {-1, columns});
  }
  return finish(op, std::move(attrs), std::move(inputs), compute, out);
}

Status XnnLowering::fully_connected(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNFullyConnected();
  const Shape& filter = value(n.filter_id()).type.shape;
  if (filter.rank() != 2) return InvalidModel("the filter has rank ", filter.rank(), ", 2 expected");
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = (n.flags() & kTransposeWeights) == 0;
  uint32_t y = n.output_id();
  SMELT_ASSIGN(attrs->act, clamp_of_product(node, y));
  if (n.bias_id() != kXnnInvalidId) SMELT_TRY(check_bias(value(n.bias_id()), filter[attrs->transpose_b ? 0 : 1]));
  const bool flatten = (n.flags() & kFlattenInput) != 0 && attrs->transpose_b;
  return weighted(Op::kMatMul, std::move(attrs), n.input1_id(), n.filter_id(), n.bias_id(), y, flatten);
}

Status XnnLowering::convolution(const Node& node) {
  const auto& n = *static_cast<const fb_xnnpack::_XNNNodeConv*>(node.xnode_union());
  const bool transposed = node.xnode_union_type() == XNodeUnion::XNNConvTranspose2d;
  const bool depthwise = node.xnode_union_type() == XNodeUnion::XNNDepthwiseConv2d;
  SMELT_ASSIGN(auto attrs, conv_attrs(n));
  uint32_t y = n.output_id();
  SMELT_ASSIGN(attrs->act, clamp_of_product(node, y));
  SMELT_ASSIGN(const int64_t kh, xnn_size(n.kernel_height(), "kernel height", 1));
  SMELT_ASSIGN(const int64_t kw, xnn_size(n.kernel_width(), "kernel width", 1));
  SMELT_ASSIGN(const int64_t in, xnn_size(n.group_input_channels(), "input channels of a group", 1));
  SMELT_ASSIGN(const int64_t out, xnn_size(n.group_output_channels(), "output channels of a group", 1));
  if (depthwise && out % in != 0)
    return InvalidModel(out, " output channels are no multiple of ", in, " input channels");
  const int64_t channels = attrs->groups * (depthwise ? out / in : out);
  const Shape want = depthwise ? Shape{1, kh, kw, channels} : Shape{channels, kh, kw, in};
  const Shape& filter = value(n.filter_id()).type.shape;
  if (!(filter == want)) return InvalidModel("the filter has shape ", filter.str(), ", ", want.str(), " expected");
  if (n.bias_id() != kXnnInvalidId) SMELT_TRY(check_bias(value(n.bias_id()), channels));
  if (transposed) {
    SMELT_ASSIGN(const int64_t ay, xnn_size(n.adjustment_height(), "height adjustment"));
    SMELT_ASSIGN(const int64_t ax, xnn_size(n.adjustment_width(), "width adjustment"));
    attrs->output_padding = {ay, ax};
    return weighted(Op::kConvTranspose, std::move(attrs), n.input1_id(), n.filter_id(), n.bias_id(), y, false);
  }
  if (depthwise) attrs->filter = FilterLayout::kISO;
  return weighted(Op::kConv, std::make_shared<const ConvAttrs>(*attrs), n.input1_id(), n.filter_id(), n.bias_id(), y,
                  false);
}

Status XnnLowering::batch_matmul(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNBatchMatrixMultiply();
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = (n.flags() & kTransposeB) != 0;
  SMELT_ASSIGN(attrs->act, xnn_clamp(node));
  return weighted(Op::kMatMul, std::move(attrs), n.input1_id(), n.input2_id(), kXnnInvalidId, n.output_id(), false);
}

/// softmax((q * scale) k^T + mask) v, with a scale for each channel. Keys and values of one rank less than queries have
/// no dimension of heads: all heads share them (multi-query attention).
Status XnnLowering::attention(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNScaledDotProductAttention();
  const DType dtype = compute_type(n.output_id());
  ValueId q = real(n.query_id(), dtype);
  const int rank = type(q).shape.rank();
  const auto with_heads = [&](uint32_t id) {
    const ValueId x = real(id, dtype);
    return rank > 2 && type(x).shape.rank() == rank - 1 ? unsqueeze(x, {rank - 3}) : x;
  };
  const ValueId k = with_heads(n.key_id()), v = with_heads(n.value_id());
  q = binary(Binary::kMul, q, real(n.scale_id(), dtype));
  const ValueId mask = real(n.mask_id(), dtype);
  if (rank == 4 && type(k).shape.rank() == 4 && type(v).shape.rank() == 4) {
    auto attrs = std::make_shared<AttentionAttrs>();
    attrs->scale = 1;
    return finish(Op::kAttention, std::move(attrs), {q, k, v, mask}, ValueType::tensor(dtype), n.output_id());
  }
  auto transposed = std::make_shared<MatMulAttrs>();
  transposed->transpose_b = true;
  ValueId scores = add(Op::kMatMul, std::move(transposed), {q, k});
  scores = binary(Binary::kAdd, scores, mask);
  scores = add(Op::kSoftmax, SoftmaxAttrs(), {scores});
  return finish(Op::kMatMul, make_attrs<MatMulAttrs>(), {scores, v}, ValueType::tensor(dtype), n.output_id());
}

}  // namespace smelt::executorch
