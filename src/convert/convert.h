#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convert/quantize.h"
#include "formats/common/writer.h"
#include "smelt/model.h"

namespace smelt::convert {

/// What becomes of a model on its way to another format.
struct Options {
  formats::WriteOptions write;
  std::string method;                                  ///< the method to write; "": the first
  std::map<std::string, std::vector<int64_t>> shapes;  ///< of inputs by name: sizes for the dimensions left open
  /// Constants are folded, dead nodes removed, and what exporters decompose is one operator again.
  bool simplify = false;
  /// What follows from the shapes that inputs have now is computed: the model runs for these alone. Implies `simplify`.
  bool fixed_shapes = false;
  QuantizeOptions quantization;  ///< of the simplified graph
};

/// The module to write: a copy of the model's in which the writer has a form for every node that can be decomposed into
/// such. Constants are shared with the model. Fails with kInvalidInput for an unknown method or input and for a shape
/// that contradicts the model's.
Result<Module> prepare(const Model& model, const formats::Writer& writer, const Options& options);

/// The model in the writer's format. The bytes view constants of the model, which must outlive them. The result is read
/// back before it is returned, so that no file is written that cannot be loaded.
Result<formats::WriteResult> convert(const Model& model, const formats::Writer& writer, const Options& options);

/// Replaces nodes of static shapes that the writer has no form for by their decomposition, if the writer has forms for
/// all its parts.
void decompose_for(Module& module, const formats::Writer& writer, const formats::WriteOptions& options);

/// Gives the 8-bit values of QuantizeLinear and DequantizeLinear, and of what moves or joins these, their parameters as
/// types. Inputs and outputs of graphs keep their types.
void type_integers(Module& module);

/// Makes quantized uint8 values int8 with zero points 128 less, unless all are uint8 and some weights have zero points,
/// which int8 weights lack. Inputs and outputs of graphs keep their types.
void make_int8(Module& module);

/// Replaces support vector machines by their kernel's values and linear models of those. Probabilities of more than 64
/// classes have no such form.
Status decompose_svm(Module& module);

/// Joins values of other quantization parameters where they are brought to those of the result before: one rounding
/// behind the concatenation, as formats say it whose operators stand between dequantized values.
void join_before_requantization(Module& module);

/// Makes one operator of what spells out, between DequantizeLinear and QuantizeLinear, an operator that TFLite has for
/// 8-bit values: squared differences, reciprocal square roots of what is never negative.
void name_integer_functions(Module& module);

/// Makes functions of 8-bit integers of those between Dequantize and Quantize that TFLite has kernels for: softmax and
/// logistic functions whose results have the parameters of these, 1/256 from 0 on; reciprocal square roots of what is
/// never negative; products of two computed matrices. A result may be one step off.
void join_integer_functions(Module& module);

/// Makes float16 again what widen_float16() made float32, where the delegate takes the node so; a Cast stands where
/// such a value goes to a node that stays float32. `wide`: the float32 values that stand for float16 ones.
void narrow_float16(Graph& graph, const std::vector<ValueId>& wide, bool (*takes)(const Graph&, const Node&));

/// Makes Loop of each While that counts its rounds in a variable from 0 up to a limit, where nobody reads that variable
/// behind it.
void count_loops(Module& module);

/// Multiplies constant float32 matrices and biases of products with the factors that the products have for them.
void scale_weights(Module& module);

/// Makes channels come first in images of nodes that have them last, and moves Transposes behind the nodes that can do
/// without them.
void channels_first(Module& module);

}  // namespace smelt::convert
