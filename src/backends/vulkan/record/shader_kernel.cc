#include "backends/vulkan/record/shader_kernel.h"

#include <algorithm>

namespace smelt::vulkan {

bool ShaderKernel::reads(size_t i) const {
  return std::any_of(args_.begin(), args_.end(), [i](const Arg& a) { return a.input == static_cast<int>(i); });
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

}  // namespace smelt::vulkan
