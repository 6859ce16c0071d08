// Every kernel of the list that applies to a case, on every level of this machine. Choose by --benchmark_filter.
// Counters: Gop/s; of products of matrices and convolutions, the share of what a loop of multiplications and additions
// reaches on the level, in float32 (of bfloat16, up to 2) and, with VNNI, in int8; of products with one row, the share
// of the bandwidth at which memory of the size of their constants is read, those of all nodes that take turns where
// there are several.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <tuple>
#include <vector>

#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "bench/kernels/peak.h"
#include "tests/support/kernel_runner.h"

namespace smelt::bench {
namespace {

/// Bytes of the constant operands.
size_t constant_bytes(const test::OpCase& c) {
  size_t bytes = 0;
  for (const size_t i : c.constants) {
    bytes += c.inputs[i].bytes();
    if (const QuantPtr& q = c.inputs[i].quant()) bytes += q->scales.size() * sizeof(float);
  }
  return bytes;
}

/// Nodes that take turns: their constants are as many bytes as those of the case's network.
size_t count_nodes(const BenchCase& b) { return b.network_bytes == 0 ? 1 : b.network_bytes / constant_bytes(b.c) + 1; }

/// Adds the shares of the peaks. `seconds`: processor time of all iterations.
void add_shares(benchmark::State& state, const BenchCase& b, Isa isa, double seconds) {
  if (b.c.op != Op::kMatMul && b.c.op != Op::kMatMulInteger && b.c.op != Op::kConv && b.c.op != Op::kConvInteger)
    return;
  const auto runs = static_cast<double>(state.iterations());
  const double rate = b.operations * 1e-9 * runs / seconds;
  state.counters["of_f32_peak"] = rate / peak_f32(isa);
  if (const double peak = peak_i8(isa); peak > 0) state.counters["of_i8_peak"] = rate / peak;
}

/// A node with packed constants of its own.
struct BenchNode {
  BenchNode(const BenchCase& b, const KernelInfo& info, Isa isa)
      : runner(b.c), kernel(runner.make(info, isa)), ctx(runner, 1, kernel ? kernel->scratch_bytes() : 0) {}
  test::KernelRunner runner;
  std::unique_ptr<Kernel> kernel;
  test::KernelRunnerContext ctx;
};

void run_case(benchmark::State& state, const BenchCase& b, const KernelInfo& info, Isa isa) {
  std::vector<std::unique_ptr<BenchNode>> nodes;
  for (size_t i = 0; i < count_nodes(b); ++i) {
    nodes.push_back(std::make_unique<BenchNode>(b, info, isa));
    if (nodes.back()->kernel) continue;
    state.SkipWithError("the kernel does not apply");
    return;
  }
  size_t next = 0;
  const std::clock_t start = std::clock();
  for (auto _ : state) {
    BenchNode& node = *nodes[next];
    if (!node.kernel->run(node.ctx).ok()) state.SkipWithError("the kernel failed");
    next = next + 1 < nodes.size() ? next + 1 : 0;
  }
  state.counters["Gop/s"] = benchmark::Counter(b.operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  add_shares(state, b, isa, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  const bool is_product = b.c.op == Op::kMatMul || b.c.op == Op::kMatMulInteger;
  const auto& constants = b.c.constants;
  const bool reads_weights = std::find(constants.begin(), constants.end(), 1) != constants.end();
  if (is_product && reads_weights && b.c.inputs[0].rank() == 2 && b.c.inputs[0].dim(0) == 1)
    state.counters["of_bandwidth"] = share_of_bandwidth(nodes.size(), constant_bytes(b.c), [&] {
      for (const auto& node : nodes) std::ignore = node->kernel->run(node->ctx);
    });
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
      for (const Isa isa : named_isas()) {
        // Kernels that need none of what such a level adds are as on the best of the others.
        if (!best_isa().contains(isa) && best_isa().contains(info.isa)) continue;
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
