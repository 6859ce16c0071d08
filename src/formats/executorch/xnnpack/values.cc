#include "formats/executorch/xnnpack/values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "tensor/numeric.h"

namespace smelt::executorch {
namespace {

using fb_xnnpack::XNNDatatype;
using Bytes = std::span<const std::byte>;

/// The zero point of 4-bit values.
constexpr int32_t kFourBitZero = 8;

bool is_four_bit(XNNDatatype t) {
  return t == XNNDatatype::xnn_datatype_qcint4 || t == XNNDatatype::xnn_datatype_qbint4;
}

/// Bytes of constant `index`, from the constants area, named data, or the buffers inside the flatbuffer.
Result<Bytes> constant_bytes(const fb_xnnpack::XNNGraph& table, uint32_t index, const DelegateBlob& blob,
                             const BlobParts& parts) {
  const auto fail = [&](const auto&... text) { return InvalidModel("constant ", index, ": ", text...); };
  if (parts.has_header) {
    const auto* list = table.constant_data();
    if (!list || index >= list->size()) return fail("the graph has ", list ? list->size() : 0, " constants");
    const auto* entry = list->Get(index);
    auto bytes = find_constant(blob, parts, entry->offset(), entry->size(),
                               entry->named_key() ? entry->named_key()->str() : std::string());
    if (!bytes.ok()) return bytes.error().within(Cat("constant ", index));
    return bytes;
  }
  const auto* list = table.constant_buffer();
  if (!list || index >= list->size()) return fail("the graph has ", list ? list->size() : 0, " constant buffers");
  const auto* storage = list->Get(index)->storage();
  if (!storage) return fail("the buffer is empty");
  return Bytes(reinterpret_cast<const std::byte*>(storage->data()), storage->size());
}

Status check_scale(float scale) {
  if (!std::isnormal(scale) || scale < 0) return InvalidModel("scale ", scale, ", a positive number expected");
  return Ok();
}

Status check_zero_point(DType dtype, int32_t zero_point) {
  const int64_t lo = dtype == DType::kI32 ? 0 : int_min(dtype), hi = dtype == DType::kI32 ? 0 : int_max(dtype);
  if (zero_point < lo || zero_point > hi)
    return InvalidModel("zero point ", zero_point, " of ", to_string(dtype), ", ", lo, " to ", hi, " expected");
  return Ok();
}

/// Scales written in the flatbuffer or, by the newer way, in a constant of `width` bytes an entry.
template <class T>
Result<std::vector<T>> read_scales(const fb_xnnpack::XNNGraph& table, uint32_t buffer, uint32_t count,
                                   const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget) {
  SMELT_ASSIGN(const Bytes bytes, constant_bytes(table, buffer, blob, parts));
  if (bytes.size() / sizeof(T) < count)
    return InvalidModel(count, " scales need ", count * sizeof(T), " bytes, constant ", buffer, " has ", bytes.size());
  // Named data is as large as the program says; what lies inside the blob can be shared by many values.
  const bool named = !std::less_equal<>()(blob.bytes.data(), bytes.data()) ||
                     !std::less_equal<>()(bytes.data() + bytes.size(), blob.bytes.data() + blob.bytes.size());
  if (!named) SMELT_TRY(budget.take(uint64_t{count} * sizeof(float)));
  std::vector<T> scales(count);
  if (count != 0) std::memcpy(scales.data(), bytes.data(), count * sizeof(T));
  return scales;
}

/// The count that goes with scales in the flatbuffer, where there is one.
Status check_num_scales(uint32_t stated, size_t scales) {
  if (stated != 0 && stated != scales) return InvalidModel("num_scales is ", stated, ", there are ", scales);
  return Ok();
}

Result<Quantization> per_channel(const fb_xnnpack::XNNGraph& table, const fb_xnnpack::PerChannelQuant& p,
                                 XNNDatatype type, const Shape& shape, const DelegateBlob& blob, const BlobParts& parts,
                                 CopyBudget& budget) {
  Quantization q;
  q.kind = Quantization::Kind::kPerAxis;
  q.axis = p.channel_dim();
  if (q.axis < 0 || q.axis >= shape.rank())
    return InvalidModel("channel dimension ", q.axis, " of a value of rank ", shape.rank());
  if (p.scale_buffer_idx() != 0) {
    SMELT_ASSIGN(q.scales, read_scales<float>(table, p.scale_buffer_idx(), p.num_scales(), blob, parts, budget));
  } else if (p.scale()) {
    SMELT_TRY(check_num_scales(p.num_scales(), p.scale()->size()));
    SMELT_TRY(budget.take(p.scale()->size() * sizeof(float)));
    q.scales.assign(p.scale()->begin(), p.scale()->end());
  }
  if (static_cast<int64_t>(q.scales.size()) != shape[q.axis])
    return InvalidModel(q.scales.size(), " scales for ", shape[q.axis], " channels");
  for (float s : q.scales) SMELT_TRY(check_scale(s));
  if (is_four_bit(type)) q.zero_points = {kFourBitZero};
  return q;
}

Result<Quantization> per_block(const fb_xnnpack::XNNGraph& table, const fb_xnnpack::PerChannelGroupQuant& p,
                               const Shape& shape, const DelegateBlob& blob, const BlobParts& parts,
                               CopyBudget& budget) {
  Quantization q;
  q.kind = Quantization::Kind::kPerBlock;
  q.axis = 1;
  q.block = p.group_size();
  if (shape.rank() != 2) return InvalidModel("blockwise quantization of a value of rank ", shape.rank(), ", not 2");
  if (p.channel_dim() < 0 || p.channel_dim() >= shape.rank())
    return InvalidModel("channel dimension ", p.channel_dim(), " of a value of rank ", shape.rank());
  if (q.block <= 0 || shape[1] % q.block != 0)
    return InvalidModel("group size ", q.block, " does not divide ", shape[1], " input channels");
  if (p.scale_buffer_idx() != 0) {
    SMELT_ASSIGN(const auto bf16,
                 read_scales<uint16_t>(table, p.scale_buffer_idx(), p.num_scales(), blob, parts, budget));
    for (uint16_t s : bf16) q.scales.push_back(bf16_to_f32(s));
  } else if (p.scale_bf16() && p.scale_bf16()->size() > 0) {
    SMELT_TRY(check_num_scales(p.num_scales(), p.scale_bf16()->size()));
    SMELT_TRY(budget.take(p.scale_bf16()->size() * sizeof(float)));
    for (uint16_t s : *p.scale_bf16()) q.scales.push_back(bf16_to_f32(s));
  } else if (p.scale()) {
    SMELT_TRY(check_num_scales(p.num_scales(), p.scale()->size()));
    SMELT_TRY(budget.take(p.scale()->size() * sizeof(float)));
    // XNNPACK's runtime keeps group scales in bf16: rounded by this factor, then cut off.
    for (float s : *p.scale()) {
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(s * 1.00389105f) >> 16);
      q.scales.push_back(bf16_to_f32(bits));
    }
  }
  if (static_cast<int64_t>(q.scales.size()) != shape[0] * (shape[1] / q.block))
    return InvalidModel(q.scales.size(), " scales for ", shape[0], " channels of ", shape[1] / q.block, " groups");
  for (float s : q.scales) SMELT_TRY(check_scale(s));
  q.zero_points = {kFourBitZero};
  return q;
}

Result<Quantization> read_quantization(const fb_xnnpack::XNNGraph& table,
                                       const fb_xnnpack::XNNQuantizedTensorValue& value, const ValueType& type,
                                       const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget) {
  const XNNDatatype datatype = value.tensor_value()->datatype();
  const auto only = [&](std::initializer_list<XNNDatatype> allowed) -> Status {
    for (XNNDatatype t : allowed)
      if (t == datatype) return Ok();
    return InvalidModel(fb_xnnpack::EnumNameXNNDatatype(datatype), " does not go with ",
                        fb_xnnpack::EnumNameXNNQuantParams(value.quant_params_type()));
  };
  if (!value.quant_params()) return InvalidModel("no quantization parameters");
  switch (value.quant_params_type()) {
    case fb_xnnpack::XNNQuantParams::PerTensorQuant: {
      SMELT_TRY(
          only({XNNDatatype::xnn_datatype_qint8, XNNDatatype::xnn_datatype_quint8, XNNDatatype::xnn_datatype_qint32}));
      const auto& p = *value.quant_params_as_PerTensorQuant();
      SMELT_TRY(check_scale(p.scale()));
      SMELT_TRY(check_zero_point(type.dtype, p.zero_point()));
      Quantization q;
      q.scales = {p.scale()};
      q.zero_points = {p.zero_point()};
      return q;
    }
    case fb_xnnpack::XNNQuantParams::PerChannelQuant:
      SMELT_TRY(
          only({XNNDatatype::xnn_datatype_qcint8, XNNDatatype::xnn_datatype_qcint32, XNNDatatype::xnn_datatype_qcint4,
                XNNDatatype::xnn_datatype_qint8, XNNDatatype::xnn_datatype_qint32}));
      return per_channel(table, *value.quant_params_as_PerChannelQuant(), datatype, type.shape, blob, parts, budget);
    case fb_xnnpack::XNNQuantParams::PerChannelGroupQuant:
      SMELT_TRY(only({XNNDatatype::xnn_datatype_qbint4}));
      return per_block(table, *value.quant_params_as_PerChannelGroupQuant(), type.shape, blob, parts, budget);
    case fb_xnnpack::XNNQuantParams::PerTokenDynamicQuant: {
      SMELT_TRY(only({XNNDatatype::xnn_datatype_qdint8, XNNDatatype::xnn_datatype_qpint8}));
      const int32_t dims = value.quant_params_as_PerTokenDynamicQuant()->num_nonbatch_dims();
      if (dims < 0 || dims > type.shape.rank())
        return InvalidModel(dims, " non-batch dimensions of a value of rank ", type.shape.rank());
      Quantization q;
      q.kind = Quantization::Kind::kPerToken;
      q.axis = dims;
      return q;
    }
    default:
      return InvalidModel("no quantization parameters");
  }
}

/// 4-bit rows end on a byte; where their length is odd the nibbles are packed anew, without the gaps.
Result<Tensor> four_bit_constant(const Shape& shape, Bytes bytes, const std::shared_ptr<const void>& owner,
                                 CopyBudget& budget) {
  const int64_t columns = shape.rank() == 0 ? 1 : shape.back();
  if (columns % 2 == 0) return view_constant(DType::kU4, shape, bytes, owner, budget);
  SMELT_ASSIGN(const int64_t elements, shape.checked_elements());
  const int64_t rows = elements / (columns > 0 ? columns : 1), stride = columns / 2 + 1;
  if (elements > (int64_t{1} << 48) || static_cast<uint64_t>(rows * stride) > bytes.size())
    return InvalidModel("it has ", bytes.size(), " bytes, ", rows, " rows of ", stride, " bytes expected");
  SMELT_TRY(budget.take(bytes.size()));
  SMELT_ASSIGN(Tensor packed, Tensor::allocate(DType::kU4, shape));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(r * stride + c / 2)]);
      set_int(packed, r * columns + c, c % 2 == 0 ? byte & 15 : byte >> 4);
    }
  return packed;
}

