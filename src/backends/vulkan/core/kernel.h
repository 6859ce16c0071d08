#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backends/vulkan/layout/image_layout.h"
#include "base/cat.h"
#include "ops/core/kernel_condition.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"

namespace smelt::vulkan {

/// Sizes and offsets as push constants hold them; the caller has checked that they fit.
inline int32_t i32(int64_t v) { return static_cast<int32_t>(v); }
inline uint32_t u32(int64_t v) { return static_cast<uint32_t>(v); }

class Device;
class KernelRecorder;

/// The node that a GPU kernel is chosen for, and what the session and device allow. Its spans and references are valid
/// during make_kernel() only.
struct KernelSpec : NodeSpec {
  const Device& device;
  TextureForm form = {};       ///< of the images that a texture kernel is to write
  std::string* why = nullptr;  ///< where refuse() writes
  /// The image that each input lies in, nullopt where unknown. The image of a view has the shape of what it views.
  std::span<const std::optional<ImageLayout>> images = {};
  bool fp16 = false;  ///< SessionOptions::fp16 on a device with float16 arithmetic: products may round to float16

  /// The spec of another node that runs as a part of this one, on the same device with the same options.
  KernelSpec part(const NodeSpec& of) const {
    KernelSpec p{of, device};
    p.fp16 = fp16;
    return p;
  }

  /// Returns nullptr and records why this kernel cannot run the node; `inspect` shows the last reason.
  std::nullptr_t refuse(const char* reason) const;
  template <class... Parts>
  std::nullptr_t refuse(const Parts&... parts) const {
    return why ? refuse(Cat(parts...).c_str()) : nullptr;
  }
};

/// A kernel with all shapes known. Making one does not touch the device; record() does.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Bytes of device memory that record() uses through KernelRecorder::scratch().
  virtual size_t scratch_bytes() const { return 0; }
  /// True if the device reads input i. False for constants that the kernel evaluated on the host (axes, pads) or packs
  /// itself: they are not uploaded as they are.
  virtual bool reads(size_t i) const {
    (void)i;
    return true;
  }
  /// True if constant input i may exceed the device's largest binding: the kernel binds slices of it.
  virtual bool binds_slices(size_t i) const {
    (void)i;
    return false;
  }
  /// The image that the kernel reads input i from, or writes output i to; null for a dense buffer.
  virtual const ImageLayout* input_image(size_t i) const {
    (void)i;
    return nullptr;
  }
  virtual const ImageLayout* output_image(size_t i) const {
    (void)i;
    return nullptr;
  }
  /// True if this texture kernel gains enough (it reads each element many times, as convolutions do) to pay for
  /// converting its operands to images.
  virtual bool prefers_textures() const { return false; }
  /// The error message of a run whose shader wrote KernelRecorder::faults().
  virtual const char* fault() const { return "an index is out of range"; }
  /// Records the dispatches of one run; uploads and packs weights.
  virtual Status record(KernelRecorder& r) const = 0;
};

/// Features of a device that a line of the kernel list may ask for (KernelCondition::features).
enum DeviceFeature : uint32_t {
  kFloat64 = 1,
  kInt64 = 2,
  kDotProduct = 4,          ///< integer dot products, fast or asked for: uses_integer_dot_product()
  kFp16Matrix = 8,          ///< cooperative matrices of float16
  kInt8Products = 16,       ///< integer dot products, or cooperative matrices of int8
  kEightLaneSubgroups = 32  ///< a processor with subgroups of eight lanes
};

/// One entry of the kernel list, backends/vulkan/core/kernels.inc.
struct KernelInfo {
  const char* name;  ///< "vulkan:NAME"
  Op op;
  const char* doc;
  KernelCondition condition;
  std::unique_ptr<Kernel> (*make)(const KernelSpec&);  ///< may assume the condition; nullptr: cannot run the node

  /// True if the node and the device meet the condition; else `why`, unless nullptr, says what is missing.
  bool applies(const KernelSpec& spec, std::string* why) const;
};

std::span<const KernelInfo> all_kernels();
std::span<const KernelInfo> all_texture_kernels();

/// The first buffer kernel of the list that can run the node, or one that runs it in wider element types; null
/// leaves the node to the host. A node with an operand that is empty, of a type that the device does not store, or
/// larger than its largest binding gets none. `chosen`, if given, receives the kernel's entry.
std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

/// The first texture kernel of the list that can run the node and writes images of spec.form, or null.
std::unique_ptr<Kernel> make_texture_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

/// The first buffer kernel of the list that can run the node, with element types as they are; checks no limits of the
/// device.
std::unique_ptr<Kernel> listed_kernel(const KernelSpec& spec, const KernelInfo** chosen = nullptr);

/// Why make_kernel() returned null: "no Vulkan kernel for Dft", "output 0 is string, which the device does not store",
/// the last reason that a kernel gave to KernelSpec::refuse(), or the condition that the operator's kernels have.
std::string refusal(const KernelSpec& spec);

}  // namespace smelt::vulkan
