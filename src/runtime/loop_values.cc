#include "runtime/loop_values.h"

#include <algorithm>
#include <cstring>

namespace smelt {

void LoopValues::begin(std::span<const int32_t> slots, const std::vector<Datum>& values) {
  values_.resize(slots.size());
  buffers_.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    values_[i] = slots[i] < 0 ? Datum{} : values[static_cast<size_t>(slots[i])];
    buffers_[i].current = kElsewhere;
  }
}

Status LoopValues::copy(size_t i, const Tensor& from) {
  DoubleBuffer& buffer = buffers_[i];
  const uint8_t next = buffer.current == 0 ? 1 : 0;
  Tensor& bytes = buffer.bytes[next];
  const size_t size = from.bytes();
  if (!bytes.defined() || bytes.bytes() < size) {
    const size_t grown = std::max<size_t>({size, 64, bytes.defined() ? 2 * bytes.bytes() : 0});
    SMELT_ASSIGN(bytes, Tensor::allocate(DType::kU8, {static_cast<int64_t>(grown)}, false));
  }
  if (size > 0) std::memcpy(bytes.raw(), from.raw(), size);
  Tensor kept = Tensor::view(from.dtype(), from.shape(), bytes.raw(), nullptr);
  kept.set_quant(from.quant());
  values_[i] = Datum(std::move(kept));
  buffer.current = next;
  return Ok();
}

Status LoopValues::take(std::span<const Datum> results, std::span<const Datum> kept) {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Datum& r = results[i];
    const Tensor& t = r.tensor;
    // The same storage again stays; what shares another value's is copied before that is rewritten.
    if (r.is_tensor() && values_[i].is_tensor() && t.raw() && t.raw() == values_[i].tensor.raw() &&
        t.dtype() == values_[i].tensor.dtype() && t.shape() == values_[i].tensor.shape() &&
        !t.owner() == !values_[i].tensor.owner())
      continue;
    const bool variable = r.is_tensor() && std::ranges::any_of(kept, [&](const Datum& d) {
                            return d.is_tensor() && d.tensor.raw() == t.raw();
                          });
    if (r.is_tensor() && t.dtype() == DType::kString) {
      values_[i] = Datum(t.clone());
      buffers_[i].current = kElsewhere;
    } else if (r.is_tensor() && (!t.owner() || variable)) {
      SMELT_TRY(copy(i, t));
    } else {
      values_[i] = r;
      buffers_[i].current = kElsewhere;
    }
  }
  return Ok();
}

Result<Datum> LoopValues::give(size_t i) {
  const Datum& d = values_[i];
  if (d.is_tensor() && !d.tensor.owner() && d.tensor.raw() && buffers_[i].current == kElsewhere)
    SMELT_TRY(copy(i, Tensor(d.tensor)));
  return values_[i];
}

}  // namespace smelt
