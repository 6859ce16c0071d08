#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backends/vulkan/layout/image_layout.h"
#include "base/cat.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt::vulkan {

class Device;
class KernelRecorder;

/// What a GPU kernel is chosen for. The spans and references are only valid during make_kernel().
struct KernelSpec : NodeSpec {
  const Device& device;
  TextureForm form = {};       ///< asked of kernels for textures
  std::string* why = nullptr;  ///< where refuse() writes
  /// Images that inputs already are, where known; a view's may be of another shape than its own.
  std::span<const std::optional<ImageLayout>> images = {};
  bool fp16 = false;  ///< SessionOptions::fp16, which the device can

  /// For a kernel that does a part of this one's work.
  KernelSpec part(const NodeSpec& of) const {
    KernelSpec p{of, device};
    p.fp16 = fp16;
    return p;
  }

  /// Null, for make_NAME() to return, with a cause that is more than that another kernel is to be chosen. The last
  /// one counts.
  template <class... Parts>
  std::nullptr_t refuse(const Parts&... parts) const {
    if (why) *why = Cat(parts...);
    return nullptr;
  }
};

/// A prepared kernel: knows all shapes; made without touching the device.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Device memory that record() asks for with KernelRecorder::scratch().
  virtual size_t scratch_bytes() const { return 0; }
  /// Whether the content of input i is read on the device. Parameters that the kernel took from
  /// KernelSpec::constant() (axes, pads) say no and are never uploaded.
  virtual bool reads(size_t i) const {
    (void)i;
    return true;
  }
  /// Whether constant input i may lie beyond the largest binding: the kernel binds pieces of it.
  virtual bool cuts(size_t i) const {
    (void)i;
    return false;
  }
  /// How an operand lies while the kernel runs: null, a dense buffer.
  virtual const ImageLayout* input_image(size_t i) const {
    (void)i;
    return nullptr;
  }
  virtual const ImageLayout* output_image(size_t i) const {
    (void)i;
    return nullptr;
  }
  /// Whether textures are worth a change of form around a kernel for textures: sums over neighbourhoods, which read an
  /// element many times.
  virtual bool prefers_textures() const { return false; }
  /// What it means that a shader set KernelRecorder::faults().
  virtual const char* fault() const { return "an index is out of range"; }
  /// Records the dispatches of one run; uploads and packs weights.
  virtual Status record(KernelRecorder& r) const = 0;
};

/// One entry of the kernel list, backends/vulkan/core/kernels.inc.
struct KernelInfo {
  const char* name;  ///< "vulkan:NAME"
  Op op;
  const char* doc;
  std::unique_ptr<Kernel> (*make)(const KernelSpec&);  ///< null: the kernel does not apply
};

std::span<const KernelInfo> all_kernels();
std::span<const KernelInfo> all_texture_kernels();

/// The first kernel of the list that applies to the node, or null: then the CPU runs it. Tensors that the device can't
/// store, empty ones and ones beyond its binding size are never given to a kernel.
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

/// The same for textures of spec.form, in which its results shall lie.
std::unique_ptr<Kernel> make_texture_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

/// The same among the lines of the list alone, element types as they are. Checks no bounds of the device.
std::unique_ptr<Kernel> listed_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);
/// Why make_kernel() gave none: "no Vulkan kernel for Dft", "output 0 is string, which the device does not store", or
/// what a kernel of the list said with KernelSpec::refuse().
std::string refusal(const KernelSpec& spec);

#define SMELT_GPU_KERNEL(name, op, doc) std::unique_ptr<Kernel> make_##name(const KernelSpec& spec);
#define SMELT_TEXTURE_KERNEL SMELT_GPU_KERNEL
#include "backends/vulkan/core/kernels.inc"
#undef SMELT_GPU_KERNEL
#undef SMELT_TEXTURE_KERNEL

}  // namespace smelt::vulkan
