// Writes models as bundled programs: a program and its test sets.
#include "formats/common/writer.h"

#include "base/error.h"
#include "formats/bundle/bundle.h"

namespace smelt::formats {

extern const Writer pte_writer;
extern const Writer bpte_writer;

namespace {

bool can_write(const Module& module, const Graph& graph, const Node& node, const WriteOptions& options) {
  return pte_writer.can_write(module, graph, node, options);
}

bool delegate_takes(const Graph& graph, const Node& node) { return pte_writer.delegate_takes(graph, node); }

Result<WriteResult> bundled(const WriteResult& program, const Module& module, const WriteOptions& options) {
  if (!program.missing.empty()) return program;
  const auto bytes = program.files[0].bytes.joined();
  bundle::Bundle made;
  made.program = *bytes;
  if (options.tests) made.tests = options.tests->tests;
  SMELT_ASSIGN(const auto written, bundle::write(made, module.methods.size()));
  WrittenFile file;
  file.bytes.append(std::string(written.begin(), written.end()));
  WriteResult result;
  result.files.push_back(std::move(file));
  return result;
}

Result<WriteResult> write(const Module& module, const WriteOptions& options) {
  SMELT_ASSIGN(const WriteResult program, pte_writer.write(module, options));
  return bundled(program, module, options);
}

Result<WriteResult> write_bounded(const Module& module, const Module& wider, const WriteOptions& options) {
  SMELT_ASSIGN(const WriteResult program, pte_writer.write_bounded(module, wider, options));
  return bundled(program, module, options);
}

}  // namespace

const Writer bpte_writer{.name = "bpte",
                         .suffix = ".bpte",
                         .can_write = can_write,
                         .write = write,
                         .integer_operators = true,
                         .static_shapes = true,
                         .write_bounded = write_bounded,
                         .int8_delegate = true,
                         .delegate_takes = delegate_takes,
                         .explicit_padding = true,
                         .channels_first = true};

}  // namespace smelt::formats
