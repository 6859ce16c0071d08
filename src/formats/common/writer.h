#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "smelt/result.h"

namespace smelt::bundle {
struct Bundle;
}

namespace smelt::formats {

/// What a caller asks of a written file. A writer ignores what its format does not have.
struct WriteOptions {
  int opset = 0;                 ///< ONNX: version of the default domain; 0: the writer's choice
  bool float16_weights = false;  ///< float32 constants with more than one element are stored as float16
  std::string delegate = {};     ///< ExecuTorch: "xnnpack", "none"; "": the writer's choice
  std::shared_ptr<const bundle::Bundle> tests = {};  ///< bundled program: its test sets; null: none
  std::string stem = "model";  ///< name of the file without folder and suffix; names of further files begin with it
  size_t external_above = size_t{2000} << 20;  ///< ONNX: bytes of constants above which they go to a file of their own
};

/// A node or constant that the target format has no form for.
struct Unwritable {
  std::string op;     ///< operator of the graph and, in parentheses, of the file it was read from
  std::string type;   ///< element types of its operands
  std::string place;  ///< location in the model, as Node::where says, and what is missing
};

/// The contents of a file as a list of chunks. A chunk owns its bytes or views a constant that its owner keeps alive,
/// so that writing copies no weights.
class FileBytes {
 public:
  void append(std::string bytes);
  void append(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  /// All chunks in their order.
  const std::vector<std::span<const std::byte>>& chunks() const { return chunks_; }
  size_t size() const { return size_; }
  /// A copy of all bytes as one block.
  std::shared_ptr<const std::vector<std::byte>> joined() const;

 private:
  std::vector<std::span<const std::byte>> chunks_;
  std::vector<std::shared_ptr<const void>> owners_;
  size_t size_ = 0;
};

/// One file of a written model.
struct WrittenFile {
  std::string suffix;  ///< "": the model itself; else the file is WriteOptions::stem + suffix, beside the model
  FileBytes bytes;
};

/// A written model, or the list of all that the format cannot hold. `files` is empty if `missing` is not.
struct WriteResult {
  std::vector<WrittenFile> files;
  std::vector<Unwritable> missing;
};

/// A writer of one format. It takes a module as a reader made it, before the passes of back-ends.
struct Writer {
  const char* name;    ///< "onnx": the value of --to
  const char* suffix;  ///< ".onnx": the file names that choose it
  /// True if `write` has a form for the node. The caller may decompose a node that it has none for.
  bool (*can_write)(const Module& module, const Graph& graph, const Node& node, const WriteOptions& options);
  Result<WriteResult> (*write)(const Module& module, const WriteOptions& options);
  /// True if the format's operators compute on quantized values: the caller folds Q/DQ pairs into their operators.
  bool integer_operators = false;
  /// True if the format has static shapes only: the caller folds constants first, as --simplify does.
  bool static_shapes = false;
  /// Writes a module in which sizes that a run decides are bounds. `wider` is that module for larger bounds: what
  /// differs between the two has a size that the run decides. Null: the format has no such form.
  Result<WriteResult> (*write_bounded)(const Module& module, const Module& wider,
                                       const WriteOptions& options) = nullptr;
  /// True if the format's delegate, unless WriteOptions::delegate is "none", has scales by channel for int8 alone: the
  /// caller makes quantized uint8 values int8, unless weights have zero points.
  bool int8_delegate = false;
  /// True if that delegate has a form for the node. Null: the format has no delegate.
  bool (*delegate_takes)(const Graph& graph, const Node& node) = nullptr;
  /// True if the format has operators for what exporters of others decompose (GELU, the bias of a product, what
  /// normalizes and activates a convolution): the caller fuses these first, as --simplify does, and folds what follows
  /// from the shapes of static inputs.
  bool fused_operators = false;
  /// True if the format's convolutions and pools pad by any number: the caller makes borders of other formats' models
  /// part of them.
  bool explicit_padding = false;
  /// True if the format's loops count their rounds: the caller makes such of loops that do so in a variable.
  bool counted_loops = false;
  /// True if the format's operators, those of its delegate aside, take images with channels first: the caller brings
  /// them to that order.
  bool channels_first = false;
};

/// All writers; the list is formats/writers.inc.
std::span<const Writer* const> all_writers();
/// The writer of this name; null if there is none.
const Writer* find_writer(std::string_view name);

/// "Conv (CONV_2D)": how Unwritable::op names a node.
std::string operator_label(const Node& node);
/// "float32, int8": the element types of a node's operands, each once.
std::string operand_types(const Graph& graph, const Node& node);

}  // namespace smelt::formats
