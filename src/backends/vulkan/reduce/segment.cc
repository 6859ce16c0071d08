// Rows combined by segment ids.
#include "shaders/segment.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/index.h"
#include "ops/reduce/reduce.h"

namespace smelt::vulkan {
namespace {

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
  if (!combine || ids.shape.rank() < 1 || ids.shape.rank() > x.shape.rank()) return nullptr;
  for (int d = 0; d < ids.shape.rank(); ++d)
    if (ids.shape[d] != x.shape[d]) return nullptr;
  const int64_t count = ids.shape.elements(), n = y.shape.elements();
  if (count > kMaxLoopIterations || count * n > (int64_t{1} << 32))
    return spec.refuse(count, " rows to ", y.shape.str());
  const int64_t row = product(x.shape, ids.shape.rank(), x.shape.rank());
  auto kernel =
      shader_kernel(x.dtype == DType::kF32 ? shaders::segment_f32 : shaders::segment_i32,
                    {.combine = *combine, .words = words, .sorted = a.sorted},
                    {input(0), input(1), faults(), output(0)}, static_cast<uint64_t>(n),
                    {.n = u32(n), .row = u32(row), .count = u32(count), .segments = i32(y.shape[0]), .fault_code = 0});
  kernel->fault_text = "a segment id is not below the number of segments, or does not ascend";
  return kernel;
}

}  // namespace smelt::vulkan
