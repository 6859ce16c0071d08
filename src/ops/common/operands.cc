#include "ops/common/operands.h"

#include <cstring>
#include <type_traits>

#include "tensor/numeric.h"

namespace smelt {

Compute compute_of(DType dtype) {
  if (dtype == DType::kF64) return Compute::kDouble;
  if (is_complex(dtype)) return Compute::kComplex;
  if (is_integer(dtype) || dtype == DType::kBool) return Compute::kInteger;
  return Compute::kFloat;
}

Compute compute_of(const Tensor& a, const Tensor& b) {
  const Compute ca = a.quant() ? Compute::kFloat : compute_of(a.dtype());
  const Compute cb = b.quant() ? Compute::kFloat : compute_of(b.dtype());
  if (ca == Compute::kComplex || cb == Compute::kComplex) return Compute::kComplex;
  if (ca == Compute::kDouble || cb == Compute::kDouble) return Compute::kDouble;
  return ca == Compute::kInteger && cb == Compute::kInteger ? Compute::kInteger : Compute::kFloat;
}

namespace {
bool has_real_values(const Tensor& t) { return t.quant() && is_integer(t.dtype()); }
}  // namespace

Status real_values(const Tensor& t, float* out) {
  if (!has_real_values(t)) {
    to_floats(t, out);
    return Ok();
  }
  const Quantization& q = *t.quant();
  const int64_t n = t.elements();
  if (q.kind != Quantization::Kind::kPerToken) {
    dequantize(t, out);
    return Ok();
  }
  int64_t row = 1;
  for (int i = std::max(0, t.rank() - q.axis); i < t.rank(); ++i) row *= t.dim(i);
  const int64_t rows = row > 0 ? n / row : 0;
  if (q.scales.size() != 1 && static_cast<int64_t>(q.scales.size()) < rows)
    return InvalidInput("a dynamically quantized tensor has ", q.scales.size(), " scales for ", rows, " rows");
  if (q.zero_points.size() > 1 && static_cast<int64_t>(q.zero_points.size()) < rows)
    return InvalidInput("a dynamically quantized tensor has ", q.zero_points.size(), " zero points for ", rows,
                        " rows");
  to_floats(t, out);
  for (int64_t r = 0; r < rows; ++r) {
    const float scale = q.scale(r), zero = static_cast<float>(q.zero_point(r));
    for (int64_t i = r * row; i < (r + 1) * row; ++i) out[i] = scale * (out[i] - zero);
  }
  return Ok();
}

namespace {

template <class T>
bool is_type(DType dtype) {
  if constexpr (std::is_same_v<T, float>) return dtype == DType::kF32;
  if constexpr (std::is_same_v<T, double>) return dtype == DType::kF64;
  if constexpr (std::is_same_v<T, uint32_t>) return dtype == DType::kI32 || dtype == DType::kU32;
  if constexpr (std::is_same_v<T, uint64_t>) return dtype == DType::kI64 || dtype == DType::kU64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return dtype == DType::kC128;
  return false;
}

template <class S, class T>
void widen(const Tensor& t, T* out) {
  const S* in = t.data<S>();
  for (int64_t i = 0, n = t.elements(); i < n; ++i) out[i] = static_cast<T>(static_cast<int64_t>(in[i]));
}

/// The tensor's integers modulo 2^bits of T.
template <class T>
void widen_integers(const Tensor& t, T* out) {
  switch (t.dtype()) {
    case DType::kI8:
      return widen<int8_t>(t, out);
    case DType::kU8:
    case DType::kBool:
      return widen<uint8_t>(t, out);
    case DType::kI16:
      return widen<int16_t>(t, out);
    case DType::kU16:
      return widen<uint16_t>(t, out);
    case DType::kI32:
      return widen<int32_t>(t, out);
    case DType::kU32:
      return widen<uint32_t>(t, out);
    case DType::kI64:
    case DType::kU64:
      return widen<int64_t>(t, out);
    default:
      for (int64_t i = 0, n = t.elements(); i < n; ++i) out[i] = static_cast<T>(get_int(t, i));
  }
}

template <class T>
Status convert(KernelContext& ctx, const Tensor& t, T* out) {
  if (t.dtype() == DType::kString || t.dtype() == DType::kInvalid)
    return InvalidInput("a numeric tensor is expected, got ", to_string(t.dtype()));
  const int64_t n = t.elements();
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if (t.dtype() == DType::kC64) {
      const auto* in = t.data<std::complex<float>>();
      for (int64_t i = 0; i < n; ++i) out[i] = in[i];
    } else if (t.dtype() == DType::kC128) {
      std::memcpy(static_cast<void*>(out), t.raw(), t.bytes());
    } else {
      SMELT_ASSIGN(const double* in, operand<double>(ctx, t));
      for (int64_t i = 0; i < n; ++i) out[i] = in[i];
    }
    return Ok();
  } else {
    if (is_complex(t.dtype())) return InvalidInput("a real tensor is expected, got ", to_string(t.dtype()));
    if constexpr (std::is_same_v<T, float>) {
      return real_values(t, out);
    } else if constexpr (std::is_same_v<T, double>) {
      if (has_real_values(t)) {
        SMELT_ASSIGN(float* const real, scratch_array<float>(ctx, n));
        SMELT_TRY(real_values(t, real));
        for (int64_t i = 0; i < n; ++i) out[i] = real[i];
      } else {
        to_doubles(t, out);
      }
    } else {
      widen_integers(t, out);
    }
    return Ok();
  }
}

}  // namespace

