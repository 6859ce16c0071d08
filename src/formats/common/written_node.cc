#include "formats/common/written_node.h"

#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt::formats {

std::optional<std::vector<int64_t>> WrittenNode::ints(int i, int64_t most) const {
  const Tensor* t = constant(i);
  if (!t || !is_integer(t->dtype()) || t->elements() > most) return std::nullopt;
  std::vector<int64_t> out(static_cast<size_t>(t->elements()));
  to_ints(*t, out.data());
  return out;
}

std::optional<double> WrittenNode::number(int i) const {
  const Tensor* t = constant(i);
  if (!t || t->elements() != 1 || t->dtype() == DType::kString || is_complex(t->dtype())) return std::nullopt;
  if (!t->quant()) return get_double(*t, 0);
  float v = 0;
  dequantize(*t, &v);
  return v;
}

QuantPtr linear_quant(const WrittenNode& w, bool limited) {
  const auto& a = w.attrs<QuantizeLinearAttrs>();
  const Tensor *scale = w.constant(1), *zero = w.constant(2);
  if (a.block != 0 || (a.quant_min != a.quant_max && !limited)) return nullptr;
  if (!scale || scale->rank() > 1 || (w.has(2) && !zero)) return nullptr;
  auto q = std::make_shared<Quantization>();
  for (int64_t i = 0; i < scale->elements(); ++i) {
    q->scales.push_back(static_cast<float>(get_double(*scale, i)));
    if (zero) q->zero_points.push_back(static_cast<int32_t>(get_int(*zero, i)));
  }
  if (scale->elements() > 1) {
    const ValueType& x = w.in_type(0);
    if (!x.ranked) return nullptr;
    q->kind = Quantization::Kind::kPerAxis;
    q->axis = static_cast<int>(a.axis < 0 ? a.axis + x.shape.rank() : a.axis);
  }
  return q;
}

bool moves_nothing(const Shape& shape, const std::vector<int64_t>& perm) {
  int64_t last = -1;
  for (const int64_t p : perm) {
    if (shape[static_cast<int>(p)] == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

}  // namespace smelt::formats
