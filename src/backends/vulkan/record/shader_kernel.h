#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"

namespace smelt::vulkan {

/// One binding of a ShaderKernel.
struct Arg {
  std::function<Result<Binding>(KernelRecorder&)> bind;
  int input = -1;       ///< the input of the node that the device reads as it is; -1: none
  bool faults = false;  ///< the word for faults: the push constant fault_code is set with it
};

inline Arg input(size_t i) {
  return {[i](KernelRecorder& r) { return r.input(i); }, static_cast<int>(i)};
}
/// Input i, or where the node lacks it the binding `other`, which the shader does not read then.
inline Arg input_or(bool present, size_t i, Arg other) { return present ? input(i) : std::move(other); }
inline Arg output(size_t i) {
  return {[i](KernelRecorder& r) -> Result<Binding> { return r.output(i); }};
}
inline Arg faults() {
  return {[](KernelRecorder& r) -> Result<Binding> { return r.faults(); }, -1, true};
}
/// The first `bytes` of the kernel's scratch memory.
inline Arg scratch(size_t bytes, bool written = true) {
  return {[=](KernelRecorder& r) -> Result<Binding> { return r.scratch(0, bytes, written); }};
}
/// Content that the kernel computed on the host. `what` names its kind. Kernels of a plan share small tables.
template <class T>
Arg table(const char* what, std::vector<T> content) {
  constexpr size_t kSmall = 8192;  // bytes
  const auto shared = std::make_shared<const std::vector<T>>(std::move(content));
  return {[what, shared](KernelRecorder& r) {
    const size_t bytes = shared->size() * sizeof(T);
    if (bytes <= kSmall) return r.table(what, std::span<const T>(*shared));
    return r.table(Cat(what, ' ', reinterpret_cast<uintptr_t>(shared.get())), bytes,
                   [&](void* to) { std::memcpy(to, shared->data(), bytes); });
  }};
}

/// A kernel that is one dispatch of a shader. It reads the inputs that are among its bindings.
class ShaderKernel final : public Kernel {
 public:
  using Images = std::vector<std::optional<ImageLayout>>;
  /// constants, push: words of specialization and push constants. fault_word: the push constant that is fault_code, or
  /// none if it is not below their number. The arguments are moved from.
  ShaderKernel(const Shader& shader, std::span<const uint32_t> constants, std::span<Arg> args, const Grid& grid,
               std::span<const uint32_t> push, size_t fault_word);
  const char* fault_text = nullptr;  ///< Kernel::fault(); nullptr: the default
  Images inputs, outputs;            ///< images among the operands; buffers where nullopt or missing
  bool gains_by_textures = false;    ///< Kernel::prefers_textures()
  size_t scratch_size = 0;           ///< bytes

  size_t scratch_bytes() const override { return scratch_size; }
  bool reads(size_t i) const override;
  const ImageLayout* input_image(size_t i) const override { return at(inputs, i); }
  const ImageLayout* output_image(size_t i) const override { return at(outputs, i); }
  bool prefers_textures() const override { return gains_by_textures; }
  const char* fault() const override { return fault_text ? fault_text : Kernel::fault(); }
  Status record(KernelRecorder& r) const override;

 private:
  static const ImageLayout* at(const Images& images, size_t i) {
    return i < images.size() && images[i] ? &*images[i] : nullptr;
  }
  const Shader& shader_;
  std::vector<uint32_t> constants_;
  Grid grid_;
  std::vector<Arg> args_;
  std::vector<uint32_t> push_;
  size_t fault_word_;  ///< of push_
};

/// A ShaderKernel of these arguments.
std::unique_ptr<ShaderKernel> make_shader_kernel(const Shader& shader, std::span<const uint32_t> constants,
                                                 std::span<Arg> args, const Grid& grid, std::span<const uint32_t> push,
                                                 size_t fault_word);

/// The kernel that runs a variant of a shader on a dispatch grid; the interface checks the number of bindings.
template <class Interface, size_t N>
std::unique_ptr<ShaderKernel> shader_kernel(shaders::Variant<Interface> shader,
                                            const typename Interface::Constants& constants, Arg (&&args)[N],
                                            const Grid& grid, const typename Interface::Push& push) {
  static_assert(N >= Interface::kMinBindings && N <= Interface::kMaxBindings);
  size_t fault_word = SIZE_MAX;
  if constexpr (requires { push.fault_code; })
    fault_word = offsetof(typename Interface::Push, fault_code) / sizeof(uint32_t);
  std::array<uint32_t, sizeof(push) / sizeof(uint32_t)> words;
  std::memcpy(words.data(), &push, sizeof(push));
  return make_shader_kernel(*shader, constants.to_words(), args, grid, words, fault_word);
}

/// shader_kernel() for elements: one invocation for each of `n` items.
template <class Interface, size_t N>
std::unique_ptr<ShaderKernel> shader_kernel(shaders::Variant<Interface> shader,
                                            const typename Interface::Constants& constants, Arg (&&args)[N], uint64_t n,
                                            const typename Interface::Push& push) {
  return shader_kernel(shader, constants, std::move(args), Grid::flat(n, constants.width), push);
}

/// The kernel that runs `first`, then `second` in the same scratch memory; just `first` if there is no second.
std::unique_ptr<Kernel> in_sequence(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second);

}  // namespace smelt::vulkan