template <class T>
Result<T*> operand_copy(KernelContext& ctx, const Tensor& t) {
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, t.elements()));
  SMELT_TRY(convert(ctx, t, out));
  return out;
}

template <class T>
Result<const T*> operand(KernelContext& ctx, const Tensor& t) {
  constexpr bool integer = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;
  if (is_type<T>(t.dtype()) && (integer || !has_real_values(t))) return t.data<T>();
  SMELT_ASSIGN(T* const copy, operand_copy<T>(ctx, t));
  return static_cast<const T*>(copy);
}

#define SMELT_INSTANTIATE(T)                                          \
  template Result<T*> operand_copy<T>(KernelContext&, const Tensor&); \
  template Result<const T*> operand<T>(KernelContext&, const Tensor&);
SMELT_INSTANTIATE(float)
SMELT_INSTANTIATE(double)
SMELT_INSTANTIATE(uint32_t)
SMELT_INSTANTIATE(uint64_t)
SMELT_INSTANTIATE(std::complex<double>)
#undef SMELT_INSTANTIATE

void store(const float* values, Tensor& out) {
  if (out.quant() && is_integer(out.dtype()))
    quantize(values, out);
  else
    from_floats(values, out);
}

void store(const double* values, Tensor& out) {
  if (!out.quant() || !is_integer(out.dtype())) return from_doubles(values, out);
  Tensor real(DType::kF32, out.shape());
  for (int64_t i = 0, n = out.elements(); i < n; ++i) real.data<float>()[i] = static_cast<float>(values[i]);
  quantize(real.data<float>(), out);
}

void store(const uint64_t* values, Tensor& out) {
  if (is_integer(out.dtype()) || out.dtype() == DType::kBool) {
    from_ints(reinterpret_cast<const int64_t*>(values), out);
  } else {
    for (int64_t i = 0, n = out.elements(); i < n; ++i)
      set_double(out, i, static_cast<double>(static_cast<int64_t>(values[i])));
  }
}

void store(const std::complex<double>* values, Tensor& out) {
  const int64_t n = out.elements();
  if (out.dtype() == DType::kC64) {
    for (int64_t i = 0; i < n; ++i) out.data<std::complex<float>>()[i] = std::complex<float>(values[i]);
  } else if (out.dtype() == DType::kC128) {
    std::memcpy(out.raw(), static_cast<const void*>(values), out.bytes());
  } else {
    for (int64_t i = 0; i < n; ++i) set_double(out, i, values[i].real());
  }
}

}  // namespace smelt