Result<Shape> read_shape(const fb_xnnpack::XNNTensorValue& tensor) {
  Shape shape;
  const uint32_t rank = tensor.dims() ? tensor.dims()->size() : 0;
  if (tensor.num_dims() != rank) return InvalidModel("num_dims is ", tensor.num_dims(), ", dims has ", rank);
  if (!tensor.dims()) return shape;
  if (tensor.dims()->size() > static_cast<uint32_t>(Shape::kMaxRank))
    return InvalidModel("rank ", tensor.dims()->size(), ", at most ", Shape::kMaxRank, " is supported");
  for (uint32_t d : *tensor.dims()) shape.push_back(d);
  SMELT_TRY(shape.checked_elements());
  return shape;
}

}  // namespace

DType storage_type(XNNDatatype type) {
  using enum XNNDatatype;
  static constexpr std::pair<XNNDatatype, DType> kTypes[] = {
      {xnn_datatype_fp32, DType::kF32},   {xnn_datatype_pfp32, DType::kF32},   {xnn_datatype_fp16, DType::kF16},
      {xnn_datatype_bf16, DType::kBF16},  {xnn_datatype_qint8, DType::kI8},    {xnn_datatype_qcint8, DType::kI8},
      {xnn_datatype_qdint8, DType::kI8},  {xnn_datatype_qpint8, DType::kI8},   {xnn_datatype_quint8, DType::kU8},
      {xnn_datatype_qint32, DType::kI32}, {xnn_datatype_qcint32, DType::kI32}, {xnn_datatype_int32, DType::kI32},
      {xnn_datatype_qcint4, DType::kU4},  {xnn_datatype_qbint4, DType::kU4}};
  for (const auto& [datatype, dtype] : kTypes)
    if (datatype == type) return dtype;
  return DType::kInvalid;
}

