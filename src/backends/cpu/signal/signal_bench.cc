#include "bench/kernels/cases.h"
#include "ops/signal/signal.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(signal) {
  DftAttrs dft;
  dft.dims = 2;
  dft.onesided = dft.complex_dtype = true;
  const auto lengths = Tensor::from<int32_t>(DType::kI32, Shape{2}, std::vector<int32_t>{1, 512});
  cases.add({"dft/rfft_512", Op::kDft, make_attrs<DftAttrs>(dft), {f32({96, 1, 512}), lengths}, {1}}, 96 * 512 * 22.5);
  const auto number = [](int64_t n) { return Tensor::from<int64_t>(DType::kI64, Shape{}, std::vector<int64_t>{n}); };
  cases.add({"stft/400",
             Op::kStft,
             make_attrs<StftAttrs>(),
             {f32({1, 16000, 1}), number(160), f32({400}, 2), number(400)},
             {1, 2, 3}},
            98 * 400 * 21.6);
}

}  // namespace smelt::bench
