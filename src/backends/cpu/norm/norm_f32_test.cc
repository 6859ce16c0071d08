#include "base/cat.h"
#include "ops/normalization/normalization.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ImageNormF32, LayoutsAndSizes) {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
    for (const int64_t channels : {4, 36}) {
      const Shape x = layout == Layout::kChannelsLast ? Shape{2, 9, 11, channels} : Shape{2, channels, 9, 11};
      const std::string label = Cat(to_string(layout), ' ', channels);
      const auto values = [&](int64_t n, double lo, uint32_t seed) {
        return random_tensor(DType::kF32, {n}, lo, 1.5, seed);
      };
      const Tensor image = random_tensor(DType::kF32, x, -1, 3, 1);
      BatchNormAttrs batch;
      batch.layout = layout;
      for (const bool constant : {false, true}) {
        OpCase c{label,
                 Op::kBatchNorm,
                 make_attrs<BatchNormAttrs>(batch),
                 {image, values(channels, -1, 2), values(channels, -1, 3), values(channels, -1, 4),
                  values(channels, 0.1, 5)},
                 {1, 2, 3, 4}};
        c.threaded = true;
        if (!constant) c.constants.clear();
        check_on_cpu(c, "batch_norm_f32", {2e-5, 1e-5});
      }
      for (const int64_t groups : {0, 2}) {
        GroupNormAttrs group;
        group.layout = layout;
        group.groups = groups;
        group.act.kind = groups ? ActKind::kRelu : ActKind::kNone;
        check_on_cpu({label,
                      Op::kGroupNorm,
                      make_attrs<GroupNormAttrs>(group),
                      {image, values(channels, -1, 2), values(channels, -1, 3)},
                      {1, 2}},
                     "group_norm_f32", {2e-5, 1e-5});
      }
      for (const double beta : {0.5, 0.75, 1.0}) {
        LrnAttrs lrn;
        lrn.layout = layout;
        lrn.size = beta == 0.5 ? 4 : 5;
        lrn.alpha = 0.3;
        lrn.beta = beta;
        check_on_cpu({label, Op::kLRN, make_attrs<LrnAttrs>(lrn), {image}}, "lrn_f32", {2e-6, 1e-5});
      }
    }
}

}  // namespace
}  // namespace smelt
