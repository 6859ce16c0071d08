#include "backends/vulkan/record/shader_kernel.h"

#include <algorithm>
#include <iterator>

namespace smelt::vulkan {
namespace {

class KernelSequence final : public Kernel {
 public:
  KernelSequence(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  size_t scratch_bytes() const override { return std::max(first_->scratch_bytes(), second_->scratch_bytes()); }
  bool reads(size_t i) const override { return first_->reads(i) || second_->reads(i); }
  const char* fault() const override { return first_->fault(); }
  Status record(KernelRecorder& r) const override {
    SMELT_TRY(first_->record(r));
    return second_->record(r);
  }

 private:
  std::unique_ptr<Kernel> first_, second_;
};

}  // namespace

ShaderKernel::ShaderKernel(const Shader& shader, std::span<const uint32_t> constants, std::span<Arg> args,
                           const Grid& grid, std::span<const uint32_t> push, size_t fault_word)
    : shader_(shader),
      constants_(constants.begin(), constants.end()),
      grid_(grid),
      args_(std::make_move_iterator(args.begin()), std::make_move_iterator(args.end())),
      push_(push.begin(), push.end()),
      fault_word_(fault_word) {}

std::unique_ptr<ShaderKernel> make_shader_kernel(const Shader& shader, std::span<const uint32_t> constants,
                                                 std::span<Arg> args, const Grid& grid, std::span<const uint32_t> push,
                                                 size_t fault_word) {
  return std::make_unique<ShaderKernel>(shader, constants, args, grid, push, fault_word);
}

bool ShaderKernel::reads(size_t i) const {
  return std::ranges::any_of(args_, [i](const Arg& a) { return a.input == static_cast<int>(i); });
}

Status ShaderKernel::record(KernelRecorder& r) const {
  std::vector<Binding> bindings;
  std::vector<uint32_t> push = push_;
  for (const Arg& a : args_) {
    SMELT_ASSIGN(const Binding b, a.bind(r));
    bindings.push_back(b);
    if (a.faults && fault_word_ < push.size()) push[fault_word_] = r.fault_code();
  }
  return r.run(shader_, constants_, bindings, grid_, push);
}

std::unique_ptr<Kernel> in_sequence(std::unique_ptr<Kernel> first, std::unique_ptr<Kernel> second) {
  if (!second) return first;
  return std::make_unique<KernelSequence>(std::move(first), std::move(second));
}

}  // namespace smelt::vulkan
