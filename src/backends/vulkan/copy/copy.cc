#include "backends/vulkan/copy/strided_copy.h"

#include <cstring>

#include "backends/vulkan/core/type_checks.h"
#include "base/cat.h"
#include "ops/shape/copies.h"
#include "shaders/copy.h"
#include "shaders/copy_lookup.h"
#include "shaders/index_map.h"
#include "tensor/quant_params.h"

namespace smelt::vulkan {
namespace {

/// The shaders for elements of 8, 16, 32 and 64 bits.
constexpr shaders::Variant<shaders::Copy> kCopy[] = {shaders::copy_8, shaders::copy_16, shaders::copy_32,
                                                     shaders::copy_64};
constexpr shaders::Variant<shaders::IndexMap> kIndexMap[] = {shaders::index_map_8, shaders::index_map_16,
                                                             shaders::index_map_32, shaders::index_map_64};

/// Sees pairs of neighbours as elements of twice the width; false where they are not copied together.
bool pair_up(CopyStep& m) {
  Walk<2>& w = m.walk;
  if (w.rank == 0 || w.size[0] % 2 || w.stride[0][0] != 1 || w.stride[1][0] != 1 || m.x_offset % 2 || m.y_offset % 2)
    return false;
  for (uint32_t d = 1; d < w.rank; ++d)
    if (w.stride[0][d] % 2 || w.stride[1][d] % 2) return false;
  for (uint32_t d = 1; d < w.rank; ++d)
    for (auto& stride : w.stride) stride[d] /= 2;
  w.size[0] /= 2;
  w.n /= 2;
  m.x_offset /= 2;
  m.y_offset /= 2;
  return true;
}

class StridedCopyKernel final : public Kernel {
 public:
  StridedCopyKernel(int width, std::vector<CopyStep> steps, uint64_t fill)
      : width_(width), steps_(std::move(steps)), fill_(fill) {
    for (CopyStep& m : steps_) {
      widths_.push_back(width);
      while (m.in != CopyStep::kFill && m.index_map.empty() && m.lookup.empty() && widths_.back() < 3 && pair_up(m))
        ++widths_.back();
    }
  }
  bool reads(size_t i) const override {
    for (const CopyStep& m : steps_)
      if (m.in == i) return true;
    return false;
  }
  Status record(KernelRecorder& r) const override {
    for (size_t k = 0; k < steps_.size(); ++k) {
      const CopyStep& m = steps_[k];
      SMELT_ASSIGN(const Binding x, m.in == CopyStep::kFill ? fill_value(r) : r.input(m.in));
      if (!m.index_map.empty()) {
        SMELT_TRY(gather(r, m, x, k));
        continue;
      }
      const Grid grid = Grid::flat(m.walk.n, kWidth);
      if (m.lookup.empty()) {
        SMELT_TRY(r.run(kCopy[widths_[k]], {}, {x, r.output(m.out)}, grid,
                        {.walk = m.walk, .x_offset = m.x_offset, .y_offset = m.y_offset}));
      } else {
        SMELT_ASSIGN(const Binding lookup, upload(r, "lookup", k, m.lookup.data(), m.lookup.size()));
        SMELT_TRY(r.run(shaders::copy_lookup, {}, {x, lookup, r.output(m.out)}, grid,
                        {.walk = m.walk, .x_offset = m.x_offset, .y_offset = m.y_offset}));
      }
    }
    return Ok();
  }

 private:
  Result<Binding> fill_value(KernelRecorder& r) const {
    return r.table(Cat("fill ", fill_), sizeof fill_, [&](void* to) { std::memcpy(to, &fill_, sizeof fill_); });
  }
  Result<Binding> upload(KernelRecorder& r, const char* what, size_t k, const void* data, size_t bytes) const {
    return r.table(Cat(what, ' ', reinterpret_cast<uintptr_t>(this), ' ', k), bytes,
                   [&](void* to) { std::memcpy(to, data, bytes); });
  }
  Status gather(KernelRecorder& r, const CopyStep& m, const Binding& x, size_t k) const {
    SMELT_ASSIGN(const Binding map,
                 upload(r, "index map", k, m.index_map.data(), m.index_map.size() * sizeof(int32_t)));
    const auto n = static_cast<uint32_t>(m.index_map.size());
    return r.run(kIndexMap[width_], {}, {x, map, r.output(m.out)}, Grid::flat(n, kWidth), {.n = n});
  }

  int width_;
  std::vector<CopyStep> steps_;
  std::vector<int> widths_;  ///< by step, of the elements that it copies
  uint64_t fill_;
};

}  // namespace

std::unique_ptr<Kernel> make_copies(DType dtype, std::vector<CopyStep> steps, uint64_t fill) {
  const int width = element_width_index(dtype);
  if (width < 0) return nullptr;
  return std::make_unique<StridedCopyKernel>(width, std::move(steps), fill);
}

namespace {

CopyStep step_of(ElementCopy e) {
  const StridedCopy& c = e.strided;
  CopyStep step{.in = c.input, .out = c.output, .walk = {}, .index_map = std::move(e.index_map)};
  if (!step.index_map.empty()) return step;
  step.x_offset = static_cast<int32_t>(c.in_offset);
  step.y_offset = static_cast<int32_t>(c.out_offset);
  step.walk.n = static_cast<uint32_t>(c.elements());
  for (size_t d = c.dims.size(); d-- > 0; ++step.walk.rank) {
    step.walk.size[step.walk.rank] = static_cast<uint32_t>(c.dims[d]);
    step.walk.stride[0][step.walk.rank] = static_cast<int32_t>(c.in_strides[d]);
    step.walk.stride[1][step.walk.rank] = static_cast<int32_t>(c.out_strides[d]);
  }
  return step;
}

/// The fill value to all of output 0.
CopyStep fill_step(int64_t elements) {
  CopyStep step{.in = CopyStep::kFill, .walk = {}};
  step.walk.n = step.walk.size[0] = static_cast<uint32_t>(elements);
  step.walk.rank = 1;
  step.walk.stride[1][0] = 1;
  return step;
}

std::unique_ptr<Kernel> run_plan(const KernelSpec& spec, std::optional<CopyPlan> plan) {
  if (!plan) return nullptr;
  const bool rescales = (op_info(spec.node.op).flags & kQuantized) != 0;
  std::vector<CopyStep> steps;
  if (plan->fill.defined()) steps.push_back(fill_step(spec.outputs[0].shape.elements()));
  for (ElementCopy& e : plan->copies) {
    steps.push_back(step_of(std::move(e)));
    CopyStep& step = steps.back();
    if (rescales && !same_quant_params(spec.inputs[step.in].quant, spec.outputs[0].quant)) {
      const auto table = rescale_table(spec.inputs[step.in], spec.outputs[0]);
      if (!table || !step.index_map.empty()) return nullptr;
      step.lookup.assign(table->begin(), table->end());
    }
  }
  const Tensor& fill = plan->fill;
  return make_copies(spec.outputs[0].dtype, std::move(steps), fill.defined() ? bit_pattern(fill) : 0);
}

}  // namespace

std::unique_ptr<Kernel> make_strided_copy(const KernelSpec& spec) { return run_plan(spec, plan_strided_copies(spec)); }

std::unique_ptr<Kernel> make_index_map(const KernelSpec& spec) { return run_plan(spec, plan_index_map(spec)); }

}  // namespace smelt::vulkan