Result<XnnValue> read_xnn_value(const fb_xnnpack::XNNGraph& table, const fb_xnnpack::XValue& entry,
                                const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget) {
  const auto* quantized = entry.xvalue_union_as_XNNQuantizedTensorValue();
  const auto* tensor = quantized ? quantized->tensor_value() : entry.xvalue_union_as_XNNTensorValue();
  if (!tensor) return InvalidModel("it has no tensor");
  constexpr uint32_t kInput = 1, kOutput = 2;
  XnnValue v;
  v.id = tensor->id_out();
  v.external_id = tensor->external_id();
  v.input = (tensor->flags() & kInput) != 0;
  v.output = (tensor->flags() & kOutput) != 0;
  if (v.id == kXnnInvalidId) return InvalidModel("id ", v.id, " is reserved for absent values");
  v.datatype = tensor->datatype();
  v.type.dtype = storage_type(v.datatype);
  if (v.type.dtype == DType::kInvalid)
    return InvalidModel("data type ", static_cast<int>(tensor->datatype()), " is unknown");
  if (tensor->dq_datatype() != XNNDatatype::xnn_datatype_invalid &&
      storage_type(tensor->dq_datatype()) == DType::kInvalid)
    return InvalidModel("data type ", static_cast<int>(tensor->dq_datatype()), " of dynamic quantization is unknown");
  v.type.ranked = true;
  SMELT_ASSIGN(v.type.shape, read_shape(*tensor));
  if (quantized) {
    SMELT_ASSIGN(Quantization q, read_quantization(table, *quantized, v.type, blob, parts, budget));
    v.type.quant = std::make_shared<const Quantization>(std::move(q));
  } else if (tensor->dq_datatype() != XNNDatatype::xnn_datatype_invalid) {
    if (tensor->dq_datatype() != XNNDatatype::xnn_datatype_qint8 || !v.input || !is_float(v.type.dtype))
      return InvalidModel("only a real external input is quantized dynamically, and only to int8");
    v.dynamic_on_entry = true;
  } else if (is_integer(v.type.dtype) && tensor->datatype() != XNNDatatype::xnn_datatype_int32) {
    return InvalidModel(fb_xnnpack::EnumNameXNNDatatype(tensor->datatype()), " without quantization parameters");
  }
  if (tensor->constant_buffer_idx() == 0) return v;
  if (v.input) return InvalidModel("it is constant and an external input");
  if (v.type.quant && v.type.quant->kind == Quantization::Kind::kPerToken)
    return InvalidModel("a dynamically quantized value can't be constant");
  SMELT_ASSIGN(const Bytes bytes, constant_bytes(table, tensor->constant_buffer_idx(), blob, parts));
  auto constant = is_four_bit(tensor->datatype())
                      ? four_bit_constant(v.type.shape, bytes, blob.owner, budget)
                      : view_constant(v.type.dtype, v.type.shape, bytes, blob.owner, budget);
  if (!constant.ok()) return constant.error().within(Cat("constant ", tensor->constant_buffer_idx()));
  v.constant = std::move(constant).value();
  v.constant.set_quant(v.type.quant);
  return v;
}

}  // namespace smelt::executorch
