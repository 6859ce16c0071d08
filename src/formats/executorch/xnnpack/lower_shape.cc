#include "formats/executorch/xnnpack/lower.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

std::vector<int64_t> numbers(const flatbuffers::Vector<uint32_t>* list) {
  return list ? std::vector<int64_t>(list->begin(), list->end()) : std::vector<int64_t>();
}

/// num_dims of a node says how long its list is.
Status check_length(uint32_t num_dims, const std::vector<int64_t>& list) {
  if (num_dims != list.size()) return InvalidModel("num_dims is ", num_dims, ", the list has ", list.size());
  return Ok();
}

}  // namespace

Status XnnLowering::transpose_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticTranspose();
  const std::vector<int64_t> perm = numbers(n.perm());
  SMELT_TRY(check_length(n.num_dims(), perm));
  std::vector<char> seen(perm.size(), 0);
  for (int64_t p : perm) {
    if (p >= static_cast<int64_t>(perm.size()) || seen[static_cast<size_t>(p)])
      return InvalidModel("the permutation of ", perm.size(), " dimensions is none");
    seen[static_cast<size_t>(p)] = 1;
  }
  if (perm.empty()) return emit(Op::kReshape, ReshapeAttrs(), {n.input_id()}, n.output_id(), {i64({})});
  return emit(Op::kTranspose, TransposeAttrs(perm), {n.input_id()}, n.output_id());
}

Status XnnLowering::reshape_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticReshape();
  std::vector<int64_t> shape = numbers(n.new_shape());
  SMELT_TRY(check_length(n.num_dims(), shape));
  if (shape.size() > static_cast<size_t>(Shape::kMaxRank)) return InvalidModel("rank ", shape.size(), " is too large");
  int inferred = 0;
  for (int64_t& d : shape)
    if (d == 0) {
      d = -1;
      ++inferred;
    }
  if (inferred > 1) return InvalidModel(inferred, " dimensions are to be inferred, at most one can be");
  return emit(Op::kReshape, ReshapeAttrs(), {n.input_id()}, n.output_id(), {i64(shape)});
}

Status XnnLowering::slice_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticSlice();
  const std::vector<int64_t> offsets = numbers(n.offsets());
  std::vector<int64_t> sizes = numbers(n.sizes());
  SMELT_TRY(check_length(n.num_dims(), offsets));
  SMELT_TRY(check_length(n.num_dims(), sizes));
  for (int64_t& s : sizes)
    if (s == 0) s = -1;
  return emit(Op::kSliceSize, NoAttrs(), {n.input_id()}, n.output_id(), {i64(offsets), i64(sizes)});
}

Status XnnLowering::pad_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNStaticConstantPad();
  std::vector<int64_t> pads = numbers(n.pre_paddings());
  const std::vector<int64_t> after = numbers(n.post_paddings());
  if (pads.size() != after.size()) return InvalidModel(pads.size(), " paddings before but ", after.size(), " after");
  pads.insert(pads.end(), after.begin(), after.end());
  for (int64_t p : pads)
    if (p > (int64_t{1} << 30)) return InvalidModel("padding ", p, " is too large");
  const uint32_t in[] = {n.input_id()};
  const ValueType& out = value(n.output_id()).type;
  const bool integers = computes_in_integers(in, n.output_id());
  Tensor padding(integers ? out.dtype : compute_type(n.output_id()), Shape{});
  if (integers && out.quant) {
    padding.set_quant(out.quant);
    const float real = n.padding_value();
    quantize(&real, padding);
  } else if (is_integer(padding.dtype())) {
    set_int(padding, 0, static_cast<int64_t>(n.padding_value()));
  } else {
    set_double(padding, 0, n.padding_value());
  }
  return emit(Op::kPad, PadAttrs(), {n.input_id()}, n.output_id(), {i64(pads), constant(std::move(padding))});
}

Status XnnLowering::concat_node(const Node& node) {
  const auto& n = *static_cast<const fb_xnnpack::_XNNCat*>(node.xnode_union());
  SMELT_ASSIGN(const XnnPorts ports, ports_of(node));
  return emit(Op::kConcat, make_attrs<AxisAttrs>(static_cast<int32_t>(n.axis())), ports.inputs, n.output_id());
}

}  // namespace smelt::executorch
