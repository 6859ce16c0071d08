// Element types, quantization parameters and string constants.
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/mapped_file.h"
#include "formats/rules.h"
#include "formats/tflite/reader.h"
#include "tensor/numeric.h"

namespace smelt::tflite {

Result<DType> dtype_of(tfl::TensorType type) {
  using enum tfl::TensorType;
  static constexpr std::pair<tfl::TensorType, DType> kTypes[] = {{FLOAT32, DType::kF32},
                                                                 {FLOAT16, DType::kF16},
                                                                 {FLOAT64, DType::kF64},
                                                                 {BFLOAT16, DType::kBF16},
                                                                 {INT2, DType::kI2},
                                                                 {INT4, DType::kI4},
                                                                 {INT8, DType::kI8},
                                                                 {INT16, DType::kI16},
                                                                 {INT32, DType::kI32},
                                                                 {INT64, DType::kI64},
                                                                 {UINT4, DType::kU4},
                                                                 {UINT8, DType::kU8},
                                                                 {UINT16, DType::kU16},
                                                                 {UINT32, DType::kU32},
                                                                 {UINT64, DType::kU64},
                                                                 {COMPLEX64, DType::kC64},
                                                                 {COMPLEX128, DType::kC128},
                                                                 {STRING, DType::kString},
                                                                 {BOOL, DType::kBool},
                                                                 {FLOAT8_E4M3FN, DType::kF8E4M3FN},
                                                                 {FLOAT8_E5M2, DType::kF8E5M2},
                                                                 {RESOURCE, DType::kInvalid},
                                                                 {VARIANT, DType::kInvalid}};
  for (const auto& [known, dtype] : kTypes)
    if (known == type) return dtype;
  return InvalidModel("element type ", static_cast<int>(type), " is not in the schema");
}

namespace {

/// Far beyond every 8- and 16-bit range; fixed-point kernels subtract zero points in 32 bits.
constexpr int64_t kMaxZeroPoint = int64_t{1} << 20;

/// A constant tensor of the subgraph that holds quantization parameters.
Result<Tensor> parameter_values(SubgraphReader& subgraph, int index, const char* what) {
  const auto* tables = subgraph.reader().model().subgraphs()->Get(static_cast<uint32_t>(subgraph.index()))->tensors();
  if (index < 0 || index >= subgraph.tensors())
    return InvalidModel(what, " of the quantization is tensor ", index, ", the subgraph has ", subgraph.tensors());
  const tfl::Tensor& t = *tables->Get(static_cast<uint32_t>(index));
  SMELT_ASSIGN(const DType dtype, dtype_of(t.type()));
  if (dtype == DType::kInvalid || dtype == DType::kString || is_complex(dtype))
    return InvalidModel(what, " of the quantization are ", to_string(dtype));
  Shape shape;
  if (t.shape()) {
    if (t.shape()->size() > Shape::kMaxRank) return InvalidModel(what, " have rank ", t.shape()->size());
    for (const int32_t d : *t.shape()) shape.push_back(d);
  }
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  SMELT_ASSIGN(const auto bytes, subgraph.reader().buffer(t.buffer()));
  if (bytes.size() != Tensor::byte_size(dtype, n))
    return InvalidModel(what, " of the quantization (tensor ", index, ") have no constant contents");
  SMELT_ASSIGN(Tensor copy, Tensor::allocate(dtype, shape, false));
  if (!bytes.empty()) copy_file_bytes(bytes.data(), bytes.size(), copy.raw());
  return copy;
}

/// A scale is positive and finite. 0 makes every value 0: among the scales of a constant it stands for a channel, row
/// or block of zeros. TFLite's kernels take it elsewhere, too, and ignore the scales of types that keep none: both may
/// be tolerated. may_be_zero: a scale of such a constant, or of such a type.
Status check_scale(const SubgraphReader& subgraph, float scale, bool matters, bool may_be_zero) {
  if (std::isfinite(scale) && (scale > 0 || (scale == 0 && may_be_zero))) return Ok();
  const Error error = InvalidModel("quantization scale ", scale, ", a positive number expected");
  if (matters && scale != 0) return error;
  return breach(subgraph.reader().source(), Rule::kQuantizationScale, error);
}

bool has_contents(SubgraphReader& subgraph, const tfl::Tensor& tensor) {
  const auto bytes = subgraph.reader().buffer(tensor.buffer());
  return bytes.ok() && !bytes->empty();
}

/// True if all are positive and finite.
bool all_positive(const std::vector<float>& scales) {
  constexpr uint32_t kInfinity = 0x7f800000;
  bool all = true;
  for (const float s : scales) all &= std::bit_cast<uint32_t>(s) - 1 < kInfinity - 1;
  return all;
}

Status check_zero_point(const SubgraphReader& subgraph, int64_t zero_point, DType dtype) {
  const auto lo = static_cast<int64_t>(int_min(dtype)), hi = static_cast<int64_t>(int_max(dtype));
  if (zero_point >= lo && zero_point <= hi) return Ok();
  const Error error =
      InvalidModel("zero point ", zero_point, " of ", to_string(dtype), ", ", lo, " to ", hi, " expected");
  if (zero_point < -kMaxZeroPoint || zero_point > kMaxZeroPoint) return error;
  return breach(subgraph.reader().source(), Rule::kZeroPointRange, error);
}

Result<QuantPtr> blockwise(SubgraphReader& subgraph, const tfl::BlockwiseQuantization& b, const Shape& shape,
                           bool may_be_zero) {
  if (shape.rank() < 1 || !shape.is_static()) return InvalidModel("block-wise quantization of shape ", shape.str());
  if (b.block_size() <= 0) return InvalidModel("block size ", b.block_size());
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerBlock;
  q->axis = shape.rank() - 1;
  q->block = b.block_size();
  q->rounding = Rounding::kFixedDouble;
  SMELT_ASSIGN(const Tensor scales, parameter_values(subgraph, b.scales(), "scales"));
  Shape blocks = shape;
  blocks[q->axis] = ceil_div(shape.back(), q->block);
  SMELT_ASSIGN(const int64_t count, blocks.checked_elements());
  if (scales.elements() != count)
    return InvalidModel(scales.elements(), " block scales, ", count, " expected for shape ", shape.str(),
                        " and blocks of ", q->block);
  q->scales.resize(static_cast<size_t>(count));
  to_floats(scales, q->scales.data());
  if (!all_positive(q->scales))
    for (const float s : q->scales) SMELT_TRY(check_scale(subgraph, s, true, may_be_zero));
  if (b.zero_points() > 0) {
    SMELT_ASSIGN(const Tensor zeros, parameter_values(subgraph, b.zero_points(), "zero points"));
    if (zeros.elements() != count && zeros.elements() != 1)
      return InvalidModel(zeros.elements(), " block zero points, ", count, " expected");
    for (int64_t i = 0; i < zeros.elements(); ++i) {
      const double z = get_double(zeros, i);
      if (!(std::fabs(z) <= kMaxZeroPoint)) return InvalidModel("block zero point ", z);
      q->zero_points.push_back(static_cast<int32_t>(z));
    }
  }
  return QuantPtr(std::move(q));
}

}  // namespace

Result<QuantPtr> read_quantization(SubgraphReader& subgraph, const tfl::Tensor& tensor, DType dtype) {
  const tfl::QuantizationParameters* p = tensor.quantization();
  if (!p) return QuantPtr();
  Shape shape;
  if (tensor.shape())
    for (const int32_t d : *tensor.shape())
      if (shape.rank() < Shape::kMaxRank) shape.push_back(d);
  if (const auto* b = p->details_as_BlockwiseQuantization())
    return blockwise(subgraph, *b, shape, has_contents(subgraph, tensor));
  if (p->details_type() == tfl::QuantizationDetails::MultiAxisQuantization)
    return Unsupported("quantization over several axes");
  const uint32_t count = p->scale() ? p->scale()->size() : 0;
  if (count == 0) return QuantPtr();
  const uint32_t zeros = p->zero_point() ? p->zero_point()->size() : 0;
  if (zeros != 0 && zeros != count && zeros != 1) return InvalidModel(zeros, " zero points for ", count, " scales");
  const bool matters = keeps_quantization(dtype);
  auto q = std::make_shared<Quantization>();
  q->rounding = Rounding::kFixedDouble;
  q->scales.resize(count);
  std::memcpy(q->scales.data(), p->scale()->Data(), count * sizeof(float));
  if (!all_positive(q->scales)) {
    const bool may_be_zero = !matters || (count > 1 && has_contents(subgraph, tensor));
    for (const float s : q->scales) SMELT_TRY(check_scale(subgraph, s, matters, may_be_zero));
  }
  const flatbuffers::Vector<int64_t>* const zero_points = p->zero_point();
  uint64_t any = 0;
  for (uint32_t i = 0; i < zeros; ++i) any |= static_cast<uint64_t>(zero_points->Get(i));
  if (any != 0) q->zero_points.resize(zeros);
  for (uint32_t i = 0; any != 0 && i < zeros; ++i) {
    const int64_t z = zero_points->Get(i);
    if (z != 0 && matters) SMELT_TRY(check_zero_point(subgraph, z, dtype));
    q->zero_points[i] = static_cast<int32_t>(z);
  }
  if (count > 1) {
    q->kind = Quantization::Kind::kPerAxis;
    int axis = p->quantized_dimension();
    // Converters leave the dimension of the filter on the 1-D bias.
    if (shape.rank() == 1) axis = 0;
    if (axis < 0 || axis >= shape.rank()) return InvalidModel("quantized dimension ", axis, " of shape ", shape.str());
    q->axis = axis;
    if (shape[axis] != static_cast<int64_t>(count) && matters)
      return InvalidModel(count, " scales along dimension ", axis, " of shape ", shape.str());
  } else if (p->quantized_dimension() < 0) {
    return InvalidModel("quantized dimension ", p->quantized_dimension());
  }
  return QuantPtr(std::move(q));
}

Result<Tensor> read_strings(std::span<const uint8_t> bytes, const Shape& shape) {
  const auto word = [&](size_t index) {
    int32_t v;
    std::memcpy(&v, bytes.data() + index * 4, 4);
    return v;
  };
  SMELT_ASSIGN(const int64_t n, shape.checked_elements());
  if (bytes.size() < 4) {
    if (n == 0) return Tensor::allocate(DType::kString, shape);
    return InvalidModel("a string buffer of ", bytes.size(), " bytes");
  }
  const int64_t count = word(0);
  if (count != n) return InvalidModel(count, " strings in the buffer, shape ", shape.str(), " takes ", n);
  if (bytes.size() / 4 < static_cast<size_t>(n) + 2) return InvalidModel("a string buffer of ", bytes.size(), " bytes");
  SMELT_ASSIGN(Tensor t, Tensor::allocate(DType::kString, shape));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = word(static_cast<size_t>(i) + 1), end = word(static_cast<size_t>(i) + 2);
    if (begin < 0 || end < begin || end > static_cast<int64_t>(bytes.size()))
      return InvalidModel("string ", i, " lies at [", begin, ", ", end, ") of a buffer of ", bytes.size(), " bytes");
    t.data<std::string>()[i].assign(reinterpret_cast<const char*>(bytes.data()) + begin,
                                    static_cast<size_t>(end - begin));
  }
  return t;
}

}  // namespace smelt::tflite
