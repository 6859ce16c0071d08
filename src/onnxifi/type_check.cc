#include "onnxifi/type_check.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "ops/core/op.h"
#include "runtime/executor.h"

namespace smelt::onnxifi {
namespace {

bool is_complex_value(const smelt::Graph& g, ValueId id) {
  return id != kNoValue && is_complex(g.value(id).type.dtype);
}

class TypeCheck {
 public:
  explicit TypeCheck(const Module& module) : module_(module) {}

  bool passes() {
    for (const smelt::Graph& g : module_.graphs)
      for (const Node& n : g.nodes)
        if (!takes(g, n)) return false;
    return true;
  }

 private:
  bool takes(const smelt::Graph& g, const Node& n) {
    const OpInfo& info = op_info(n.op);
    if (n.op == Op::kUnary || n.op == Op::kBinary) return elementwise(g, n);
    if (std::string_view(info.family) == "recurrent" && !n.inputs.empty() && n.inputs[0] != kNoValue) {
      const ValueType& x = g.value(n.inputs[0]).type;
      if (x.dtype != DType::kInvalid && !x.quant && !is_float(x.dtype)) return false;
    }
    const bool ordered = n.op == Op::kTopK || n.op == Op::kSort || n.op == Op::kUnique;  // moves, but compares as well
    if (!ordered && info.flags & (kDataMovement | kControl | kContainer | kEffect)) return true;
    if (n.op == Op::kCast || n.op == Op::kBitCast) return true;
    return std::ranges::none_of(n.inputs, [&](ValueId id) { return is_complex_value(g, id); });
  }

  /// Element-wise kernels take any shape: one element of each type tells.
  bool elementwise(const smelt::Graph& g, const Node& n) {
    std::vector<Datum> in, out;
    bool float_unary = true;
    for (ValueId id : n.inputs) {
      if (id == kNoValue) return true;
      const ValueType& t = g.value(id).type;
      if (t.kind != ValueType::Kind::kTensor || t.dtype == DType::kInvalid || t.dtype == DType::kString || t.quant)
        return true;
      float_unary = float_unary && t.dtype == DType::kF32 && n.op == Op::kUnary;
      Tensor one(t.dtype, Shape{1});
      if (is_integer(t.dtype)) one.data<uint8_t>()[0] = 1;  // no divisor is zero
      in.emplace_back(std::move(one));
    }
    for (ValueId id : n.outputs)
      if (id != kNoValue && g.value(id).type.quant) return true;
    if (float_unary) return true;
    if (!environment_) {
      // The module outlives this object.
      environment_ = std::make_unique<Executor>(std::shared_ptr<const Module>(std::shared_ptr<void>(), &module_),
                                                SessionOptions{});
      environment_->control.begin(environment_->options, environment_->size, {});
    }
    return execute_node(*environment_, g, n, std::move(in), out, 0).ok();
  }

  const Module& module_;
  std::unique_ptr<Executor> environment_;
};

}  // namespace

bool kernels_take_types(const Module& module) { return TypeCheck(module).passes(); }

}  // namespace smelt::onnxifi
