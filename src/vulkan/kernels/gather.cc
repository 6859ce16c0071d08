// Elements picked by indices that are computed on the device.
#include <array>

#include "ops/gather/gather.h"
#include "vulkan/kernel_recorder.h"
#include "vulkan/kernels/common.h"
#include "vulkan/strides.h"

namespace smelt::vulkan {
namespace {

constexpr const char* kShaders[][2] = {{"gather_8_i32", "gather_8_i64"},
                                       {"gather_16_i32", "gather_16_i64"},
                                       {"gather_32_i32", "gather_32_i64"},
                                       {"gather_64_i32", "gather_64_i64"}};
constexpr size_t kMaxTuple = 4;

struct Push {
  Walk<2> walk;
  uint32_t extent = 1, stride = 0;
  uint32_t fault_code = 0;
};

/// The dimensions that one tuple of indices picks in.
struct Picked {
  bool negative = true;
  std::vector<uint32_t> extents, strides;
};

class GatherKernel final : public Kernel {
 public:
  GatherKernel(const char* shader, size_t x, size_t indices, const Walk<2>& walk, const Picked& picked)
      : shader_(shader), x_(x), indices_(indices) {
    push_.walk = walk;
    push_.extent = picked.extents[0];
    push_.stride = picked.strides[0];
    constants_ = {kWidth, static_cast<uint32_t>(picked.extents.size()), picked.negative ? 1u : 0u, 1, 1, 1, 0, 0, 0};
    for (size_t k = 1; k < picked.extents.size(); ++k) {
      constants_[2 + k] = picked.extents[k];
      constants_[5 + k] = picked.strides[k];
    }
  }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(x_));
    SMELT_ASSIGN(const Binding indices, r.input(indices_));
    Dispatch d{shader_, constants_, {x, indices, r.output(0), r.faults()}};
    set_grid(d, push_.walk.n, kWidth);
    Push push = push_;
    push.fault_code = r.fault_code();
    return r.dispatch(d, push);
  }

 private:
  const char* shader_;
  size_t x_, indices_;
  Push push_;
  std::vector<uint32_t> constants_;
};

std::unique_ptr<Kernel> make(const KernelSpec& spec, size_t x, size_t indices, const Shape& space,
                             const std::array<Shape, 2>& strides, const Picked& picked) {
  const int width = width_index(spec.outputs[0].dtype);
  const DType index = spec.inputs[indices].dtype;
  if (width < 0 || spec.inputs[x].dtype != spec.outputs[0].dtype) return nullptr;
  if (index != DType::kI32 && index != DType::kI64) return nullptr;
  if (picked.extents.empty() || picked.extents.size() > kMaxTuple) return nullptr;
  const auto walk = Walk<2>::make(space, strides);
  if (!walk || walk->n != spec.outputs[0].shape.elements()) return nullptr;
  return std::make_unique<GatherKernel>(kShaders[width][index == DType::kI64 ? 1 : 0], x, indices, *walk, picked);
}

int64_t product(const Shape& s, int from, int to) {
  int64_t n = 1;
  for (int d = from; d < to; ++d) n *= s[d];
  return n;
}

uint32_t word(int64_t v) { return static_cast<uint32_t>(v); }

/// Slices of input 0 along `axis` by indices in another input, behind `batch` dimensions that both share.
std::unique_ptr<Kernel> make_slices(const KernelSpec& spec, size_t index_input, int axis, int batch, bool negative) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[index_input].shape;
  const int64_t batches = product(x, 0, batch), outer = product(x, batch, axis), extent = x[axis];
  const int64_t run = product(x, axis + 1, x.rank()), picks = indices.elements() / batches;
  return make(spec, 0, index_input, Shape{batches, outer, picks, run},
              {Shape{outer * extent * run, extent * run, 0, 1}, Shape{picks, 0, 1, 0}},
              {negative, {word(extent)}, {word(run)}});
}

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  const int batch = static_cast<int>(a.batch_dims < 0 ? a.batch_dims + indices.rank() : a.batch_dims);
  return make_slices(spec, 1, axis, batch, a.negative);
}

std::unique_ptr<Kernel> make_index_tensor(const KernelSpec& spec) {
  size_t only = 0;
  for (size_t i = 1; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) continue;
    if (only) return nullptr;
    only = i;
  }
  return only ? make_slices(spec, only, static_cast<int>(only) - 1, 0, true) : nullptr;
}

std::unique_ptr<Kernel> make_embedding_lookup(const KernelSpec& spec) {
  const Shape& table = spec.inputs[1].shape;
  const int64_t run = product(table, 1, table.rank());
  return make(spec, 1, 0, Shape{spec.inputs[0].shape.elements(), run}, {Shape{0, 1}, Shape{1, 0}},
              {false, {word(table[0])}, {word(run)}});
}

std::unique_ptr<Kernel> make_gather_elements(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  if (x.rank() == 0) return nullptr;
  const int axis = static_cast<int>(a.axis < 0 ? a.axis + x.rank() : a.axis);
  Shape strides = x.strides();
  const int64_t stride = strides[axis];
  strides[axis] = 0;
  return make(spec, 0, 1, indices, {strides, indices.strides()}, {a.negative, {word(x[axis])}, {word(stride)}});
}

std::unique_ptr<Kernel> make_gather_nd(const KernelSpec& spec) {
  const auto& a = spec.attrs<GatherAttrs>();
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  const int batch = static_cast<int>(a.batch_dims);
  const auto tuple = static_cast<int>(indices.back());
  const int64_t batches = product(x, 0, batch), tuples = product(indices, batch, indices.rank() - 1);
  const int64_t run = product(x, batch + tuple, x.rank());
  const Shape strides = x.strides();
  Picked picked{a.negative, {}, {}};
  for (int d = batch; d < batch + tuple; ++d) {
    picked.extents.push_back(word(x[d]));
    picked.strides.push_back(word(strides[d]));
  }
  return make(spec, 0, 1, Shape{batches, tuples, run},
              {Shape{product(x, batch, x.rank()), 0, 1}, Shape{tuples * tuple, tuple, 0}}, picked);
}

}  // namespace smelt::vulkan
