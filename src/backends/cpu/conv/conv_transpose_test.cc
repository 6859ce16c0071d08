#include "base/cat.h"
#include "ops/conv/conv.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::testing;

TEST(ConvTranspose, GeometriesAndTypes) {
  struct Row {
    int64_t batch, c_in, h, w, c_out, kernel, stride, pad, extra, groups;
  };
  const Row rows[] = {{1, 8, 5, 7, 6, 2, 2, 0, 0, 1},   {2, 5, 6, 4, 17, 3, 2, 1, 1, 1},
                      {1, 12, 9, 9, 18, 4, 3, 1, 0, 3}, {1, 33, 3, 3, 40, 3, 1, 1, 0, 1},
                      {2, 8, 5, 12, 6, 3, 2, 1, 1, 1},  {1, 7, 4, 19, 35, 2, 2, 0, 0, 1},
                      {1, 6, 6, 11, 10, 1, 2, 0, 1, 2}, {1, 5, 7, 14, 20, 5, 1, 3, 0, 1}};
  for (const Row& r : rows)
    for (const bool integers : {false, true}) {
      ConvTransposeAttrs a;
      a.strides = {r.stride, r.stride};
      a.pads = {r.pad, r.pad, r.pad, r.pad};
      a.output_padding = {r.extra, r.extra};
      a.groups = r.groups;
      a.layout = Layout::kChannelsLast;
      a.filter = FilterLayout::kIOS;
      a.rounding = Rounding::kFixedDouble;
      a.act.kind = integers ? ActKind::kNone : ActKind::kRelu;
      const Shape x{r.batch, r.h, r.w, r.c_in}, w{r.c_in, r.c_out / r.groups, r.kernel, r.kernel};
      KernelCase c{Cat("x ", x.str(), " filter ", w.str(), integers),
                   Op::kConvTranspose,
                   make_attrs<ConvTransposeAttrs>(a),
                   {},
                   {},
                   {}};
      if (integers) {
        c.inputs = {quantized(DType::kI8, x, 0.05f, 7, 1), quantized(DType::kI8, w, 0.01f, 0, 2),
                    random_tensor(DType::kI32, {r.c_out}, -1000, 1000, 3)};
        c.output.dtype = DType::kI8;
        c.output.quant = per_tensor(0.9f, -3, Rounding::kFixedDouble);
        c.threaded = r.w > 10;
        check_case(c, "conv_transpose_i8");
      } else {
        c.inputs = {random_tensor(DType::kF32, x, -1, 1, 1), random_tensor(DType::kF32, w, -1, 1, 2),
                    random_tensor(DType::kF32, {r.c_out}, -1, 1, 3)};
        check_case(c, "conv_transpose_f32", {2e-5, 1e-5});
      }
    }
}

}  // namespace
}  // namespace smelt
