#include "shaders/where.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "shaders/where_texture.h"

namespace smelt::vulkan {
namespace {

class WhereKernel final : public Kernel {
 public:
  WhereKernel(shaders::Variant<shaders::Where> shader, const Walk<3>& walk) : shader_(shader), walk_(walk) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding c, r.input(0));
    SMELT_ASSIGN(const Binding a, r.input(1));
    SMELT_ASSIGN(const Binding b, r.input(2));
    return r.run(shader_, {}, {c, a, b, r.output(0)}, Grid::flat(walk_.n, kWidth), {.walk = walk_});
  }

 private:
  shaders::Variant<shaders::Where> shader_;
  Walk<3> walk_;
};

class WhereTexture final : public TextureKernel {
 public:
  WhereTexture(const ImageLayout& a, const ImageLayout& b, const ImageLayout& y, const GpuSize& c_stride)
      : TextureKernel({std::nullopt, a, b}, y),
        push_{.a_size = a.size,
              .b_size = b.size,
              .y_size = y.size,
              .c_stride = c_stride,
              .n = static_cast<uint32_t>(y.count())} {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding c, r.input(0));
    SMELT_ASSIGN(const Binding a, r.input(1));
    SMELT_ASSIGN(const Binding b, r.input(2));
    return run(r, {shaders::where_3d, shaders::where_2d}, {.packed = packed()}, {c, a, b, r.output(0)}, push_.n, push_);
  }

 private:
  shaders::WhereTexture::Push push_;
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
  constexpr shaders::Variant<shaders::Where> kShaders[] = {shaders::where_8, shaders::where_16, shaders::where_32,
                                                           shaders::where_64};
  return std::make_unique<WhereKernel>(kShaders[width], *walk);
}

}  // namespace smelt::vulkan
