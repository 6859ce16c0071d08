#include "ops/recurrent/recurrent.h"

#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanRecurrent : public VulkanTest {};

struct Net {
  int64_t steps = 5, batch = 3, inputs = 7, hidden = 9;
};

constexpr int kGates[] = {1, 3, 4};

OpCase net_case(const RecurrentAttrs& a, const Net& n, DType dtype = DType::kF32, bool constant = true) {
  const int64_t d = (a.forward ? 1 : 0) + (a.backward ? 1 : 0), g = kGates[static_cast<int>(a.cell)] * n.hidden;
  const Shape x = a.batch_first ? Shape{n.batch, n.steps, n.inputs} : Shape{n.steps, n.batch, n.inputs};
  const float range = 1.0f / static_cast<float>(std::sqrt(static_cast<double>(n.hidden)));
  OpCase c;
  c.label = Cat(to_string(a.cell), " forward ", a.forward, " backward ", a.backward, " batch first ", a.batch_first,
                " hidden ", n.hidden);
  c.op = Op::kRecurrent;
  c.attrs = make_attrs<RecurrentAttrs>(a);
  c.inputs = {random_tensor(dtype, x, -1, 1, 1), random_tensor(dtype, {d, g, n.inputs}, -range, range, 2),
              random_tensor(dtype, {d, g, n.hidden}, -range, range, 3)};
  c.constants = {3, 7};
  if (constant) c.constants.insert(c.constants.end(), {1, 2});
  const bool lstm = a.cell == RecurrentAttrs::Cell::kLstm;
  c.outputs = std::vector<ValueType>(lstm ? 3 : 2);
  return c;
}

/// All operands that a cell takes.
void add_operands(OpCase& c, const RecurrentAttrs& a, const Net& n, bool wide_lengths) {
  const int64_t d = c.inputs[1].dim(0), g = c.inputs[1].dim(1);
  const DType dtype = c.inputs[0].dtype();
  const Shape state = a.batch_first ? Shape{n.batch, d, n.hidden} : Shape{d, n.batch, n.hidden};
  const bool lstm = a.cell == RecurrentAttrs::Cell::kLstm;
  c.inputs.push_back(random_tensor(dtype, {d, 2 * g}, -1, 1, 4));
  c.inputs.push_back(tensor(wide_lengths ? DType::kI64 : DType::kI32, Shape{n.batch}, {2, 5, 0}));
  c.inputs.push_back(random_tensor(dtype, state, -1, 1, 5));
  if (!lstm) return;
  c.inputs.push_back(random_tensor(dtype, state, -1, 1, 6));
  c.inputs.push_back(random_tensor(dtype, {d, 3 * n.hidden}, -1, 1, 7));
}

using Cell = RecurrentAttrs::Cell;

TEST_F(VulkanRecurrent, CellsDirectionsAndLayouts) {
  for (Cell cell : {Cell::kRnn, Cell::kGru, Cell::kLstm})
    for (int directions : {1, 2, 3})
      for (bool batch_first : {false, true})
        for (bool all : {false, true}) {
          RecurrentAttrs a;
          a.cell = cell;
          a.forward = directions & 1;
          a.backward = directions & 2;
          a.batch_first = batch_first;
          a.hidden = Net{}.hidden;
          a.linear_before_reset = all && directions == 2;
          a.input_forget = all && directions == 1;
          a.clip = all ? 0.7 : 0;
          OpCase c = net_case(a, {});
          if (all) add_operands(c, a, {}, batch_first);
          check_on_gpu(c, "recurrent");
        }
}

TEST_F(VulkanRecurrent, ManyUnitsInManyDispatches) {
  for (Cell cell : {Cell::kRnn, Cell::kGru, Cell::kLstm})
    for (int64_t hidden : {40, 300}) {
      RecurrentAttrs a;
      a.cell = cell;
      a.hidden = hidden;
      check_on_gpu(net_case(a, {.steps = 120, .batch = 1, .inputs = 50, .hidden = hidden}, DType::kF32, hidden < 300),
                   "recurrent", {1e-4, 1e-4});
    }
}

TEST_F(VulkanRecurrent, Activations) {
  for (const char* f : {"Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus",
                        "Softsign", "Tanh", "ThresholdedRelu"}) {
    RecurrentAttrs a;
    a.cell = Cell::kLstm;
    a.hidden = Net{}.hidden;
    a.activations = {"HardSigmoid", f, "Softsign"};
    a.alpha = {0.3, 0.5, 0};
    a.beta = {0.4, 0.7, 0};
    check_on_gpu(net_case(a, {}), "recurrent");
  }
}

/// Products see x and the states of all sequences on 8-bit grids.
TEST_F(VulkanRecurrent, DynamicQuantization) {
  for (int directions : {1, 2, 3})
    for (bool all : {false, true}) {
      RecurrentAttrs a;
      a.forward = directions & 1;
      a.backward = directions & 2;
      a.batch_first = all;
      a.hidden = Net{}.hidden;
      a.dynamic_quantization = true;
      OpCase c = net_case(a, {});
      if (all) add_operands(c, a, {}, all);
      check_on_gpu(c, "recurrent", {2e-3, 1e-3});
    }
}

TEST_F(VulkanRecurrent, Fp16) {
  RecurrentAttrs a;
  a.cell = Cell::kGru;
  a.hidden = Net{}.hidden;
  OpCase c = net_case(a, {}, DType::kF16);
  add_operands(c, a, {}, true);
  check_on_gpu(c, "legalized_types", {2e-3, 2e-3});
}

}  // namespace
}  // namespace smelt::vulkan
