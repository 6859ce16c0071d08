#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "runtime/plan.h"

namespace smelt {

/// Whether tensors without a hint are better textures on that device: on GPUs of phones, whose texture units have
/// caches that buffers lack.
bool prefers_textures(const vulkan::DeviceInfo& device);

/// What a step's inputs already are, where they are images.
using InputImages = std::vector<std::optional<vulkan::ImageLayout>>;

/// Makes the kernel of step k that gives its results as textures of that form; null: there is none.
using MakeTextureKernel = std::function<std::unique_ptr<vulkan::Kernel>(size_t k, const vulkan::TextureForm& form,
                                                                        const InputImages& inputs, const char** name)>;

/// The layout pass: decides for each step of kind kDevice whether its values are buffers or textures, and replaces
/// kernels and their names. A kernel's neighbours decide with it, so that values change their form as seldom as can be;
/// hints of the model and DeviceStorage::kTexture go before that.
void choose_storage(const Graph& graph, std::span<Step> steps, std::span<std::unique_ptr<vulkan::Kernel>> kernels,
                    DeviceStorage wish, const vulkan::DeviceInfo& device, const MakeTextureKernel& make);

}  // namespace smelt
