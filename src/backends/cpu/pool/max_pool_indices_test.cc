#include <cmath>
#include <limits>

#include "base/cat.h"
#include "ops/pool/pool.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct IndexRow {
  std::vector<int64_t> image;  ///< spatial
  std::vector<int64_t> kernel, strides, pads, dilations;
};

OpCase indices_case(const IndexRow& r, Layout layout, PoolAttrs::Index index, DType dtype) {
  PoolAttrs a;
  a.kernel = r.kernel;
  a.strides = r.strides;
  a.pads = r.pads;
  a.dilations = r.dilations;
  a.layout = layout;
  a.index = index;
  a.index_dtype = dtype;
  std::vector<int64_t> dims = r.image;
  dims.insert(layout == Layout::kChannelsLast ? dims.end() : dims.begin(), 37);
  dims.insert(dims.begin(), 2);
  OpCase c{Cat(to_string(layout), " ", to_string(index), " ", dims.size()),
           Op::kPool,
           make_attrs<PoolAttrs>(a),
           {f32(Shape(dims))},
           {},
           {{}, ValueType::tensor(dtype)}};
  for (int64_t i = 0; i < c.inputs[0].elements(); ++i)  // ties
    c.inputs[0].data<float>()[i] = std::round(c.inputs[0].data<float>()[i] * 2);
  c.threaded = true;
  return c;
}

TEST(MaxPoolIndices, LayoutsAndRules) {
  const IndexRow rows[] = {{{9, 11}, {2, 2}, {2, 2}, {}, {}},
                           {{8, 7}, {3, 2}, {1, 2}, {1, 0, 1, 1}, {}},
                           {{12, 12}, {3, 3}, {2, 1}, {}, {2, 2}},
                           {{23}, {4}, {3}, {1, 2}, {}},
                           {{5, 6, 7}, {2, 3, 2}, {2, 2, 1}, {0, 1, 0, 1, 1, 0}, {}}};
  for (const IndexRow& r : rows)
    for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
      for (const auto index : {PoolAttrs::Index::kTensorRow, PoolAttrs::Index::kTensorColumn, PoolAttrs::Index::kPlane,
                               PoolAttrs::Index::kWindowColumn})
        for (const DType dtype : {DType::kI32, DType::kI64})
          check_on_cpu(indices_case(r, layout, index, dtype), "max_pool_indices");
}

TEST(MaxPoolIndices, NotANumberAndLowest) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    OpCase c = indices_case({{8, 8}, {2, 2}, {2, 2}, {}, {}}, layout, PoolAttrs::Index::kPlane, DType::kI64);
    auto* x = c.inputs[0].data<float>();
    for (int64_t i = 0; i < c.inputs[0].elements(); i += 3) x[i] = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < c.inputs[0].elements(); i += 41) x[i] = std::numeric_limits<float>::quiet_NaN();
    check_on_cpu(c, "max_pool_indices");
  }
}

}  // namespace
}  // namespace smelt
