#include "formats/onnx/tensor.h"

#include <charconv>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/rules.h"
#include "tensor/numeric.h"

namespace smelt::onnx {

DType dtype_of(int64_t code) {
  static constexpr DType kTypes[] = {
      DType::kInvalid,    DType::kF32,    DType::kU8,         DType::kI8,   DType::kU16,  DType::kI16,
      DType::kI32,        DType::kI64,    DType::kString,     DType::kBool, DType::kF16,  DType::kF64,
      DType::kU32,        DType::kU64,    DType::kC64,        DType::kC128, DType::kBF16, DType::kF8E4M3FN,
      DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kU4,   DType::kI4,   DType::kF4E2M1,
      DType::kF8E8M0,     DType::kU2,     DType::kI2};
  return code > 0 && code < static_cast<int64_t>(std::size(kTypes)) ? kTypes[code] : DType::kInvalid;
}

Result<Shape> checked_shape(const std::vector<int64_t>& dims) {
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank))
    return InvalidModel("has rank ", dims.size(), ", at most ", Shape::kMaxRank, " supported");
  Shape shape{std::span<const int64_t>(dims)};
  if (auto n = shape.checked_elements(); !n.ok()) return n.error();
  return shape;
}

namespace {

size_t run_bytes(const Runs& runs) {
  size_t n = 0;
  for (const auto& r : runs) n += r.size();
  return n;
}

/// Joins runs of fixed-size values.
void join(const Runs& runs, void* out) {
  auto* p = static_cast<char*>(out);
  for (const auto& r : runs) {
    if (!r.empty()) std::memcpy(p, r.data(), r.size());
    p += r.size();
  }
}

size_t alignment(DType dtype) {
  switch (dtype) {
    case DType::kC64:
      return 4;
    case DType::kC128:
      return 8;
    default:
      return static_cast<size_t>(std::max(1, bit_width(dtype) / 8));
  }
}

Result<uint64_t> number(std::string_view key, std::string_view text) {
  uint64_t v = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || v > INT64_MAX)
    return InvalidModel("external data: ", key, " '", text, "' is not a number of bytes");
  return v;
}

}  // namespace

Result<Tensor> TensorReader::view_or_copy(DType dtype, const Shape& shape, const void* data, size_t bytes,
                                          std::shared_ptr<const void> owner) {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % alignment(dtype) == 0;
  constexpr size_t kSmall = 64, kWeights = 4096;  // bytes that are copied at once, and those that may never be
  if (aligned && bytes > kSmall) return Tensor::view(dtype, shape, data, std::move(owner));
  if (bytes > kWeights) return Tensor::unaligned_view(dtype, shape, data, std::move(owner));
  SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape, false));
  if (bytes) std::memcpy(t.raw(), data, bytes);
  release_pages(data, bytes);  // of a mapped file: the copy stands for them
  return t;
}

Result<Tensor> TensorReader::read_external(const TensorProto& proto, DType dtype, const Shape& shape) {
  std::string_view location;
  bool has_location = false;
  std::optional<uint64_t> offset, length;
  for (const auto& [key, value] : proto.external) {
    if (key == "location") {
      location = value;
      has_location = true;
    } else if (key == "offset") {
      SMELT_ASSIGN(offset, number(key, value));
    } else if (key == "length") {
      SMELT_ASSIGN(length, number(key, value));
    }
  }
  if (!has_location) return InvalidModel("external data: no location");
  if (dtype == DType::kString) return InvalidModel("external data: strings can't lie outside the model");
  if (source_.folder.empty()) return InvalidModel("external data in '", location, "', but no folder may hold it");
  const size_t want = Tensor::byte_size(dtype, shape.elements());
  auto found = files_.find(location);
  if (found == files_.end()) {
    SMELT_ASSIGN(auto file, map_below(source_.folder, std::string(location)));
    found = files_.emplace(std::string(location), std::move(file)).first;
  }
  const auto bytes = found->second->bytes();
  const uint64_t at = offset.value_or(0);
  if (!in_range(at, length.value_or(want), bytes.size()))
    return InvalidModel("external data: ", length.value_or(want), " bytes at offset ", at, " of '", location,
                        "', which has ", bytes.size());
  if (length && *length != want)
    return InvalidModel("external data: ", *length, " bytes given, shape ", shape.str(), " of ", to_string(dtype),
                        " needs ", want);
  return view_or_copy(dtype, shape, bytes.data() + at, want, found->second);
}

