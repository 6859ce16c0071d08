#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/layout/program_node.h"

namespace smelt::vulkan {

/// True if tensors without a hint are better textures on that device: on GPUs of phones, whose texture units have
/// caches that buffers lack.
bool prefers_textures(const DeviceInfo& device);

/// What a node's inputs already are, where they are images.
using InputImages = std::vector<std::optional<ImageLayout>>;

/// Makes the kernel of node k that gives its results as textures of that form; null: there is none.
using MakeTextureKernel = std::function<std::unique_ptr<Kernel>(size_t k, const TextureForm& form,
                                                                const InputImages& inputs, const char** name)>;

/// The layout pass: decides for each node of Placement::kHere whether its values are buffers or textures, and replaces
/// kernels and their names. A kernel's neighbours decide with it, so that values change their form as seldom as can be;
/// hints of the model and DeviceStorage::kTexture take precedence.
void choose_storage(const Graph& graph, std::span<ProgramNode> nodes, DeviceStorage preference,
                    const DeviceInfo& device, const MakeTextureKernel& make);

}  // namespace smelt::vulkan
