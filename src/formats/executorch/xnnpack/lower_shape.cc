#include "base/error.h"
#include "formats/executorch/xnnpack/lower.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

std::vector<int64_t> numbers(const flatbuffers::Vector<uint32_t>* list) {
  return list ? std::vector<int64_t>(list->begin(), list->end()) : std::vector<int64_t>();
}

}  // namespace

Status XnnLowering::transpose(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticTranspose();
  const std::vector<int64_t> perm = numbers(n.perm());
  std::vector<char> seen(perm.size(), 0);
  for (int64_t p : perm) {
    if (p >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(p)])
      return InvalidModel("the permutation of ", perm.size(), " dimensions is none");
    seen[static_cast<size_t>(p)] = 1;
  }
  const uint32_t in[] = {n.input_id()};
  if (perm.empty()) return emit(Op::kReshape, make_attrs<ReshapeAttrs>(), in, n.output_id(), {b_.i64({})});
  return emit(Op::kTranspose, make_attrs<TransposeAttrs>(perm), in, n.output_id());
}

Status XnnLowering::reshape(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticReshape();
  std::vector<int64_t> shape = numbers(n.new_shape());
  if (shape.size() > static_cast<size_t>(Shape::kMaxRank)) return InvalidModel("rank ", shape.size(), " is too large");
  int inferred = 0;
  for (int64_t& d : shape)
    if (d == 0) {
      d = -1;
      ++inferred;
    }
  if (inferred > 1) return InvalidModel(inferred, " dimensions are to be inferred, at most one can be");
  const uint32_t in[] = {n.input_id()};
  return emit(Op::kReshape, make_attrs<ReshapeAttrs>(), in, n.output_id(), {b_.i64(shape)});
}

Status XnnLowering::slice(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticSlice();
  const std::vector<int64_t> offsets = numbers(n.offsets());
  std::vector<int64_t> sizes = numbers(n.sizes());
  if (offsets.size() != sizes.size()) return InvalidModel(offsets.size(), " offsets but ", sizes.size(), " sizes");
  for (int64_t& s : sizes)
    if (s == 0) s = -1;
  const uint32_t in[] = {n.input_id()};
  return emit(Op::kSliceSize, make_attrs<NoAttrs>(), in, n.output_id(), {b_.i64(offsets), b_.i64(sizes)});
}

Status XnnLowering::pad(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticConstantPad();
  std::vector<int64_t> pads = numbers(n.pre_paddings());
  const std::vector<int64_t> after = numbers(n.post_paddings());
  if (pads.size() != after.size()) return InvalidModel(pads.size(), " paddings before but ", after.size(), " after");
  pads.insert(pads.end(), after.begin(), after.end());
  for (int64_t p : pads)
    if (p > (int64_t{1} << 30)) return InvalidModel("padding ", p, " is too large");
  const uint32_t in[] = {n.input_id()};
  const ValueType& out = value(n.output_id()).type;
  const bool stored = on_stored_integers(in, n.output_id());
  Tensor fill(stored ? out.dtype : compute_type(n.output_id()), Shape{});
  if (stored && out.quant) {
    fill.set_quant(out.quant);
    const float padding = n.padding_value();
    quantize(&padding, fill);
  } else if (is_integer(fill.dtype())) {
    set_int(fill, 0, static_cast<int64_t>(n.padding_value()));
  } else {
    set_double(fill, 0, n.padding_value());
  }
  return emit(Op::kPad, make_attrs<PadAttrs>(), in, n.output_id(), {b_.i64(pads), b_.constant("", std::move(fill))});
}

Status XnnLowering::concat(const Node& node) {
  const auto& n = *static_cast<const fb_xnnpack::_XNNCat*>(node.xnode_union());
  SMELT_ASSIGN(const XnnPorts ports, ports_of(node));
  const auto axis = static_cast<int32_t>(n.axis());
  return emit(Op::kConcat, make_attrs<AxisAttrs>(axis), ports.inputs, n.output_id());
}

}  // namespace smelt::executorch
