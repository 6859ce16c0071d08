#include "formats/common/int8_form.h"

#include <algorithm>
#include <memory>

namespace smelt::formats {

QuantPtr shifted_quant(const QuantPtr& quant, int32_t by) {
  auto q = std::make_shared<Quantization>(*quant);
  if (q->zero_points.empty()) q->zero_points.assign(1, 0);
  for (int32_t& z : q->zero_points) z += by;
  return q;
}

Tensor int8_of_uint8(const Tensor& t) {
  Tensor out(DType::kI8, t.shape());
  const auto* from = t.data<uint8_t>();
  std::transform(from, from + t.elements(), out.data<int8_t>(),
                 [](uint8_t byte) { return static_cast<int8_t>(byte ^ 0x80); });
  return out;
}

}  // namespace smelt::formats
