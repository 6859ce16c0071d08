#pragma once

#include <memory>

#include "backends/vulkan/layout/image_layout.h"
#include "smelt/result.h"

namespace smelt::vulkan {

class Device;
class Image;
class Recorder;
struct Binding;

/// An image without memory (backends/vulkan/device/memory.h), for those who see no Vulkan types.
Result<std::shared_ptr<Image>> make_image(const std::shared_ptr<Device>& device, const ImageLayout& layout);
size_t image_bytes(const Image& image);
size_t image_alignment(const Image& image);

/// Brings elements, in the order of their tensors, from a buffer (no layout) or an image to another. At least one is an
/// image.
Status record_conversion(Recorder& recorder, const ImageLayout* from_layout, const Binding& from,
                         const ImageLayout* to_layout, Binding to);

}  // namespace smelt::vulkan
