#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanDecompose : public VulkanTest {};

TEST_F(VulkanDecompose, EinsteinSums) {
  struct Sum {
    const char* equation;
    std::vector<Shape> shapes;
  };
  const std::vector<Sum> sums = {{"ij,jk->ik", {{3, 4}, {4, 5}}},
                                 {"bhid,bhjd->bhij", {{2, 2, 3, 4}, {2, 2, 5, 4}}},
                                 {"b...->...b", {{2, 3, 4}}},
                                 {"ii->i", {{4, 4}}},
                                 {"ii", {{4, 4}}},
                                 {"ij->ji", {{3, 4}}},
                                 {"ij->ij", {{3, 4}}},
                                 {"ij->", {{3, 4}}},
                                 {"ijk->k", {{3, 4, 5}}},
                                 {"i,j->ij", {{3}, {4}}},
                                 {"i,i", {{7}, {7}}},
                                 {"th,eih->tei", {{4, 8}, {3, 16, 8}}},
                                 {"tei,ehi->teh", {{4, 3, 16}, {3, 8, 16}}},
                                 {"...ij,...jk->...ik", {{2, 1, 3, 4}, {5, 4, 6}}},
                                 {"ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 5}}},
                                 {"ab,abc->c", {{2, 3}, {2, 3, 4}}},
                                 {"iij,jk->ki", {{3, 3, 4}, {4, 5}}}};
  for (const Sum& s : sums) {
    EinsumAttrs a;
    a.equation = s.equation;
    OpCase c{s.equation, Op::kEinsum, make_attrs<EinsumAttrs>(a)};
    uint32_t seed = 1;
    for (const Shape& shape : s.shapes) c.inputs.push_back(random_tensor(DType::kF32, shape, -1, 1, seed++));
    // A sum that changes nothing is a view.
    check_on_gpu(c, c.label == "ij->ij" ? "" : "matmul_float|reduce|strided_copy");
  }
}

TEST_F(VulkanDecompose, DynamicBounds) {
  const Shape x{3, 7};
  for (DType dtype : {DType::kF32, DType::kI32, DType::kI64})
    for (const Shape& bound : {Shape{}, Shape{7}, x})
      for (int which : {1, 2, 3}) {
        OpCase c{Cat(to_string(dtype), " ", bound.str(), " ", which), Op::kClamp, make_attrs<NoAttrs>()};
        c.inputs = {random_tensor(dtype, x, -9, 9, 1), Tensor(), Tensor()};
        if (which & 1) c.inputs[1] = random_tensor(dtype, bound, -4, 0, 2);
        if (which & 2) c.inputs[2] = random_tensor(dtype, bound, 1, 5, 3);
        check_on_gpu(c, "binary_float|binary_integer");
      }
}

}  // namespace
}  // namespace smelt::vulkan
