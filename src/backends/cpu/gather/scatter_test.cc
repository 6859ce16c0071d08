#include <limits>

#include "base/cat.h"
#include "ops/gather/gather.h"
#include "tensor/numeric.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct ScatterRow {
  Shape x, indices, updates;
};
const ScatterRow kScatters[] = {{{4, 5, 6}, {7, 3}, {7}},
                                {{4, 5, 6}, {2, 2, 2}, {2, 2, 6}},
                                {{9, 8}, {3, 1}, {3, 8}},
                                {{1, 6, 6, 3}, {1, 6, 2, 3, 4}, {1, 6, 2, 3}},
                                {{3, 1, 1, 16}, {1, 1}, {1, 1, 1, 16}}};

/// Indices within every dimension from `first` on; negative ones count from the end.
Tensor tuples(const ScatterRow& r, DType type, bool negative, int first = 0) {
  Tensor t = random_tensor(DType::kI64, r.indices, 0, 1 << 20, 5);
  Tensor out(type, r.indices);
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int64_t extent = r.x[first + static_cast<int>(i % r.indices.back())];
    const int64_t at = t.data<int64_t>()[i] % extent;
    set_int(out, i, negative && i % 3 == 0 ? at - extent : at);
  }
  return out;
}

TEST(ScatterNd, ReplacesAndAdds) {
  for (const ScatterRow& r : kScatters)
    for (const DType index : {DType::kI32, DType::kI64})
      for (const DType type : {DType::kF32, DType::kF64, DType::kI8, DType::kU8, DType::kI16, DType::kI64})
        for (const auto reduction : {ScatterAttrs::Reduce::kNone, ScatterAttrs::Reduce::kAdd}) {
          ScatterAttrs a;
          a.reduction = reduction;
          check_on_cpu({Cat(r.x.str(), r.indices.str(), to_string(type), to_string(reduction)),
                        Op::kScatterND,
                        make_attrs<ScatterAttrs>(a),
                        {random_tensor(type, r.x, 0, 100, 1), tuples(r, index, true),
                         random_tensor(type, r.updates, 0, 100, 2)}},
                       "scatter_nd");
        }
}

TEST(Scatter, ProductsAndExtremes) {
  for (const auto reduction : {ScatterAttrs::Reduce::kMul, ScatterAttrs::Reduce::kMin, ScatterAttrs::Reduce::kMax}) {
    ScatterAttrs a;
    a.reduction = reduction;
    for (const ScatterRow& r : kScatters) {
      Tensor updates = random_tensor(DType::kF32, r.updates, -2, 2, 2);
      updates.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      check_on_cpu({Cat(r.x.str(), r.indices.str(), to_string(reduction)),
                    Op::kScatterND,
                    make_attrs<ScatterAttrs>(a),
                    {random_tensor(DType::kF32, r.x, -2, 2, 1), tuples(r, DType::kI64, true), updates}},
                   "scatter_nd");
    }
    OpCase c{to_string(reduction),
             Op::kScatterElements,
             make_attrs<ScatterAttrs>(a),
             {random_tensor(DType::kF32, {9, 8}, -2, 2, 1), random_tensor(DType::kI64, {20, 8}, 0, 8, 2),
              random_tensor(DType::kF32, {20, 8}, -2, 2, 3)}};
    check_on_cpu(c, "scatter_elements");
    // Rows whose first indices are equal, and indices from the end.
    Tensor indices = random_tensor(DType::kI64, {20, 24}, -9, 8, 2);
    for (int64_t k = 0; k < 20 * 24; ++k)
      if (k % 48 < 20) indices.data<int64_t>()[k] = k / 48 - 4;
    c.inputs = {random_tensor(DType::kF32, {9, 24}, -2, 2, 1), indices, random_tensor(DType::kF32, {20, 24}, -2, 2, 3)};
    c.inputs[2].data<float>()[30] = std::numeric_limits<float>::quiet_NaN();
    check_on_cpu(c, "scatter_elements");
    a.include_self = false;
    c.attrs = make_attrs<ScatterAttrs>(a);
    check_on_cpu(c, "");
  }
}

TEST(ScatterNd, BoolFloat16AndComplexAreReplaced) {
  for (const DType type : {DType::kBool, DType::kF16, DType::kC64})
    check_on_cpu({to_string(type),
                  Op::kScatterND,
                  make_attrs<ScatterAttrs>(),
                  {Tensor(type, {4, 5, 6}), tuples(kScatters[0], DType::kI64, true), Tensor(type, {7})}},
                 "scatter_nd");
}

