// Models through a writer and back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "convert/convert.h"
#include "tensor/numeric.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt::test {

/// What the writer of this name makes of the model.
inline Result<formats::WriteResult> written(const Model& model, std::string_view writer,
                                            const convert::Options& options = {}) {
  const formats::Writer* const w = formats::find_writer(writer);
  if (!w) return Internal("no writer ", writer);
  return convert::convert(model, *w, options);
}

/// The model written in one file and read back. An error of code kUnsupported names the first that the format lacks.
inline Result<Model> rewritten(const Model& model, std::string_view writer, const convert::Options& options = {}) {
  SMELT_ASSIGN(const auto result, written(model, writer, options));
  if (!result.missing.empty()) return Unsupported(result.missing[0].op, ": ", result.missing[0].place);
  const auto bytes = result.files[0].bytes.joined();
  return Model::load_bytes(*bytes, bytes, "written model");
}

/// A module of the case's operator: input 0 is fed, the others are constants.
inline std::shared_ptr<Module> one_node(OpCase c) {
  for (size_t i = 1; i < c.inputs.size(); ++i) c.constants.push_back(i);
  auto module = OpRunner(c).module();
  EXPECT_TRUE(module.ok()) << c.label << ": " << (module.ok() ? "" : module.error().message());
  return module.ok() ? *module : std::make_shared<Module>();
}

/// Checks that a module gives the same results when it is written and read back: floats within `relative`, which is
/// absolute below 1, integers that are computed from quantized values within one step. Returns the model of the file.
inline std::optional<Model> expect_same_written(const std::shared_ptr<Module>& module, const std::vector<Datum>& fed,
                                                std::string_view writer, const convert::Options& options = {},
                                                double relative = 1e-5) {
  const Model model = ModelAccess::make(module);
  auto back = rewritten(model, writer, options);
  EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message());
  if (!back.ok()) return std::nullopt;
  bool quantized = false;
  std::vector<Datum> unquantized = fed;
  for (Datum& d : unquantized) {
    quantized = quantized || d.tensor.quant();
    d.tensor.set_quant(nullptr);
  }
  const auto want = run_on_reference(model, fed), got = run_on_reference(*back, unquantized);
  EXPECT_EQ(got.size(), want.size());
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const Tensor &a = got[i].tensor, &b = want[i].tensor;
    EXPECT_EQ(a.shape(), b.shape()) << "output " << i;
    EXPECT_EQ(a.dtype(), b.dtype()) << "output " << i;
    if (a.shape() != b.shape()) return std::nullopt;
    const double step = is_integer(b.dtype()) && (quantized || b.quant()) ? 1 : 0;
    for (int64_t k = 0; k < b.elements(); ++k) {
      const double x = get_double(a, k), y = get_double(b, k);
      EXPECT_NEAR(x, y, std::max(step, relative * std::max(1.0, std::abs(y)))) << "output " << i << ", element " << k;
    }
  }
  return *back;
}

}  // namespace smelt::test
