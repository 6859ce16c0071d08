// Rows combined by segment ids.
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/reduce/reduce.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n, row, count;
  int32_t segments;
  uint32_t fault_code = 0;
};

class SegmentKernel final : public Kernel {
 public:
  SegmentKernel(const char* shader, std::vector<uint32_t> constants, const Push& push)
      : shader_(shader), constants_(std::move(constants)), push_(push) {}
  bool reads(size_t i) const override { return i < 2; }
  const char* fault() const override { return "a segment id is not below the number of segments, or does not ascend"; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding ids, r.input(1));
    return dispatch_checked(r, {shader_, constants_, {x, ids, r.faults(), r.output(0)}}, push_.n, push_);
  }

 private:
  const char* shader_;
  std::vector<uint32_t> constants_;
  Push push_;
};

/// The code of segment.comp.
std::optional<uint32_t> combine_code(Reduction fn) {
  switch (fn) {
    case Reduction::kSum:
      return 0;
    case Reduction::kProd:
      return 1;
    case Reduction::kMax:
      return 2;
    case Reduction::kMin:
      return 3;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_segment(const KernelSpec& spec) {
  const auto& a = spec.attrs<SegmentAttrs>();
  const ValueType &x = spec.inputs[0], &ids = spec.inputs[1], &y = spec.outputs[0];
  const uint32_t words = index_words(ids.dtype);
  const auto combine = combine_code(a.fn);
  if ((x.dtype != DType::kF32 && x.dtype != DType::kI32) || x.quant || y.dtype != x.dtype || y.quant) return nullptr;
  if (words == 0 || !combine || ids.shape.rank() < 1 || ids.shape.rank() > x.shape.rank()) return nullptr;
  for (int d = 0; d < ids.shape.rank(); ++d)
    if (ids.shape[d] != x.shape[d]) return nullptr;
  const int64_t count = ids.shape.elements(), n = y.shape.elements();
  if (count > kMaxLoopIterations || count * n > (int64_t{1} << 32))
    return spec.refuse(count, " rows to ", y.shape.str());
  const int64_t row = product(x.shape, ids.shape.rank(), x.shape.rank());
  return std::make_unique<SegmentKernel>(x.dtype == DType::kF32 ? "segment_f32" : "segment_i32",
                                         std::vector<uint32_t>{kWidth, *combine, words, a.sorted ? 1u : 0u},
                                         Push{static_cast<uint32_t>(n), static_cast<uint32_t>(row),
                                              static_cast<uint32_t>(count), static_cast<int32_t>(y.shape[0])});
}

}  // namespace smelt::vulkan
