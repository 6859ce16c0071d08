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

Result<WriteResult> write(const Module& module, const WriteOptions& options) {
  SMELT_ASSIGN(WriteResult program, pte_writer.write(module, options));
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

}  // namespace

const Writer bpte_writer{"bpte", ".bpte", can_write, write, false, true};

}  // namespace smelt::formats