Result<Tensor> TensorReader::read_typed(const TensorProto& proto, DType dtype, const Shape& shape) {
  const int64_t n = shape.elements();
  const auto count = static_cast<size_t>(n);
  const auto wrong = [&](const char* field, size_t have, size_t want) {
    return InvalidModel(field, " holds ", have, " values, shape ", shape.str(), " needs ", want);
  };
  if (dtype == DType::kString) {
    if (proto.strings.size() != count) return wrong("string_data", proto.strings.size(), count);
    SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape));
    for (size_t i = 0; i < count; ++i) t.data<std::string>()[i] = std::string(proto.strings[i]);
    return t;
  }
  const bool floats = dtype == DType::kF32 || dtype == DType::kC64;
  if (floats || dtype == DType::kF64 || dtype == DType::kC128) {
    const Runs& runs = floats ? proto.floats : proto.doubles;
    const size_t have = run_bytes(runs), want = Tensor::byte_size(dtype, n);
    const size_t unit = floats ? 4 : 8;
    const auto failure = [&] { return wrong(floats ? "float_data" : "double_data", have / unit, want / unit); };
    if (have < want || (have > want && runs.size() != 1)) return failure();
    if (have > want) SMELT_TRY(breach(source_, Rule::kTensorLength, failure()));
    if (runs.size() == 1) return view_or_copy(dtype, shape, runs[0].data(), want, source_.owner);
    SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape, false));
    join(runs, t.raw());
    return t;
  }
  const bool wide = dtype == DType::kI64, large = dtype == DType::kU32 || dtype == DType::kU64;
  const Runs& runs = wide ? proto.int64s : large ? proto.uint64s : proto.int32s;
  const char* field = wide ? "int64_data" : large ? "uint64_data" : "int32_data";
  const int bits = bit_width(dtype);
  const size_t per_value = bits < 8 ? static_cast<size_t>(8 / bits) : 1;
  const size_t want = (count + per_value - 1) / per_value;
  if (run_bytes(runs) < want) return wrong(field, run_bytes(runs), want);
  std::vector<uint64_t> values;
  if (!decode_varints(runs, want, values) || values.size() != want)
    return InvalidModel(field, " does not hold the ", want, " values that shape ", shape.str(), " needs");
  SMELT_TRY(check_range(values, dtype));
  SMELT_ASSIGN(Tensor t, Tensor::allocate(dtype, shape));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (bits) {
      case 64:
        t.data<uint64_t>()[i] = values[i];
        break;
      case 32:
        t.data<uint32_t>()[i] = static_cast<uint32_t>(values[i]);
        break;
      case 16:
        t.data<uint16_t>()[i] = static_cast<uint16_t>(values[i]);
        break;
      default:
        t.data<uint8_t>()[i] = static_cast<uint8_t>(values[i]);
        break;
    }
  }
  if (dtype == DType::kBool)
    for (size_t i = 0; i < count; ++i) t.data<uint8_t>()[i] = t.data<uint8_t>()[i] != 0;
  return t;
}

/// int32_data and uint64_data hold values of narrower types. Bit patterns (float16, 4-bit pairs) may be written with or
/// without sign.
Status TensorReader::check_range(const std::vector<uint64_t>& values, DType dtype) const {
  const int bits = std::max(bit_width(dtype), 8);
  if (bits == 64) return Ok();
  const bool pattern = bit_width(dtype) < 8 || is_float(dtype), truth = dtype == DType::kBool;
  const bool positive = truth || (!pattern && int_min(dtype) == 0);
  const int64_t half = int64_t{1} << (bits - 1), lo = positive ? 0 : -half;
  const int64_t hi = truth ? 1 : positive || pattern ? 2 * half - 1 : half - 1;
  for (const uint64_t value : values) {
    const int64_t v = dtype == DType::kU32 ? static_cast<int64_t>(value) : static_cast<int32_t>(value);
    if (v < lo || v > hi)
      return breach(source_, Rule::kValueRange, InvalidModel("value ", v, " does not fit ", to_string(dtype)));
  }
  return Ok();
}

