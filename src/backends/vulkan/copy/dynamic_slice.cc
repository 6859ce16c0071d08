// Slices whose start is a dynamic operand.
#include "shaders/dynamic_slice.h"

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {
namespace {

constexpr int kMostDims = 8;

using Push = shaders::DynamicSlice::Push;
using Variant = shaders::Variant<shaders::DynamicSlice>;

/// The slice of x that starts at input 1; or, for `update`, x with input 1 written from input 2 on.
class DynamicSlice final : public Kernel {
 public:
  DynamicSlice(Variant shader, bool update, uint32_t words, const Push& push)
      : shader_(shader), update_(update), words_(words), push_(push) {}
  bool reads(size_t i) const override { return update_ || i < 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding start, r.input(update_ ? 2 : 1));
    if (!update_)
      return run_checked(r, shader_, {.start_words = words_}, {x, start, r.output(0), r.faults()}, push_.n, push_);
    SMELT_ASSIGN(const Binding part, r.input(1));
    return r.run(shader_, {.start_words = words_}, {x, start, r.output(0), part}, Grid::flat(push_.n, kWidth), push_);
  }

 private:
  Variant shader_;
  bool update_;
  uint32_t words_;
  Push push_;
};

/// `start`: the input that says where a slice of shape `part` begins.
std::unique_ptr<Kernel> make(const KernelSpec& spec, bool update, size_t start, const Shape& part) {
  static constexpr Variant kShaders[][2] = {{shaders::dynamic_slice_8, shaders::dynamic_update_slice_8},
                                            {shaders::dynamic_slice_16, shaders::dynamic_update_slice_16},
                                            {shaders::dynamic_slice_32, shaders::dynamic_update_slice_32},
                                            {shaders::dynamic_slice_64, shaders::dynamic_update_slice_64}};
  const Shape& x = spec.inputs[0].shape;
  const int width = element_width_index(spec.outputs[0].dtype), rank = x.rank();
  const uint32_t words = index_words(spec.inputs[start].dtype);
  if (width < 0 || words == 0 || rank < 1 || rank > kMostDims || part.rank() != rank) return nullptr;
  if (spec.inputs[0].dtype != spec.outputs[0].dtype || spec.inputs[start].shape.elements() != rank) return nullptr;
  Push push{.n = static_cast<uint32_t>(spec.outputs[0].shape.elements()),
            .rank = static_cast<uint32_t>(rank),
            .size = {},
            .part = {},
            .fault_code = 0};
  for (int d = 0; d < rank; ++d) {
    if (part[d] > x[d]) return nullptr;
    push.size[rank - 1 - d] = static_cast<uint32_t>(x[d]);
    push.part[rank - 1 - d] = static_cast<uint32_t>(part[d]);
  }
  return std::make_unique<DynamicSlice>(kShaders[width][update ? 1 : 0], update, words, push);
}

}  // namespace

std::unique_ptr<Kernel> make_dynamic_update_slice(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != spec.inputs[1].dtype) return nullptr;
  return make(spec, true, 2, spec.inputs[1].shape);
}

std::unique_ptr<Kernel> make_dynamic_slice(const KernelSpec& spec) {
  return make(spec, false, 1, spec.outputs[0].shape);
}

}  // namespace smelt::vulkan
