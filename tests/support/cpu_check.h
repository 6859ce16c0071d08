// For tests: compares kernels of the CPU's list with the reference kernel.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/coverage.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tested_levels.h"

namespace smelt::test {

/// A level's kernel is chosen without a look at packed weights: `inspect` names it without packing any.
inline void expect_chosen_dry(KernelRunner& runner, Isa isa) {
  const KernelInfo *packed = runner.choose(isa, PackCache::Mode::kPack),
                   *dry = runner.choose(isa, PackCache::Mode::kDry);
  EXPECT_EQ(packed, dry) << to_string(isa) << ": " << (packed ? packed->name : "none") << ", but "
                         << (dry ? dry->name : "none") << " where nothing is packed";
}

/// Runs a kernel, also over the inputs that it may overwrite, compares its outputs and records that it was compared.
inline void expect_runs(KernelRunner& runner, const KernelInfo& info, const Kernel& kernel, Isa isa, int threads,
                        const std::vector<Tensor>& expected, Tolerance tolerance) {
  SCOPED_TRACE(std::string(info.name) + " " + to_string(isa) + " threads " + std::to_string(threads));
  const auto got = runner.run(kernel, threads);
  ASSERT_TRUE(got.ok()) << got.error().message();
  note_compared(info.name);
  const auto in_place = runner.run_in_place(kernel, threads);
  ASSERT_TRUE(in_place.ok()) << in_place.error().message();
  for (size_t i = 0; i < in_place->size(); ++i) {
    SCOPED_TRACE("over input " + std::to_string(i));
    if ((*in_place)[i].empty()) continue;
    expect_same((*in_place)[i][0], expected[0], tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_same((*got)[i], expected[i], tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

/// Runs a kernel on weights that are packed and kept in a store, and on those that it finds there. All cases share the
/// store: one whose packed form follows from more than its contents say would find another one's.
inline void expect_runs_on_kept(KernelRunner& runner, const KernelInfo& info, Isa isa,
                                const std::vector<Tensor>& expected, Tolerance tolerance) {
  static const TemporaryFolder folder;
  static const auto store = PackStore::open(folder.path().string(), 0);
  ASSERT_TRUE(store);
  for (const char* const weights : {"packed", "kept"}) {
    SCOPED_TRACE(weights);
    PackCache packs(PackCache::Mode::kPack, store);
    const auto kernel = runner.make(info, isa, 1, packs);
    ASSERT_TRUE(kernel);
    ASSERT_NO_FATAL_FAILURE(expect_runs(runner, info, *kernel, isa, 1, expected, tolerance));
  }
}

/// Runs a kernel that takes its weights after it was made, if it can.
inline void expect_runs_with_later_weights(KernelRunner& runner, const KernelInfo& info, Isa isa,
                                           const std::vector<Tensor>& expected, Tolerance tolerance) {
  SCOPED_TRACE("weights taken later");
  if (const auto kernel = runner.make_before_weights(info, isa, 1))
    expect_runs(runner, info, *kernel, isa, 1, expected, tolerance);
}

/// Runs every kernel of the list that applies to the case, on every level that is tested, and on the best with three
/// threads, with kept weights and with weights taken later, too. Integer outputs must be equal, others within the
/// tolerance. `want` names a kernel that must apply.
inline void check_on_cpu(const OpCase& c, const std::string& want = "", Tolerance tolerance = {}) {
  SCOPED_TRACE(c.label);
  KernelRunner runner(c);
  ASSERT_TRUE(runner.shape_error().ok()) << runner.shape_error().error().message();
  const auto expected = runner.reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  bool wanted = want.empty();
  for (const KernelInfo& info : all_kernels())
    for (const Isa isa : tested_isas())
      for (int threads : {1, 3}) {
        if (threads > 1 && (!c.threaded || isa != best_isa() || best_level_only())) continue;
        const auto kernel = runner.make(info, isa, threads);
        if (!kernel) continue;
        wanted = wanted || want == info.name;
        ASSERT_NO_FATAL_FAILURE(expect_runs(runner, info, *kernel, isa, threads, *expected, tolerance));
        if (threads > 1 || isa != best_isa() || best_level_only()) continue;
        ASSERT_NO_FATAL_FAILURE(expect_runs_on_kept(runner, info, isa, *expected, tolerance));
        ASSERT_NO_FATAL_FAILURE(expect_runs_with_later_weights(runner, info, isa, *expected, tolerance));
      }
  EXPECT_TRUE(wanted) << "kernel " << want << " does not apply";
  if (best_level_only()) return;
  for (const Isa isa : machine_isas()) expect_chosen_dry(runner, isa);
}

/// Runs every kernel of the list that applies to the case on the best level: there are some, and each must fail.
inline void check_fails(const OpCase& c) {
  SCOPED_TRACE(c.label);
  KernelRunner runner(c);
  int applied = 0;
  for (const KernelInfo& info : all_kernels())
    if (const auto kernel = runner.make(info, best_isa(), 1)) {
      ++applied;
      EXPECT_FALSE(runner.run(*kernel, 1).ok()) << info.name;
    }
  EXPECT_GT(applied, 0) << "no kernel applies";
}

/// Runs the kernels of the case's operator on the lowest level: each applies, and fails with the reference kernel's
/// message.
inline void check_fails_alike(const OpCase& c) {
  SCOPED_TRACE(c.label);
  KernelRunner runner(c);
  ASSERT_TRUE(runner.shape_error().ok());
  const auto want = runner.reference();
  ASSERT_FALSE(want.ok());
  for (const KernelInfo& info : all_kernels()) {
    if (info.op != c.op) continue;
    const auto kernel = runner.make(info, Isa::kBaseline);
    ASSERT_TRUE(kernel);
    const auto got = runner.run(*kernel);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().message(), want.error().message());
  }
}

/// Compares the kernel of that name, which needs a level that is used where it is named only, with the reference
/// kernel, with one and three threads. Precondition: the machine has the level.
inline void check_named(const OpCase& c, const std::string& name, Isa isa, Tolerance tolerance) {
  SCOPED_TRACE(c.label);
  KernelRunner runner(c);
  ASSERT_TRUE(runner.shape_error().ok()) << runner.shape_error().error().message();
  const auto expected = runner.reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  const auto info = std::ranges::find(all_kernels(), name, &KernelInfo::name);
  ASSERT_NE(info, all_kernels().end()) << name;
  for (int threads : {1, 3}) {
    const auto kernel = runner.make(*info, isa, threads);
    ASSERT_TRUE(kernel) << name << " does not apply: " << runner.refusal(isa);
    ASSERT_NO_FATAL_FAILURE(expect_runs(runner, *info, *kernel, isa, threads, *expected, tolerance));
  }
  ASSERT_NO_FATAL_FAILURE(expect_runs_on_kept(runner, *info, isa, *expected, tolerance));
  expect_chosen_dry(runner, isa);
}

/// True if this machine has the level.
inline bool machine_has(Isa isa) { return std::ranges::count(named_isas(), isa) > 0; }

/// The levels of this machine that round operands to bfloat16.
inline std::vector<Isa> bf16_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : named_isas())
    if (isa.has(IsaFeature::kBf16)) isas.push_back(isa);
  return isas;
}

}  // namespace smelt::test
