#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {
namespace {

constexpr const char* kShaders[] = {"where_8", "where_16", "where_32", "where_64"};

class WhereKernel final : public Kernel {
 public:
  WhereKernel(const char* shader, const Walk<3>& walk) : shader_(shader), walk_(walk) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding c, r.input(0));
    SMELT_ASSIGN(const Binding a, r.input(1));
    SMELT_ASSIGN(const Binding b, r.input(2));
    Dispatch d{shader_, {kWidth}, {c, a, b, r.output(0)}};
    set_grid(d, walk_.n, kWidth);
    return r.dispatch(d, walk_);
  }

 private:
  const char* shader_;
  Walk<3> walk_;
};

/// The layout of where_texture.comp.
struct WhereTexturePush {
  GpuSize a, b, y;
  GpuSize c_stride;
  uint32_t n;
};

class WhereTexture final : public TextureKernel {
 public:
  WhereTexture(const ImageLayout& a, const ImageLayout& b, const ImageLayout& y, const GpuSize& c_stride)
      : TextureKernel({std::nullopt, a, b}, y),
        push_{a.size, b.size, y.size, c_stride, static_cast<uint32_t>(y.count())} {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding c, r.input(0));
    SMELT_ASSIGN(const Binding a, r.input(1));
    SMELT_ASSIGN(const Binding b, r.input(2));
    return dispatch(r, "where", {packed()}, {c, a, b, r.output(0)}, push_.n, push_);
  }

 private:
  WhereTexturePush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_where_texture(const KernelSpec& spec) {
  if (spec.inputs[0].dtype != DType::kBool || !spec.device.stores(DType::kBool) ||
      !unquantized_floats(spec, {1, 2}, {0}))
    return nullptr;
  const auto a = image_of(spec, spec.inputs[1]), b = image_of(spec, spec.inputs[2]),
             y = image_of(spec, spec.outputs[0]);
  if (!a || !b || !y) return nullptr;
  return std::make_unique<WhereTexture>(*a, *b, *y,
                                        image_strides(broadcast_strides(spec.inputs[0].shape, spec.outputs[0].shape)));
}

std::unique_ptr<Kernel> make_where(const KernelSpec& spec) {
  const Shape& out = spec.outputs[0].shape;
  const DType dtype = spec.outputs[0].dtype;
  const int width = element_width_index(dtype);
  if (spec.inputs[0].dtype != DType::kBool || !spec.device.stores(DType::kBool) || width < 0) return nullptr;
  if (spec.inputs[1].dtype != dtype || spec.inputs[2].dtype != dtype) return nullptr;
  const auto walk =
      Walk<3>::make(out, {broadcast_strides(spec.inputs[0].shape, out), broadcast_strides(spec.inputs[1].shape, out),
                          broadcast_strides(spec.inputs[2].shape, out)});
  if (!walk) return nullptr;
  return std::make_unique<WhereKernel>(kShaders[width], *walk);
}

}  // namespace smelt::vulkan
