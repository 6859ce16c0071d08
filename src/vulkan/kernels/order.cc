// TopK and Sort of short rows.
#include <bit>

#include "ops/common/index.h"
#include "ops/sort/sort.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kMaxSlots = 1024;  // of shaders/order.comp

struct Push {
  uint32_t rows, extent, inner, keep;
};

class OrderKernel final : public Kernel {
 public:
  OrderKernel(const char* shader, std::vector<uint32_t> constants, const Push& push)
      : shader_(shader), constants_(std::move(constants)), push_(push) {}
  bool reads(size_t i) const override { return i == 0; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    const bool indices = constants_[3] > 0, values = constants_[4] != 0;
    const Binding any = r.output(values ? 0 : 1);
    Dispatch d{shader_, constants_, {x, any, indices ? r.output(1) : any}};
    set_grid(d, push_.rows, 1);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  std::vector<uint32_t> constants_;
  Push push_;
};

const char* order_shader(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "order_f32";
    case DType::kF16:
      return "order_f16";
    case DType::kI32:
      return "order_i32";
    case DType::kI64:
      return "order_i64";
    case DType::kI8:
      return "order_i8";
    case DType::kU8:
      return "order_u8";
    case DType::kI16:
      return "order_i16";
    default:
      return nullptr;
  }
}

std::unique_ptr<Kernel> make_order(const KernelSpec& spec, int64_t axis, bool descending) {
  const Shape& in = spec.inputs[0].shape;
  const char* shader = order_shader(spec.inputs[0].dtype);
  const bool values = wanted(spec, 0), indices = wanted(spec, 1);
  if (!shader || (spec.inputs[0].dtype == DType::kI64 && !spec.device.info().int64)) return nullptr;
  if (in.rank() == 0 || (!values && !indices)) return nullptr;
  const auto a = normalize_axis(axis, in.rank());
  if (!a.ok() || in[*a] > kMaxSlots) return nullptr;
  if (values && spec.outputs[0].dtype != spec.inputs[0].dtype) return nullptr;
  const uint32_t words = indices ? whole_words(spec.outputs[1].dtype) : 0;
  if (indices && words == 0) return nullptr;
  const AxisView v = axis_view(in, *a);
  const int64_t keep = spec.outputs[values ? 0 : 1].shape[*a];
  if (keep < 1 || keep > v.extent) return nullptr;
  const auto slots = std::max(2u, std::bit_ceil(static_cast<uint32_t>(v.extent)));
  return std::make_unique<OrderKernel>(
      shader, std::vector<uint32_t>{kWidth, slots, descending ? 1u : 0u, words, values ? 1u : 0u},
      Push{static_cast<uint32_t>(v.outer * v.inner), static_cast<uint32_t>(v.extent), static_cast<uint32_t>(v.inner),
           static_cast<uint32_t>(keep)});
}

}  // namespace

std::unique_ptr<Kernel> make_top_k(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<TopKAttrs>();
  return spec.constant(1) && !attrs.torch_order ? make_order(spec, attrs.axis, attrs.largest) : nullptr;
}

std::unique_ptr<Kernel> make_sort(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SortAttrs>();
  return make_order(spec, attrs.axis, attrs.descending);
}

}  // namespace smelt::vulkan