TEST(ScatterNew, AddsToZeros) {
  for (const ScatterRow& r : kScatters)
    for (const DType type : {DType::kF32, DType::kI32, DType::kU8, DType::kI64}) {
      std::vector<int64_t> dims(r.x.dims().begin(), r.x.dims().end());
      check_on_cpu({Cat(r.x.str(), r.indices.str(), to_string(type)),
                    Op::kScatterNew,
                    make_attrs<NoAttrs>(),
                    {tuples(r, DType::kI32, false), random_tensor(type, r.updates, 0, 100, 2), i64(dims)},
                    {2}},
                   "scatter_new");
    }
}

TEST(GatherNd, SlicesOfEachDimension) {
  for (const ScatterRow& r : kScatters)
    for (const DType index : {DType::kI32, DType::kI64})
      for (const DType type : {DType::kF32, DType::kI8, DType::kF16, DType::kI64, DType::kBool})
        check_on_cpu({Cat(r.x.str(), r.indices.str(), to_string(type)),
                      Op::kGatherND,
                      make_attrs<GatherAttrs>(),
                      {random_tensor(type, r.x, 0, 1, 1), tuples(r, index, true)}},
                     "gather_nd");
}

TEST(GatherNd, Batches) {
  GatherAttrs a;
  a.batch_dims = 2;
  const ScatterRow r{{2, 3, 5, 4, 6}, {2, 3, 7, 2}, {}};
  check_on_cpu({"batches", Op::kGatherND, make_attrs<GatherAttrs>(a), {f32(r.x), tuples(r, DType::kI64, true, 2)}},
               "gather_nd");
}

AttrsPtr scatter_along(int64_t axis, ScatterAttrs::Reduce reduction = ScatterAttrs::Reduce::kNone) {
  ScatterAttrs a;
  a.axis = axis;
  a.reduction = reduction;
  return make_attrs<ScatterAttrs>(a);
}

TEST(ScatterElements, AlongEachDimension) {
  for (const DType t : {DType::kI8, DType::kU16, DType::kF32, DType::kI64})
    for (const DType index : {DType::kI32, DType::kI64})
      for (const auto reduction : {ScatterAttrs::Reduce::kNone, ScatterAttrs::Reduce::kAdd})
        for (const int64_t axis : {0, 1, 2, -1}) {
          const Shape at = axis == 0 ? Shape{9, 5, 6} : axis == 1 ? Shape{4, 11, 6} : Shape{4, 5, 13};
          check_on_cpu({Cat(to_string(t), ' ', to_string(index), " axis ", axis, ' ', to_string(reduction)),
                        Op::kScatterElements,
                        scatter_along(axis, reduction),
                        {random_tensor(t, {4, 5, 6}, 0, 9, 1), random_tensor(index, at, -4, 3, 2),
                         random_tensor(t, at, 0, 9, 3)}},
                       "scatter_elements");
        }
}

TEST(ScatterElements, RowsOfEqualIndices) {
  Tensor rows(DType::kI64, {7, 40});
  for (int64_t i = 0; i < rows.elements(); ++i) set_int(rows, i, i / 40 * 3 % 5);
  for (const auto reduction : {ScatterAttrs::Reduce::kNone, ScatterAttrs::Reduce::kAdd})
    check_on_cpu({"rows", Op::kScatterElements, scatter_along(0, reduction), {f32({5, 40}), rows, f32({7, 40})}},
                 "scatter_elements");
}

TEST(ScatterElements, IndicesOfAPartRunElsewhere) {
  check_on_cpu(
      {"part", Op::kScatterElements, scatter_along(0), {f32({5, 40}), Tensor(DType::kI64, {7, 30}), f32({7, 30})}}, "");
}

TEST(ScatterNd, IndexOutOfRangeIsAnError) {
  for (const int64_t bad : {int64_t{4}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
    Tensor index(DType::kI64, {1, 1});
    set_int(index, 0, bad);
    for (const OpCase& c :
         {OpCase{"scatter", Op::kScatterND, make_attrs<ScatterAttrs>(), {f32({4}), index, f32({1})}},
          OpCase{"elements", Op::kScatterElements, scatter_along(0), {f32({4, 1}), index, f32({1, 1})}},
          OpCase{"gather", Op::kGatherND, make_attrs<GatherAttrs>(), {f32({4}), index}}}) {
      SCOPED_TRACE(bad);
      check_fails(c);
    }
  }
}

}  // namespace
}  // namespace smelt
