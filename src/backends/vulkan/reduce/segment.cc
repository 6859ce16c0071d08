// Rows combined by segment ids.
#include "shaders/segment.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/reduce/reduce.h"

namespace smelt::vulkan {
namespace {

class SegmentKernel final : public Kernel {
 public:
  SegmentKernel(shaders::Variant<shaders::Segment> shader, const shaders::Segment::Constants& constants,
                const shaders::Segment::Push& push)
      : shader_(shader), constants_(constants), push_(push) {}
  bool reads(size_t i) const override { return i < 2; }
  const char* fault() const override { return "a segment id is not below the number of segments, or does not ascend"; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding ids, r.input(1));
    return run_checked(r, shader_, constants_, {x, ids, r.faults(), r.output(0)}, push_.n, push_);
  }

 private:
  shaders::Variant<shaders::Segment> shader_;
  shaders::Segment::Constants constants_;
  shaders::Segment::Push push_;
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
  return std::make_unique<SegmentKernel>(
      x.dtype == DType::kF32 ? shaders::segment_f32 : shaders::segment_i32,
      shaders::Segment::Constants{.combine = *combine, .words = words, .sorted = a.sorted},
      shaders::Segment::Push{.n = static_cast<uint32_t>(n),
                             .row = static_cast<uint32_t>(row),
                             .count = static_cast<uint32_t>(count),
                             .segments = static_cast<int32_t>(y.shape[0]),
                             .fault_code = 0});
}

}  // namespace smelt::vulkan
