// Sizes that a run decides, found by writing a program for two bounds.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "formats/executorch/writer/plan_writer.h"

namespace smelt::executorch {
namespace {

using Kind = FileValue::Kind;

class BoundMarker {
 public:
  BoundMarker(FileProgram& program, const FileProgram& wider, size_t plan)
      : program_(program), wider_(wider), plan_(program.plans[plan]), other_(wider.plans[plan]) {}

  bool run() {
    if (plan_.calls.size() != other_.calls.size() || plan_.delegates != other_.delegates ||
        plan_.inputs.size() != other_.inputs.size() || plan_.outputs.size() != other_.outputs.size())
      return false;
    for (size_t c = 0; c < plan_.calls.size(); ++c) {
      const FileCall &call = plan_.calls[c], &other = other_.calls[c];
      if (call.name != other.name || call.overload != other.overload || call.jump != other.jump ||
          call.delegate != other.delegate || call.args.size() != other.args.size())
        return false;
      for (size_t i = 0; i < call.args.size(); ++i)
        if (!argument(c, i)) return false;
    }
    return true;
  }

 private:
  FileValue& at(int value) { return plan_.values[static_cast<size_t>(value)]; }
  const FileValue& wide(int value) const { return other_.values[static_cast<size_t>(value)]; }
  int add(FileValue v) {
    plan_.values.push_back(std::move(v));
    return static_cast<int>(plan_.values.size()) - 1;
  }

  bool argument(size_t c, size_t i) {
    const int a = plan_.calls[c].args[i], b = other_.calls[c].args[i];
    const FileValue x = at(a), y = wide(b);
    if (x.kind != y.kind || x.items.size() != y.items.size()) return false;
    switch (x.kind) {
      case Kind::kNull:
        return true;
      case Kind::kInt:
        return x.i == y.i || slice_end(c, i, x.i, y.i);
      case Kind::kBool:
        return x.i == y.i;
      case Kind::kDouble:
        return x.d == y.d;
      case Kind::kString:
        return x.text == y.text;
      case Kind::kTensor:
        return tensor(a, b);
      case Kind::kIntList:
        return sizes(c, i, x, y);
      case Kind::kTensorList:
      case Kind::kOptionalTensorList:
        break;
    }
    for (size_t k = 0; k < x.items.size(); ++k) {
      if ((x.items[k] < 0) != (y.items[k] < 0)) return false;
      if (x.items[k] >= 0 && !tensor(x.items[k], y.items[k])) return false;
    }
    return true;
  }

  bool tensor(int a, int b) {
    FileValue& x = at(a);
    const FileValue& y = wide(b);
    if (x.kind != Kind::kTensor || y.kind != Kind::kTensor) return x.kind == y.kind && x.kind == Kind::kNull;
    if (x.dtype != y.dtype || x.shape.rank() != y.shape.rank() || x.state != y.state) return false;
    if ((x.constant < 0) != (y.constant < 0)) return false;
    if (!(x.shape == y.shape)) x.bounded = true;
    if (x.constant < 0) return true;
    const Tensor &t = program_.constants[static_cast<size_t>(x.constant)],
                 &u = wider_.constants[static_cast<size_t>(y.constant)];
    return !x.bounded && t.bytes() == u.bytes() &&
           (t.bytes() == 0 || t.raw() == u.raw() || std::memcmp(t.raw(), u.raw(), t.bytes()) == 0);
  }

  /// The end of a slice that goes to the end of its dimension.
  bool slice_end(size_t c, size_t i, int64_t end, int64_t wide_end) {
    FileCall& call = plan_.calls[c];
    if (call.name != "aten::slice_copy" || i != 3) return false;
    const int64_t dim = at(call.args[1]).i;
    const FileValue &x = at(call.args[0]), &y = wide(other_.calls[c].args[0]);
    if (end != x.shape[static_cast<int>(dim)] || wide_end != y.shape[static_cast<int>(dim)]) return false;
    call.args[i] = add({.kind = Kind::kInt, .i = INT64_MAX});
    return true;
  }

  /// Sizes of a view or a broadcast, one of which follows from the elements or stays: -1.
  bool sizes(size_t c, size_t i, const FileValue& x, const FileValue& y) {
    FileValue list = x;
    int open = 0;
    for (size_t k = 0; k < x.items.size(); ++k) {
      if (at(x.items[k]).i == wide(y.items[k]).i) continue;
      ++open;
      list.items[k] = add({.kind = Kind::kInt, .i = -1});
      if (plan_.calls[c].name != "aten::expand_copy") continue;
      const Shape& from = at(plan_.calls[c].args[0]).shape;
      const int d = from.rank() - static_cast<int>(x.items.size() - k);
      if (d < 0 || from[d] != at(x.items[k]).i) return false;
    }
    if (open == 0) return true;
    const std::string& name = plan_.calls[c].name;
    if (i != 1 || (name != "aten::expand_copy" && (name != "aten::view_copy" || open > 1))) return false;
    plan_.calls[c].args[i] = add(std::move(list));
    return true;
  }

  FileProgram& program_;
  const FileProgram& wider_;
  FilePlan& plan_;
  const FilePlan& other_;
};

}  // namespace

bool mark_bounds(FileProgram& program, const FileProgram& wider) {
  if (program.plans.size() != wider.plans.size() || program.states.size() != wider.states.size()) return false;
  for (size_t i = 0; i < program.plans.size(); ++i)
    if (!BoundMarker(program, wider, i).run()) return false;
  return true;
}

}  // namespace smelt::executorch
