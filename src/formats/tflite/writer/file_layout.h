#pragma once

#include <string>
#include <vector>

#include "formats/tflite/writer/subgraph_writer.h"

namespace smelt::tflite {

/// An entry point of a file: names of a subgraph's inputs and outputs, as many as the subgraph has.
struct FileSignature {
  std::string key;
  int subgraph = 0;
  std::vector<std::string> inputs, outputs;
};

/// Lays out a whole file. Fails with kLimit if its contents exceed the 2 GB that a flatbuffer holds.
Result<std::string> lay_out(const Module& module, const std::vector<FileSubgraph>& subgraphs,
                            const std::vector<FileSignature>& signatures);

/// Description of inputs and outputs, normalization and associated files as the bytes of a metadata buffer; empty if
/// the module has none.
std::string metadata_buffer(const Module& module);
/// A ZIP archive of the associated files, which goes behind the flatbuffer; empty if the module has none.
std::string associated_files(const Module& module, size_t offset);

}  // namespace smelt::tflite
