#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/record/weights.h"
#include "base/cat.h"

namespace smelt::vulkan {

/// The interface that Kernel::record() uses: operands as bindings, packed weights, and dispatches.
class KernelRecorder {
 public:
  struct Operand {
    Binding binding;                   ///< its memory; unset for constants
    const Tensor* constant = nullptr;  ///< its content if constant
    WeightStore* store = nullptr;      ///< that keeps the constant on the device
    /// For a constant that a kernel derived from another one: the bytes of the original, and a key of the derivation.
    const void* of = nullptr;
    const char* derived = "";
    /// Writes the derived content on first use; null if it is there.
    const std::function<void()>* compute = nullptr;
  };
  KernelRecorder(Recorder& recorder, std::span<const Operand> inputs, std::span<const Binding> outputs,
                 const Binding& scratch, const Binding& faults, uint32_t fault_code, bool* faulty,
                 WeightStore& plan_store)
      : recorder_(recorder),
        inputs_(inputs),
        outputs_(outputs),
        scratch_(scratch),
        faults_(faults),
        fault_code_(fault_code),
        faulty_(faulty),
        plan_store_(plan_store) {}

  /// Input i in its own element type and order; a constant is uploaded first.
  Result<Binding> input(size_t i) {
    const Operand& o = inputs_[i];
    if (o.of)
      return table(i, "itself", o.constant->bytes(),
                   [&](void* to) { std::memcpy(to, o.constant->raw(), o.constant->bytes()); });
    return o.constant ? o.store->raw(*o.constant) : Result<Binding>(o.binding);
  }
  Binding output(size_t i) {
    Binding b = outputs_[i];
    b.written = true;
    return b;
  }
  size_t operands() const { return inputs_.size(); }
  const Operand& operand(size_t i) const { return inputs_[i]; }
  /// The binding of output i, not marked as written.
  const Binding& place(size_t i) const { return outputs_[i]; }
  WeightStore& plan_store() const { return plan_store_; }
  /// A recorder for a kernel that runs as a part of this one. The spans must outlive that kernel's record().
  KernelRecorder nested(std::span<const Operand> inputs, std::span<const Binding> outputs,
                        const Binding& scratch) const {
    return {recorder_, inputs, outputs, scratch, faults_, fault_code_, faulty_, plan_store_};
  }
  /// Precondition: bytes from offset on lie within Kernel::scratch_bytes().
  Binding scratch(size_t offset, size_t bytes, bool written) const {
    Binding b = scratch_;
    b.offset += offset;
    b.bytes = bytes;
    b.written = written;
    return b;
  }
  /// Constant input i as `pack` lays it out on the device; see WeightStore::packed().
  Result<Binding> packed(size_t i, const std::string& key, size_t bytes, const WeightStore::Pack& pack) {
    const Operand& o = inputs_[i];
    return (o.of ? plan_store_ : *o.store).packed(*o.constant, named(o, key), bytes, pack);
  }
  /// What `pack` makes on the device of `raw_bytes` that the host computes from constant input i by `fill`.
  Result<Binding> packed(size_t i, const std::string& key, size_t raw_bytes, const WeightStore::Fill& fill,
                         size_t bytes, const WeightStore::Pack& pack) {
    const Operand& o = inputs_[i];
    return o.store->packed(origin(o), named(o, key), raw_bytes, filler(o, fill), bytes, pack);
  }
  /// A table of `bytes` that the host computes from constant input i; `key` names the computation, not the content.
  Result<Binding> table(size_t i, const std::string& key, size_t bytes, const WeightStore::Fill& fill) {
    const Operand& o = inputs_[i];
    return o.store->table(origin(o), named(o, key), bytes, filler(o, fill));
  }
  /// A table that belongs to this plan; `key` identifies its content.
  Result<Binding> table(const std::string& key, size_t bytes, const WeightStore::Fill& fill) {
    return plan_store_.table(nullptr, key, bytes, fill);
  }
  /// A table of this plan with the given content, which is a part of its key.
  template <class T>
  Result<Binding> table(const char* name, std::span<const T> content) {
    const std::string bytes(reinterpret_cast<const char*>(content.data()), content.size_bytes());
    return table(name + (" " + bytes), bytes.size(), [&](void* to) { std::memcpy(to, bytes.data(), bytes.size()); });
  }
  /// The word that a shader sets to fault_code() on invalid data: the run then fails with the text of Kernel::fault().
  Binding faults() {
    if (!*faulty_) recorder_.fill(faults_, 0);
    *faulty_ = true;
    Binding b = faults_;
    b.written = true;
    return b;
  }
  uint32_t fault_code() const { return fault_code_; }
  const Device& device() const { return recorder_.device(); }

  void copy(const Binding& from, const Binding& to) { recorder_.copy(from, to); }
  void fill(const Binding& to, uint32_t word) { recorder_.fill(to, word); }
  /// Runs a variant of a shader; its interface checks the constants and the number of bindings.
  template <class Interface, size_t N>
  Status run(shaders::Variant<Interface> shader, const typename Interface::Constants& constants,
             const Binding (&bindings)[N], const Grid& grid, const typename Interface::Push& push) {
    return recorder_.run(shader, constants, bindings, grid, push);
  }
  /// Runs a shader whose constants and push constants are known as words only.
  Status run(const Shader& shader, std::span<const uint32_t> constants, std::span<const Binding> bindings,
             const Grid& grid, std::span<const uint32_t> push) {
    return recorder_.dispatch(shader, constants, bindings, grid, push.data(), push.size_bytes());
  }
  /// Runs a variant with bindings whose number is only known now.
  template <class Interface>
  Status run(shaders::Variant<Interface> shader, const typename Interface::Constants& constants,
             std::span<const Binding> bindings, const Grid& grid, const typename Interface::Push& push) {
    return recorder_.run(shader, constants, bindings, grid, push);
  }

 private:
  static const void* origin(const Operand& o) { return o.of ? o.of : o.constant->raw(); }
  /// The key of what follows from a constant. Tensors of one file may lie in the same bytes.
  static std::string named(const Operand& o, const std::string& key) {
    if (o.of) return o.derived + key;
    const Tensor& t = *o.constant;
    return Cat(key, ' ', to_string(t.dtype()), ' ', reinterpret_cast<uintptr_t>(t.quant().get()));
  }
  static WeightStore::Fill filler(const Operand& o, const WeightStore::Fill& fill) {
    return [&](void* to) {
      if (o.compute) (*o.compute)();
      fill(to);
    };
  }

  Recorder& recorder_;
  std::span<const Operand> inputs_;
  std::span<const Binding> outputs_;
  Binding scratch_, faults_;
  uint32_t fault_code_;
  bool* faulty_;  ///< of the segment
  WeightStore& plan_store_;
};

/// Runs `items` invocations of a shader that reports faults: r.faults() is among the bindings.
template <class Interface, size_t N>
Status run_checked(KernelRecorder& r, shaders::Variant<Interface> shader,
                   const typename Interface::Constants& constants, const Binding (&bindings)[N], uint64_t items,
                   typename Interface::Push push) {
  push.fault_code = r.fault_code();
  return r.run(shader, constants, bindings, Grid::flat(items, constants.width), push);
}

}  // namespace smelt::vulkan
