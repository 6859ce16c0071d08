#include "ops/recurrent/tf_cells.h"

#include <algorithm>

#include "tensor/numeric.h"

namespace smelt::tf_cells {

void Rows::accumulate(const Matrix& w, float* out) {
  if (!w.defined()) return;
  if (w.real) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t i = 0; i < w.rows; ++i) {
        const float *a = w.real + i * columns_, *b = values_ + r * columns_;
        float sum = 0;
        for (int64_t k = 0; k < columns_; ++k) sum += a[k] * b[k];
        out[r * w.rows + i] += sum;
      }
    return;
  }
  if (params_.empty()) {
    quantized_.resize(static_cast<size_t>(rows_ * columns_));
    for (int64_t r = 0; r < rows_; ++r)
      params_.push_back(quantize_row(values_ + r * columns_, columns_, asymmetric_, quantized_.data() + r * columns_));
  }
  for (int64_t r = 0; r < rows_; ++r) {
    const QuantParams& params = params_[static_cast<size_t>(r)];
    const float scale = params.scale * w.scale;
    for (int64_t i = 0; i < w.rows; ++i) {
      const int8_t *a = w.quantized + i * columns_, *b = quantized_.data() + r * columns_;
      int32_t sum = 0;
      for (int64_t k = 0; k < columns_; ++k) sum += a[k] * (b[k] - params.zero_point);
      out[r * w.rows + i] += static_cast<float>(sum) * scale;
    }
  }
}

Result<Matrix> matrix(const KernelContext& ctx, int i, int64_t rows, int64_t columns) {
  Matrix m;
  if (i < 0 || !ctx.has(i)) return m;
  const Tensor& t = ctx.input(i);
  if (t.rank() != 2 || (rows >= 0 && t.dim(0) != rows) || (columns >= 0 && t.dim(1) != columns))
    return InvalidModel("input ", i, " has shape ", t.shape().str(), ", [", rows, ",", columns, "] expected");
  m.rows = t.dim(0);
  m.columns = t.dim(1);
  switch (t.dtype()) {
    case DType::kF32:
      m.real = t.data<float>();
      return m;
    case DType::kI8:
    case DType::kU8:
      if (!t.quant()) return InvalidModel("input ", i, " is ", to_string(t.dtype()), " without quantization");
      m.quantized = t.data<int8_t>();
      m.scale = t.quant()->scale();
      return m;
    case DType::kF16:
    case DType::kBF16:
      m.widened.resize(static_cast<size_t>(t.elements()));
      to_floats(t, m.widened.data());
      m.real = m.widened.data();
      return m;
    default:
      return Unsupported("input ", i, " is ", to_string(t.dtype()));
  }
}

Result<std::vector<float>> vector(const KernelContext& ctx, int i, int64_t n) {
  std::vector<float> out;
  if (i < 0 || !ctx.has(i)) return out;
  const Tensor& t = ctx.input(i);
  if (t.elements() != n) return InvalidModel("input ", i, " has shape ", t.shape().str(), ", ", n, " entries expected");
  out.resize(static_cast<size_t>(n));
  if (t.dtype() == DType::kU8 && t.quant()) {
    for (int64_t k = 0; k < n; ++k)
      out[static_cast<size_t>(k)] = t.quant()->scale() * static_cast<float>(t.data<int8_t>()[k]);
  } else if (t.quant()) {
    dequantize(t, out.data());
  } else if (is_float(t.dtype())) {
    to_floats(t, out.data());
  } else {
    return Unsupported("input ", i, " is ", to_string(t.dtype()));
  }
  return out;
}

Result<std::vector<float>> state(const KernelContext& ctx, int i, int64_t n) {
  SMELT_ASSIGN(auto values, vector(ctx, i, n));
  if (values.empty() && n > 0) return InvalidModel("state input ", i, " is absent");
  return values;
}

void write_state(KernelContext& ctx, int output, const std::vector<float>& values) {
  if (ctx.wants(output)) from_floats(values.data(), ctx.output(output));
}

void Walk::gather(const float* x, int64_t t, float* out) const {
  for (int64_t b = 0; b < batch; ++b)
    std::copy_n(x + (time_major ? t * batch + b : b * time + t) * features, features, out + b * features);
}

void Walk::scatter(const float* rows, int64_t n, int64_t t, float* y, int64_t stride, int64_t offset) const {
  for (int64_t b = 0; b < batch; ++b)
    std::copy_n(rows + b * n, n, y + (time_major ? t * batch + b : b * time + t) * stride + offset);
}

Result<Walk> walk_of(const Tensor& x, bool sequence, bool time_major) {
  Walk w;
  if (x.rank() == 3 && sequence) {
    w.time_major = time_major;
    w.time = x.dim(time_major ? 0 : 1);
    w.batch = x.dim(time_major ? 1 : 0);
  } else if (x.rank() == 2) {
    w.batch = x.dim(0);
  } else {
    return InvalidModel("the input has shape ", x.shape().str(), ", rank ", sequence ? 3 : 2, " expected");
  }
  w.features = x.shape().back();
  return w;
}

ValueType like_input(const ValueType& x, int64_t features) {
  ValueType y = ValueType::tensor(x.dtype);
  if (!x.ranked || x.shape.rank() == 0) return y;
  y.ranked = true;
  y.shape = x.shape;
  y.shape[y.shape.rank() - 1] = features;
  return y;
}

}  // namespace smelt::tf_cells
