// Every kernel of the list that applies to a case, on every level of this machine. Choose with --benchmark_filter.
#include <benchmark/benchmark.h>

#include <memory>

#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "tests/support/kernel_runner.h"

namespace smelt::bench {
namespace {

void run_case(benchmark::State& state, const BenchCase& b, const KernelInfo& info, Isa isa) {
  test::KernelRunner runner(b.c);
  const auto kernel = runner.make(info, isa);
  if (!kernel) {
    state.SkipWithError("the kernel does not apply");
    return;
  }
  test::KernelRunnerContext ctx(runner, 1, kernel->scratch_bytes());
  for (auto _ : state)
    if (!kernel->run(ctx).ok()) state.SkipWithError("the kernel failed");
  state.counters["Gop/s"] = benchmark::Counter(b.operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

}  // namespace
}  // namespace smelt::bench

int main(int argc, char** argv) {
  using namespace smelt;
  benchmark::Initialize(&argc, argv);
  const std::vector<bench::BenchCase> cases = bench::all_cases();
  for (const bench::BenchCase& b : cases)
    for (const KernelInfo& info : all_kernels()) {
      test::KernelRunner runner(b.c);
      for (const Isa isa : machine_isas()) {
        if (!runner.make(info, isa)) continue;
        benchmark::RegisterBenchmark(
            Cat(b.c.label, '/', info.name, '/', to_string(isa)).c_str(),
            [&b, &info, isa](benchmark::State& state) { bench::run_case(state, b, info, isa); })
            ->Unit(benchmark::kMicrosecond);
      }
    }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