/// One field holds the values, or the file that the tensor names does.
Status TensorReader::check_fields(const TensorProto& t) const {
  const int fields = !t.raw.empty() + !t.floats.empty() + !t.int32s.empty() + !t.int64s.empty() + !t.doubles.empty() +
                     !t.uint64s.empty() + !t.strings.empty() + t.is_external;
  if (fields <= 1) return Ok();
  return breach(source_, Rule::kTensorFields, InvalidModel("has its values in ", fields, " places, 1 expected"));
}

Result<Tensor> TensorReader::read(const TensorProto& proto) {
  if (proto.is_segment) return Unsupported("a tensor in segments");
  SMELT_TRY(check_fields(proto));
  const DType dtype = dtype_of(proto.data_type);
  if (dtype == DType::kInvalid) return Unsupported("element type code ", proto.data_type);
  SMELT_ASSIGN(const Shape shape, checked_shape(proto.dims));
  if (proto.is_external) return read_external(proto, dtype, shape);
  if (!proto.has_raw) return read_typed(proto, dtype, shape);
  if (dtype == DType::kString) return InvalidModel("strings can't lie in raw_data");
  const size_t want = Tensor::byte_size(dtype, shape.elements());
  if (proto.raw.size() != want) {
    if (proto.raw.empty()) return read_typed(proto, dtype, shape);
    return InvalidModel("raw_data holds ", proto.raw.size(), " bytes, shape ", shape.str(), " of ", to_string(dtype),
                        " needs ", want);
  }
  SMELT_ASSIGN(Tensor t, view_or_copy(dtype, shape, proto.raw.data(), want, source_.owner));
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < want; ++i)
      if (static_cast<uint8_t>(proto.raw[i]) > 1) return InvalidModel("a bool is neither 0 nor 1");
  }
  return t;
}

Result<Tensor> TensorReader::read_sparse(const SparseTensorProto& proto, size_t max_bytes) {
  SMELT_ASSIGN(const Tensor values, read(proto.values));
  SMELT_ASSIGN(const Tensor indices, read(proto.indices));
  SMELT_ASSIGN(const Shape shape, checked_shape(proto.dims));
  if (!is_integer(indices.dtype())) return InvalidModel("sparse indices are ", to_string(indices.dtype()));
  if (values.rank() != 1)
    return InvalidModel("sparse values have shape ", values.shape().str(), ", one dimension expected");
  const int64_t n = values.dim(0);
  const bool linear = indices.rank() == 1;
  if (!(linear && indices.dim(0) == n) &&
      !(indices.rank() == 2 && indices.dim(0) == n && indices.dim(1) == shape.rank()))
    return InvalidModel("sparse indices have shape ", indices.shape().str(), " for ", n,
                        " values of a tensor of shape ", shape.str());
  if (Tensor::byte_size(values.dtype(), shape.elements()) > max_bytes)
    return LimitReached("the dense form of a sparse tensor of shape ", shape.str(), " is too large");
  SMELT_ASSIGN(Tensor dense, Tensor::allocate(values.dtype(), shape));
  const Shape strides = shape.strides();
  int64_t before = -1;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0;
    for (int k = 0; k < (linear ? 1 : shape.rank()); ++k) {
      const int64_t index = get_int(indices, linear ? i : i * shape.rank() + k);
      const int64_t end = linear ? shape.elements() : shape[k];
      if (index < 0 || index >= end) return InvalidModel("sparse index ", index, " is not in [0, ", end, ")");
      at += linear ? index : index * strides[k];
    }
    if (at <= before)
      SMELT_TRY(
          breach(source_, Rule::kSparseOrder, InvalidModel("sparse index ", i, " does not follow the one before")));
    before = at;
    if (dense.dtype() == DType::kString)
      dense.data<std::string>()[at] = values.data<std::string>()[i];
    else if (const size_t width = static_cast<size_t>(bit_width(dense.dtype())) / 8; width > 0)
      std::memcpy(dense.data<char>() + static_cast<size_t>(at) * width,
                  values.data<char>() + static_cast<size_t>(i) * width, width);
    else
      set_int(dense, at, get_int(values, i));
  }
  return dense;
}

}  // namespace smelt::onnx
